//! The conformance suite: the same scenarios on every backend, with the data verified on both sides.
//!
//! A scenario imports what an exporter exported and checks every byte in both directions. It is written once, against
//! the safe objects of `gpu_interop`, and runs on any backend; exporters (a real Vulkan driver, the device's own
//! exportable memory) are the other side. Scenarios run in other processes, so that a driver that crashes is a result: a
//! group of them, such as `memory.*`, shares one until something fails.
//!
//! # What this crate promises
//! * A scenario passes only if everything it checks held. What could not be run is `unsupported` (the device or
//!   exporter says so) or `skipped` (the machine lacks something), with the reason, and never counts as passed.
//! * A run in which nothing ran, or something that was required is missing, fails.
//! * With the same seed, the same data.
//!
//! # What the caller must do
//! * A program that runs the suite with a backend of its own returns [`Suite::main`] from `main`, first thing: the
//!   suite starts the program again for every few groups of scenarios.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use gpu_interop::Backend;
//! use gpu_interop_conformance::{BackendUnderTest, Suite};
//!
//! fn main() -> ExitCode {
//!     let mine = BackendUnderTest::new("mine", || Ok(Arc::new(gpu_interop::host::HostBackend::new()) as Arc<dyn Backend>));
//!     Suite::standard().with_backend(mine).main()
//! }
//! ```
//!
//! `conformance/examples/third-party` in the repository is a whole one.
//!
//! Linux and Windows.

mod accounting;
mod backend_under_test;
mod bench;
mod calls;
mod catalogue;
mod cli;
mod context;
mod device_memory;
#[cfg(windows)]
mod direct3d;
mod doctor;
mod emulate;
mod expectations;
mod exporter;
mod files;
mod foreign_recording;
#[cfg(unix)]
mod gl;
mod image;
mod internal;
mod interrupt;
mod manual;
mod outcome;
mod output;
mod pattern;
mod peer;
#[cfg(unix)]
mod raw_cuda;
mod report;
mod request;
mod requirement;
mod runner;
mod scenario;
mod scenarios;
mod suite;
mod system;

pub use accounting::Holdings;
pub use backend_under_test::{BackendUnderTest, MakeSemaphore, host_semaphore};
pub use bench::{BENCH_SCHEMA, BenchReport, Limit, Measurement, NotMeasured, Ratio};
pub use context::Context;
pub use exporter::{
    BufferAccess, BufferSpec, Complaints, Exchange, ExportedBuffer, ExportedImage, ExportedSemaphore, Exporter,
    ExporterName, ImageSpec, Placement, Point, RowLayout, Tiling,
};
pub use outcome::{Outcome, Stop, Verdict};
pub use pattern::Pattern;
pub use peer::{Channel, Message, Peer};
pub use report::{
    Call, CallTrace, CaseReport, Emulated, Environment, ExporterDetail, ExporterReport, MERGED_SCHEMA, Merged, NotRead,
    Observation, Report, Returned, SCHEMA, Sourced, Tool,
};
pub use scenario::{Exporters, Scenario};
pub use suite::Suite;
pub use system::{BorrowedOsHandle, OsHandle};
