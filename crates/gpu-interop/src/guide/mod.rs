//! Guide: how to use the library, one page a topic.
//!
//! | page | question |
//! |---|---|
//! | [Environment](environment) | Which variable selects the library, the backend, the strategy? |
//!
//! Applications on wgpu use the crate `gpu-interop-wgpu`, whose front page has its example. Python and C have pages of
//! their own in `crates/gpu-interop-python` and `crates/gpu-interop-capi`.

#[path = "environment.rs"]
mod environment_page;

pub use environment_page::environment;
