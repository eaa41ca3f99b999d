//! Shared implementation of the CUDA and HIP backends.
//!
//! NVIDIA's and AMD's drivers have the same shape: a shared library of C functions that return a status code. Most
//! functions differ only in their names, and the interop descriptors have the same layout since HIP 6.
//! [`VendorBackend`] and its devices implement the whole backend once; `gpu-interop-cuda` and `gpu-interop-hip` supply
//! the differences by implementing [`Vendor`].
//!
//! # Guarantees
//! * A library is never unloaded. Loading another backend looks the library up again and finds the copy already in the
//!   process.
//! * The current directory is never searched. A file named by the vendor's environment variable is loaded as named.
//! * A missing library is one error that lists every path tried, with the dynamic linker's message for each.
//! * A missing optional symbol is an error of the function that needs it; a missing required symbol is an error of
//!   loading. Both name the symbol, the driver's version and the version that introduced the symbol.
//! * Encoding a request is a pure function, the same on every operating system.
//!
//! * A device's method adds to the driver's function only the switch of the current device, the check of the status,
//!   and the workarounds that the constants of [`Vendor`] enable.
//!
//! # Tracing
//! * Every call of a driver's function emits two `tracing` events with the target [`DRIVER_CALL`]: one with the
//!   arguments before the call, one with the status and duration after it. If the driver crashes, the last event is the
//!   call it crashed in.
//!
//! # Requirements on the caller
//! * Functions are declared with the types of the vendor's headers: the type of a symbol cannot be checked.

#![doc(html_root_url = "../")]

pub mod abi;
pub mod array;
mod backend;
mod batch;
mod call;
mod capabilities;
mod context;
mod device;
mod driver;
pub mod exportable;
mod fills;
mod functions;
mod graph;
mod import;
mod library;
mod mapping;
mod progress;
mod signal_memory;
mod status;
mod symbol;
pub mod texture;
mod trace;

pub use backend::VendorBackend;
pub use batch::{with_signals, with_waits};
pub use capabilities::both;
pub use driver::{CallPurpose, Driver, IMPORT_REJECTED, Vendor, WordWait, text_at, text_in};
pub use functions::{DeviceAddress, DeviceNumber, Handle, Naming};
pub use library::{DriverLibrary, LibrarySearch, search_also};
pub use status::{DEVICE_LOST, Status};
pub use symbol::{ApiVersion, MissingSymbol, OptionalFunction};
pub use trace::{DRIVER_CALL, DriverFunction, Shown};
