//! Optional functions of a driver, errors for missing symbols, and [`driver_table!`](crate::driver_table): tables of a driver's
//! functions.

use std::ffi::CStr;
use std::fmt;

use gpu_interop_core::{Error, ErrorKind, Result, Support};

use crate::library::DriverLibrary;

/// API version that a driver implements: CUDA 12.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApiVersion {
    /// Name of the API: `CUDA`, `HIP`.
    pub api: &'static str,
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl ApiVersion {
    /// Returns whether this is the version `(major, minor)` or a later one.
    #[must_use]
    pub fn is_at_least(self, (major, minor): (u32, u32)) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.api, self.major, self.minor)
    }
}

/// Function of type `F`. A driver without it is usable.
#[derive(Debug, Clone, Copy)]
pub struct OptionalFunction<F> {
    name: &'static CStr,
    since: (u32, u32),
    function: Option<F>,
}

impl<F: Copy> OptionalFunction<F> {
    /// Function `name`, introduced by version `since` (major, minor) of its API; `function` is `None` if the library
    /// lacks it.
    #[must_use]
    pub const fn new(name: &'static CStr, since: (u32, u32), function: Option<F>) -> Self {
        Self { name, since, function }
    }

    /// Returns the function, if the driver has it.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<F> {
        self.function
    }

    /// Returns the function or an error for the caller.
    ///
    /// # Errors
    /// [`ErrorKind::DriverTooOld`] if `driver` is older than the function, otherwise [`ErrorKind::SymbolMissing`]. Both
    /// name the function, the driver's version and the version that introduced the function.
    #[inline]
    pub fn require(&self, driver: &ApiVersion) -> Result<F> {
        self.function.ok_or_else(|| self.missing(*driver))
    }

    /// Support of `driver` for the function, for its device's capabilities. The reason is that of
    /// [`OptionalFunction::require`].
    #[must_use]
    pub fn support(&self, driver: ApiVersion) -> Support {
        match self.function {
            Some(_) => Support::Native,
            None if self.is_newer_than(driver) => Support::DriverTooOld(self.reason(driver)),
            None => Support::SymbolMissing(self.reason(driver)),
        }
    }

    #[cold]
    fn missing(&self, driver: ApiVersion) -> Error {
        let kind = if self.is_newer_than(driver) { ErrorKind::DriverTooOld } else { ErrorKind::SymbolMissing };
        // Names in a driver's headers are ASCII.
        Error::new(kind, self.name.to_str().unwrap_or("dlsym"), self.reason(driver))
    }

    fn is_newer_than(&self, driver: ApiVersion) -> bool {
        !driver.is_at_least(self.since)
    }

    fn reason(&self, driver: ApiVersion) -> String {
        let name = self.name.to_string_lossy();
        let since = ApiVersion { api: driver.api, major: self.since.0, minor: self.since.1 };
        if self.is_newer_than(driver) {
            format!("the driver ({driver}) has no {name}, which came with {since}; install a newer driver")
        } else {
            format!(
                "the driver ({driver}) has no {name}, although it came with {since}; check that its installation is complete"
            )
        }
    }
}

/// Missing symbol of a required function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingSymbol(pub &'static CStr);

impl MissingSymbol {
    /// Error of loading `library`. `driver` is the version it reports, if any; `complete_since` is the version of `api`
    /// (major, minor) from which every driver has all required symbols.
    #[must_use]
    pub fn error(
        self,
        library: &DriverLibrary,
        api: &'static str,
        driver: Option<ApiVersion>,
        complete_since: (u32, u32),
    ) -> Error {
        let name = self.0.to_string_lossy();
        let since = ApiVersion { api, major: complete_since.0, minor: complete_since.1 };
        let (kind, message) = match driver {
            None => (
                ErrorKind::SymbolMissing,
                format!("the library has no {name}, so it is no {api} driver; name another file, or none"),
            ),
            Some(driver) if driver.is_at_least(complete_since) => (
                ErrorKind::SymbolMissing,
                format!("the library has no {name}, although it reports {driver}; drivers have it since {since}"),
            ),
            Some(driver) => (
                ErrorKind::DriverTooOld,
                format!("the driver ({driver}) has no {name}; drivers have it since {since}; install a newer driver"),
            ),
        };
        Error::new(kind, "dlsym", message).with_context("library", library.name().display())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: (u32, u32) = (10, 2);

    fn version(major: u32, minor: u32) -> ApiVersion {
        ApiVersion { api: "CUDA", major, minor }
    }

    #[test]
    fn versions_compare_by_major_then_minor() {
        for (driver, at_least) in [((10, 1), false), ((9, 9), false), ((10, 2), true), ((11, 0), true)] {
            assert_eq!(version(driver.0, driver.1).is_at_least(SINCE), at_least, "{driver:?}");
        }
    }

    #[test]
    fn the_error_for_a_missing_function_names_both_versions() {
        let function = OptionalFunction::<fn()>::new(c"cuMemCreate", SINCE, None);
        let old = function.require(&version(10, 1)).expect_err("missing");
        assert_eq!((old.kind(), old.operation()), (ErrorKind::DriverTooOld, "cuMemCreate"));
        let text = old.to_string();
        assert!(text.contains("(CUDA 10.1) has no cuMemCreate, which came with CUDA 10.2"), "{text}");
        assert_eq!(function.support(version(10, 1)), Support::DriverTooOld(old.message().into()));
        let incomplete = function.require(&version(13, 0)).expect_err("missing");
        assert_eq!(incomplete.kind(), ErrorKind::SymbolMissing);
        assert!(incomplete.to_string().contains("(CUDA 13.0) has no cuMemCreate, although"), "{incomplete}");
        assert_eq!(function.support(version(13, 0)), Support::SymbolMissing(incomplete.message().into()));
    }

    #[test]
    fn a_present_function_is_returned_whatever_the_version() {
        let function = OptionalFunction::<fn() -> u32>::new(c"f", SINCE, Some(|| 7));
        assert_eq!(function.require(&version(9, 0)).expect("there")(), 7);
        assert_eq!(function.support(version(9, 0)), Support::Native);
    }
}
