//! [`driver_table!`](crate::driver_table): tables of a driver's functions.

/// Declares a struct of function pointers, filled once from a [`DriverLibrary`](crate::DriverLibrary).
///
/// ```
/// gpu_interop_driver::driver_table! {
///     /// Functions of the C library.
///     pub(crate) struct Functions {
///         required {
///             /// The process id.
///             getpid: fn() -> i32 = c"getpid";
///         }
///         optional {
///             no_such: fn(x: u32) -> i32 = c"no_such_function", c"its_older_name" since (10, 2);
///         }
///     }
/// }
/// ```
///
/// Loading fails if a required symbol is missing. An optional symbol becomes an
/// [`OptionalFunction`](crate::OptionalFunction) with the major and minor version that introduced it. Of several names
/// the first existing one is used.
#[macro_export]
macro_rules! driver_table {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $table:ident {
            required { $( $(#[$required_meta:meta])* $required:ident: fn($($required_arg:ident: $required_type:ty),* $(,)?)
                -> $required_result:ty = $($required_name:literal),+; )* }
            optional { $( $(#[$optional_meta:meta])* $optional:ident: fn($($optional_arg:ident: $optional_type:ty),* $(,)?)
                -> $optional_result:ty = $($optional_name:literal),+ since ($major:literal, $minor:literal); )* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[allow(clippy::type_complexity)]
        $visibility struct $table {
            $( $(#[$required_meta])* pub(crate) $required:
                unsafe extern "system" fn($($required_type),*) -> $required_result, )*
            $( $(#[$optional_meta])* pub(crate) $optional:
                $crate::OptionalFunction<unsafe extern "system" fn($($optional_type),*) -> $optional_result>, )*
        }

        impl $table {
            /// Looks up every symbol.
            ///
            /// # Safety
            /// The library is the driver whose functions the table declares.
            $visibility unsafe fn load(
                library: &$crate::DriverLibrary,
            ) -> ::std::result::Result<Self, $crate::MissingSymbol> {
                Ok(Self {
                    $( $required: {
                        // SAFETY: the library is the driver, and the table has the types of the driver's headers.
                        let found = None$( .or_else(|| unsafe { library.symbol($required_name) }) )+;
                        found.ok_or($crate::MissingSymbol([$($required_name),+][0]))?
                    }, )*
                    $( $optional: {
                        // SAFETY: as above.
                        let found = None$( .or_else(|| unsafe { library.symbol($optional_name) }) )+;
                        $crate::OptionalFunction::new([$($optional_name),+][0], ($major, $minor), found)
                    }, )*
                })
            }
        }
    };
}
