//! Declarations of the functions of a driver's C interface.

/// Declares functions of a driver's interface: exported under their names, counted, and subject to the faults of
/// [`settings`](crate::settings). A body answers `Result<(), u32>`. `gives` names the pointer to the result, which
/// becomes zeros where success with a null result is injected. `failing` runs, with the code, where a failure is.
/// Functions that follow `after check;` run `check` before their bodies, and fail with it.
#[macro_export]
macro_rules! entries {
    (after $check:path; $($functions:tt)*) => {
        $crate::entries! { @[$check()?;] $($functions)* }
    };
    (fn $($functions:tt)*) => {
        $crate::entries! { @[] fn $($functions)* }
    };
    (@$before:tt $(
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(gives $out:ident)? $(failing $failing:expr;)? $body:block
    )*) => { $(
        #[doc = concat!("Simulates `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the vendor's documentation requires: pointers are valid for the call, and memory used by work on a stream
        /// is valid until that work has run.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe, clippy::too_many_arguments, reason = "the vendor's interface")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            let gives = !<[&str]>::is_empty(&[$(stringify!($out))?]);
            match $crate::faults::strike(stringify!($name), gives) {
                $crate::faults::Strike::None => {}
                $crate::faults::Strike::Code(code) => {
                    // SAFETY: the caller's promise about its arguments.
                    $( unsafe { ($failing)(code) }; )?
                    return code;
                }
                $crate::faults::Strike::Null => {
                    // SAFETY: the caller's promise about its arguments; every result is a number or a pointer.
                    $( unsafe { $out.write_bytes(0, 1) }; )?
                    return 0;
                }
            }
            // SAFETY: the caller's promise about its arguments.
            let run = || -> Result<(), u32> { unsafe { $crate::unbracket! $before; $body } };
            run().err().unwrap_or(0)
        }
    )* };
}

/// What is in brackets.
#[doc(hidden)]
#[macro_export]
macro_rules! unbracket {
    [$($inside:tt)*] => { $($inside)* };
}
