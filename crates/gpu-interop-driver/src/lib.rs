//! What the vendor backends share.
//!
//! NVIDIA's and AMD's drivers are near twins: both are looked for as a shared library, both are tables of C functions
//! that return a status code, and their interop descriptors have the same layout since HIP 6. Each of these things is
//! written here once; what differs is in the backends.
//!
//! # What this crate promises
//! * A library is loaded at most once per backend, never unloaded, and never from the current directory.
//! * A missing library is one error with every path tried and the dynamic linker's own words.
//! * A missing symbol is an error of the function that needs it, or of loading if nothing works without it. Either names
//!   the symbol, the driver's version, and the version that the symbol came with.
//! * Encoding a request is a pure function, the same on every operating system.
//!
//! # What the caller must do
//! * Declare functions with the types of the vendor's headers: a symbol's type cannot be checked.

pub mod abi;
mod batch;
mod library;
mod symbol;
mod table;

pub use batch::{with_signals, with_waits};
pub use library::{DriverLibrary, LibrarySearch};
pub use symbol::{ApiVersion, MissingSymbol, OptionalFunction};
