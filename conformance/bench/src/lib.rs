//! The measurements of `conformance bench`: the library's cost relative to raw driver calls and alternatives.
//!
//! One run, one process, alternating variants (`rounds`), so that a ratio compares events within milliseconds of each
//! other. `stats` explains how samples become ratios, `quiet` which rounds do not count. The command itself, its options
//! and its text are in `gpu-interop-conformance-cli`.
//!
//! | variant | meaning |
//! |---|---|
//! | `raw` | the driver's functions, called as in a careful C program |
//! | `raw_each` | raw calls, one value a semaphore |
//! | `backend` | this project's backend without the safe objects: shows the layer of a cost |
//! | `library` | this project's safe objects, as in applications |
//! | `cudarc` | the external memory of another binding (imports only; it has no semaphores) |
//! | `native`, `bridge` | this project's `Timeline`, by its two strategies |
//! | `prepared`, `filled` | this project's prepared batches of semaphores: a value for each, or one for all |
//! | `heap`, `imports`, `vulkan` | buffers of a `SharedHeap`; an import of each; Vulkan's side alone |
//! | `to_rgba`, `to_yuv`, `copy` | conversions of pictures, and copies of them |
//! | `feed`, `queue` | pictures by a `PictureFeed`; the same copies alone |
//! | `ring`, `limit` | three frames in flight by a `FrameRing`; the slower side's own work |
//! | `fence` | shared memory with full synchronisation: the host waits for each side, without semaphores |
//! | `staged` | no interop: through host memory |
//! | `wgpu`, `ash`, `readback` | a texture of wgpu by `gpu-interop-wgpu`, the same with Vulkan, and wgpu through the host |
//!
//! `raw`, `raw_each` and `cudarc` exist for CUDA only. The variants of wgpu exist in a build with the feature `wgpu`. The
//! other variants also run on the host backend, where the numbers describe this machine's processor, not a GPU.
//!
//! `cudarc` and `fence` are what other libraries do: the peers. A hand-over costs at most 1.02 of theirs, which is equal
//! within a ratio's resolution (`stats`). An import, which `cudarc` does not check, costs at most 1.05.
//!
//! Each ratio carries its limit. A missed limit fails the run only with `--strict`: on a shared or throttled
//! machine a measurement is no verdict. Errors and wrong data always fail the run.
//!
//! Linux only, except for the reports: the raw calls use file descriptors.

#![doc(html_root_url = "../")]

#[cfg(unix)]
mod bandwidth;
#[cfg(unix)]
mod convert;
#[cfg(unix)]
mod feed;
#[cfg(unix)]
mod frame;
#[cfg(unix)]
mod frame_ring;
#[cfg(all(unix, feature = "wgpu"))]
mod frame_wgpu;
#[cfg(unix)]
mod heap;
#[cfg(unix)]
mod in_flight;
#[cfg(unix)]
mod load;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod quiet;
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
mod timeline;
#[cfg(unix)]
mod video;

#[cfg(unix)]
pub use load::{LOAD_SUBCOMMAND, load_once};
pub use report::{BENCH_SCHEMA, BenchReport, Limit, Measurement, NotMeasured, Ratio, SERIES};
#[cfg(unix)]
pub use run::{Bench, names};
