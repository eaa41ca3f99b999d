//! Shared test support.
//!
//! Tests of the backends, the driver crate and the conformance suite use this crate, which is never published.
#![allow(missing_docs, reason = "used by tests only")]
#![allow(clippy::expect_used, clippy::panic, reason = "used by tests, where a panic is a failure")]

mod built;
mod layout;
mod outcomes;
#[cfg(target_os = "linux")]
mod partial;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
pub mod recorded;

mod random;
pub mod request;

#[doc(hidden)]
pub use gpu_interop_driver;

#[cfg(unix)]
pub use built::{CompiledLibrary, source};
pub use built::{build, built_with_this_program, code_and_text, example, in_own_process, run_tests, this_program};
pub use outcomes::{Case, Known, as_recorded, committed, recording};
#[cfg(target_os = "linux")]
pub use partial::PartialLibrary;
pub use random::Random;
