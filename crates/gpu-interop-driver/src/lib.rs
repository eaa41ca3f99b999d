//! What the vendor backends share.
//!
//! NVIDIA's and AMD's drivers are near twins: both are looked for as a shared library, both are tables of C functions
//! that return a status code, most of the functions differ only in their names, and the interop descriptors have the
//! same layout since HIP 6. Each of these things is written here once: [`VendorBackend`] and its devices are the whole
//! backend. What differs is what a vendor's crate says by implementing [`Vendor`].
//!
//! # What this crate promises
//! * A library is never unloaded: each backend that is loaded looks it up again, and finds the one that is in the
//!   process.
//! * None is looked for in the current directory; a file that the user names with the vendor's variable is taken as
//!   named.
//! * A missing library is one error with every path tried and the dynamic linker's own words.
//! * A missing symbol is an error of the function that needs it, or of loading if nothing works without it. Either names
//!   the symbol, the driver's version, and the version that the symbol came with.
//! * Encoding a request is a pure function, the same on every operating system.
//!
//! * Between a device's method and the driver's function there is nothing but what makes the device current, a look at
//!   the status, and what a constant of the vendor's asks for.
//!
//! # What it tells
//! * Every call of a driver's function is two events of `tracing`, [`DRIVER_CALL`]: what is called with what, and what
//!   came back when. Of a driver that crashes the last is the call that it crashed in.
//!
//! # What the caller must do
//! * Declare functions with the types of the vendor's headers: a symbol's type cannot be checked.

pub mod abi;
mod arguments;
pub mod array;
mod backend;
mod batch;
mod call;
mod capabilities;
mod capture_mode;
mod copied_fill;
mod device;
mod driver;
pub mod exportable;
mod functions;
mod graph;
mod host_words;
mod import;
mod late_release;
mod launch_order;
mod lending;
mod levels;
mod library;
mod mapping;
mod progress;
mod signal_memory;
mod status;
mod symbol;
mod table;
pub mod texture;
mod trace;
mod trusted_environment;
mod unfenced;
mod vendor;

pub use backend::VendorBackend;
pub use batch::{with_signals, with_waits};
pub use capabilities::both;
pub use driver::{Driver, text_at, text_in};
pub use functions::{DeviceAddress, DeviceNumber, Handle, Naming};
pub use library::{DriverLibrary, LibrarySearch};
pub use status::{LOST, Status};
pub use symbol::{ApiVersion, MissingSymbol, OptionalFunction};
pub use trace::{DRIVER_CALL, DriverFunction, Shown};
pub use vendor::{Doing, REFUSED, Vendor, WordWait};
