//! The conformance suite: data-verifying scenarios that run unchanged on every backend.
//!
//! A scenario imports an exporter's objects and checks every byte in both directions. It uses the safe objects of
//! `gpu_interop`, so it runs on any backend. The exporter is a real Vulkan driver, Direct3D 12, or the device's own
//! exportable memory.
//!
//! This crate is the library: scenarios, exporters, backends under test, expectations, the leak check. The command is
//! `gpu-interop-conformance-cli`: it runs scenarios in other processes, so that a crashing driver is a result, and
//! writes reports.
//!
//! # Guarantees
//! * A scenario passes only if every check held. A scenario is `unsupported` if the device, the backend or the exporter
//!   lacks a requirement, and `skipped` if the machine lacks one; both carry the reason and never count as passed.
//! * The same seed gives the same data.
//!
//! # Requirements
//! * A program that runs the suite with its own backend returns `gpu_interop_conformance_cli::main` from `main`, as its
//!   first call, because the program is started again for groups of scenarios.
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
//! `conformance/examples/third-party` in the repository is a complete program. Linux and Windows are supported.

#![doc(html_root_url = "../")]

mod backend_under_test;
pub mod catalogue;
mod context;
mod device_memory;
#[cfg(windows)]
mod direct3d;
#[doc(hidden)] // For the command only.
pub mod execution;
mod expectations;
mod exporter;
mod gate;
#[cfg(unix)]
mod gl;
mod image;
mod leak_check;
mod need;
mod other_library;
mod outcome;
mod pattern;
mod peer;
#[doc(hidden)] // For the command only.
pub mod process;
mod provenance;
#[cfg(unix)]
mod raw_cuda;
mod render;
#[doc(hidden)] // For the command only.
pub mod request;
mod scenario;
mod scenarios;
mod stream_capture;
mod suite;
#[doc(hidden)] // For the command only.
pub mod system;

pub use backend_under_test::{BackendUnderTest, DriverApi, DriverUse, MakeSemaphore, host_semaphore};
pub use context::{Context, Observation, Observations, Pairs, Recorded, Work};
pub use execution::Seeds;
pub use expectations::{DeclaredFlake, Expectations, Machine, Place, Version};
pub use exporter::{
    BufferAccess, BufferSpec, Complaints, Exchange, ExportedBuffer, ExportedImage, ExportedSemaphore, Exporter,
    ExporterFeature, ExporterName, ImageSpec, NO_LAYER, Placement, Point, RowLayout, Tiling, vulkan_device,
};
pub use leak_check::{ResourceSnapshot, leak_check};
pub use need::{Need, Setup};
#[doc(hidden)]
pub use outcome::checked;
pub use outcome::{ErrorReport, Outcome, Stop, StopKind, Verdict};
pub use pattern::Pattern;
pub use peer::{Channel, Incoming, Message, Peer};
pub use process::{CONNECTIONS_VARIABLE, SUBCOMMAND};
pub use provenance::{Emulated, Tool};
pub use scenario::{Concurrency, Exporters, Scenario};
pub use suite::{BACKEND_NAMES, Suite};
pub use suite::{Discovery, ExporterDetail, ExporterReport, discover};
pub use system::{BorrowedOsHandle, OsHandle};
