//! What tests of several crates share.
//!
//! Tests of the backends, the driver crate and the conformance suite depend on this crate, which is never published.
#![allow(missing_docs, reason = "the tests that use it are its only readers")]
#![allow(clippy::expect_used, clippy::panic, reason = "for tests: a panic is their failure")]

mod built;
#[cfg(unix)]
mod compile;
mod layout;
#[cfg(target_os = "linux")]
mod partial;
#[cfg(target_os = "linux")]
pub mod probe;
mod program;
#[cfg(target_os = "linux")]
pub mod recorded;

#[doc(hidden)]
pub use gpu_interop_driver;

pub use built::build;
#[cfg(unix)]
pub use compile::{CompiledLibrary, source};
#[cfg(target_os = "linux")]
pub use partial::PartialLibrary;
pub use program::this_program;
