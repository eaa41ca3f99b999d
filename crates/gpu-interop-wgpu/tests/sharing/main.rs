//! Buffers, textures and hand-overs between wgpu and compute, on the devices of this machine. Without any that can share, a
//! test prints `skipped:` and the reason.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod buffers;
mod common;
mod device;
mod differences;
mod driver_calls;
mod futures;
mod hand_over;
#[cfg(unix)]
mod imported_frames;
#[cfg(unix)]
mod imports;
mod lifetimes;
#[cfg(unix)]
mod rejected_imports;
#[cfg(windows)]
mod simulated_d3d12;
mod textures;
