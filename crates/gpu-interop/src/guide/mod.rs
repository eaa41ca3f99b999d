//! Guide: how to use the library, one page a topic.
//!
//! | page | question |
//! |---|---|
//! | [Start](start) | How does the shortest program look, and what does each line do? |
//! | [Which objects](objects) | Which type owns what, and which one do I need? |
//! | [Images](images) | What do I do with an image, in particular where arrays are unsupported, as with HIP on Linux? |
//! | [Frames in flight, and resize](frames) | How do both sides work on several frames at once? How do I resize? |
//! | [Presentation](presentation) | How do I show the result in a window? |
//! | [From raw calls](raw_calls) | What replaces `cudaExternalMemoryGetMappedMipmappedArray`, and the other functions? |
//! | [Troubleshooting](troubleshooting) | Why does it fail? My stream times out: what next? |
//! | [Environment](environment) | Which variable selects the library, the backend, the strategy? |
//! | [Processes and forks](processes) | How do I share with another process? Why does nothing work after a fork? |
//! | [Several GPUs](multi_gpu) | How do both sides get the same GPU? |
//! | [NVIDIA's cuda-core](cuda_core) | How do I share contexts, streams and memory with the crate `cuda-core`? |
//! | [Simulators](simulators) | How do I test without a GPU? |
//! | [Requests](requests) | Others asked for this in 2026: what is the way here? |
//!
//! The pages name Rust's functions. [From raw calls](raw_calls) has their names in C and Python.
//!
//! Applications on wgpu use the crate `gpu-interop-wgpu`, whose front page has its example. Python and C have pages of
//! their own in `crates/gpu-interop-python` and `crates/gpu-interop-capi`.

#![cfg_attr(
    not(all(feature = "host", feature = "vulkan")),
    allow(rustdoc::broken_intra_doc_links, reason = "the pages name items of these features")
)]

#[path = "environment.rs"]
mod environment_page;

pub use environment_page::environment;

#[doc = include_str!("start.md")]
#[doc = concat!("\n```no_run\n", include_str!("../../examples/fill.rs"), "```\n")]
#[doc = include_str!("start_lines.md")]
pub mod start {}

#[doc = include_str!("objects.md")]
pub mod objects {}

#[doc = include_str!("images.md")]
pub mod images {}

#[doc = include_str!("frames.md")]
pub mod frames {}

#[doc = include_str!("presentation.md")]
pub mod presentation {}

#[doc = include_str!("raw_calls.md")]
pub mod raw_calls {}

#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("processes.md")]
pub mod processes {}

#[doc = include_str!("multi_gpu.md")]
pub mod multi_gpu {}

#[doc = include_str!("cuda_core.md")]
#[doc = concat!("\n```ignore\n", include_str!("cuda_core_adapter.rs"), "```\n")]
pub mod cuda_core {}

#[doc = include_str!("simulators.md")]
pub mod simulators {}

#[doc = include_str!("requests.md")]
pub mod requests {}
