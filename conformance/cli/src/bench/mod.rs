//! `conformance bench`: what the library costs, beside the driver called directly and beside its alternatives.
//!
//! One run, one process, the variants in turns ([`rounds`]), so that a ratio compares things that happened within
//! milliseconds of each other. How samples become ratios is explained in [`stats`].
//!
//! | variant | what it is |
//! |---|---|
//! | `raw` | the driver's functions, called as a careful C program calls them |
//! | `backend` | this project's backend without the safe objects: shows on which layer a cost arises |
//! | `library` | this project's safe objects: what an application uses |
//! | `cudarc` | the external memory of another binding (imports only; it has no semaphores) |
//! | `native`, `bridge` | this project's `Timeline`, by its two strategies |
//! | `fence` | shared memory, ordered by a host that waits |
//! | `staged` | no interop: through host memory |
//!
//! `raw` and `cudarc` are there for CUDA only. Everything else also runs on the host backend, where the numbers say
//! something about this machine's processor and nothing about a GPU.
//!
//! Limits are data next to each ratio. A missed one fails the run only with `--strict`: on a shared or throttled
//! machine a measurement is no verdict. What fails, on the other hand, always fails the run, as does data that does
//! not arrive.
//!
//! Linux only, but for the reports: what is called around the library are descriptors' calls.

#[cfg(unix)]
mod bandwidth;
#[cfg(unix)]
mod clock;
#[cfg(unix)]
mod context_calls;
#[cfg(unix)]
mod frame;
#[cfg(unix)]
mod live_imports;
#[cfg(unix)]
pub(crate) mod load;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod record;
mod report;
#[cfg(unix)]
mod rounds;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod semaphores;
#[cfg(unix)]
mod stats;
#[cfg(unix)]
mod sys;
#[cfg(unix)]
mod text;
#[cfg(unix)]
mod timeline;

pub use report::{BENCH_SCHEMA, BenchReport, Limit, Measurement, NotMeasured, Ratio};
#[cfg(unix)]
pub(crate) use run::{BenchArgs, run};

/// Names the driver's file for the library; the measurements obey it too.
#[cfg(unix)]
const CUDA_LIBRARY_VARIABLE: &str = "GPU_INTEROP_CUDA_LIBRARY";
