//! Libraries of a driver, found at run time: their functions and structs, for the examples.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

/// A library that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// In the words of the system's loader, with the file's name.
    #[error("{0}")]
    Library(String),
    #[error("{} lacks the function {function}", file.display())]
    Function { file: PathBuf, function: &'static str },
}

/// Loads a library of the driver.
pub(crate) fn load(file: &Path) -> Result<libloading::Library, LoadError> {
    // SAFETY: the library is the driver's, whose initialisers have no requirements.
    unsafe { libloading::Library::new(file) }.map_err(|error| {
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        LoadError::Library(reason.unwrap_or_else(|| format!("{}: {error}", file.display())))
    })
}

/// What a function of a driver returns.
pub(crate) type Status = c_int;

/// Defines the functions that are used of a library. All return a [`Status`].
macro_rules! functions {
    ($(#[$doc:meta])* $library:ident { $($name:ident = $symbol:literal: fn($($argument:ty),*);)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $library {
            $(pub(crate) $name: unsafe extern "system" fn($($argument),*) -> crate::driver_library::Status,)*
            _library: libloading::Library,
        }

        impl $library {
            /// Loads the library.
            pub(crate) fn load(file: &std::path::Path) -> std::result::Result<Self, crate::driver_library::LoadError> {
                use crate::driver_library::{LoadError, Status};
                let library = crate::driver_library::load(file)?;
                $(
                    // SAFETY: the driver's function of this name has this signature.
                    let $name = unsafe { library.get::<unsafe extern "system" fn($($argument),*) -> Status>($symbol) }
                        .map(|symbol| *symbol)
                        .map_err(|_| LoadError::Function { file: file.to_owned(), function: $symbol })?;
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

/// Defines structs of C, whose fields all are numbers, pointers, optional functions, or arrays and structs of these.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $kind,)*
        }

        // SAFETY: zeros are a number, a null pointer, or `None` of a function.
        unsafe impl crate::driver_library::Plain for $name {}
    )* };
}

pub(crate) use {functions, structs};

/// A struct that may have every byte 0.
///
/// # Safety
/// Zeros are a value of every field.
pub(crate) unsafe trait Plain: Copy {}

/// The struct with every byte 0, which libraries take as the default.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: the trait's promise.
    unsafe { std::mem::zeroed() }
}
