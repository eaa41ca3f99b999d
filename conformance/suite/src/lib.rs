//! The conformance suite: the same scenarios on every backend, with the data verified on both sides.
//!
//! A scenario imports what an exporter exported and checks every byte in both directions. It is written once, against
//! the safe objects of `gpu_interop`, and runs on any backend; exporters (a real Vulkan driver, the device's own
//! exportable memory) are the other side.
//!
//! This is the library: scenarios, exporters, backends, expectations, the leak check. `gpu-interop-conformance-cli` has the
//! command: it runs scenarios in other processes, so that a driver that crashes is a result, and writes reports.
//!
//! # What this crate promises
//! * A scenario passes only if everything it checks held. What could not be run is `unsupported` (the device or
//!   exporter says so) or `skipped` (the machine lacks something), with the reason, and never counts as passed.
//! * With the same seed, the same data.
//!
//! # What the caller must do
//! * A program that runs the suite with a backend of its own returns `gpu_interop_conformance_cli::main` from `main`, first
//!   thing: the program is started again for every few groups of scenarios.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use gpu_interop::Backend;
//! use gpu_interop_conformance::{BackendUnderTest, Suite};
//!
//! let mine = BackendUnderTest::new("mine", || Ok(Arc::new(gpu_interop::host::HostBackend::new()) as Arc<dyn Backend>));
//! let suite = Suite::standard().with_backend(mine);
//! assert!(!suite.scenarios().is_empty());
//! ```
//!
//! `conformance/examples/third-party` in the repository is a whole program.
//!
//! Linux and Windows.

mod backend_under_test;
pub mod catalogue;
mod context;
mod device_memory;
#[cfg(windows)]
mod direct3d;
mod discovery;
pub mod execution;
mod expectations;
mod exporter;
mod gate;
#[cfg(unix)]
mod gl;
mod image;
mod leak_check;
mod need;
mod outcome;
mod pattern;
mod peer;
pub mod process;
#[cfg(unix)]
mod raw_cuda;
pub mod request;
mod scenario;
mod scenarios;
mod service;
mod stream_capture;
mod suite;
pub mod system;

pub use backend_under_test::{BackendUnderTest, DriverApi, MakeSemaphore, host_semaphore};
pub use context::{Context, Observation, Observations, Recorded, Seeds};
pub use discovery::{Discovery, ExporterDetail, ExporterReport, discover};
pub use expectations::{Expectations, Machine, Place, Version};
#[cfg(unix)]
pub use exporter::vulkan_device;
pub use exporter::{
    BufferAccess, BufferSpec, Complaints, Exchange, ExportedBuffer, ExportedImage, ExportedSemaphore, Exporter,
    ExporterFeature, ExporterName, ImageSpec, NO_LAYER, Placement, Point, RowLayout, Tiling,
};
pub use leak_check::{ResourceSnapshot, leak_check};
pub use need::{DriverUse, Need, Setup};
pub use outcome::{Outcome, Stop, Verdict};
pub use pattern::Pattern;
pub use peer::{Channel, Incoming, Message, Peer};
pub use scenario::{Exporters, Scenario};
pub use service::SUBCOMMAND;
pub use suite::{BACKEND_NAMES, Suite};
pub use system::{BorrowedOsHandle, OsHandle};
