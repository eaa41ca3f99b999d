//! How the functions of the driver are written.

/// Functions of the driver, each with its type in the headers.
macro_rules! functions {
    ($($type:ident $function:ident($($argument:ident: $of:ty),* $(,)?) -> $answer:ty $body:block)*) => {
        $(
            #[allow(non_snake_case, unused_variables, clippy::too_many_arguments, reason = "Vulkan's own")]
            unsafe extern "system" fn $function($($argument: $of),*) -> $answer $body
        )*

        /// The function of this name; null if the driver has none.
        pub(super) fn address(name: &CStr) -> *const c_void {
            match name.to_str().unwrap_or_default() {
                $(stringify!($function) => {
                    let function: vk::$type = $function;
                    function as *const c_void
                })*
                _ => std::ptr::null(),
            }
        }
    };
}

/// A chain of structures as a line.
macro_rules! shown {
    ($first:expr) => {
        // SAFETY: the library's structures, live for the call.
        unsafe { crate::show::structures($first.cast()) }
    };
}

/// An array as lines.
macro_rules! shown_all {
    ($first:expr, $count:expr) => {{
        // SAFETY: the library's array of so many structures.
        let all = unsafe { crate::show::elements($first, $count) };
        all.iter().map(|one| shown!(std::ptr::from_ref(one))).collect::<Vec<_>>().join(", ")
    }};
}

/// Writes an answer.
macro_rules! answer {
    ($to:expr, $value:expr) => {
        // SAFETY: a pointer of the library's for one value of this type.
        unsafe { $to.write($value) }
    };
}

pub(super) use {answer, functions, shown, shown_all};
