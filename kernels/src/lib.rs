//! The kernels that gpu-interop tests with, and the pattern that they write and check.
//!
//! One device source in C (`kernels/device`), built for NVIDIA as PTX and for AMD as code objects, and embedded here.
//! The host backend runs CPU versions of [`FILL_PATTERN`], [`VERIFY_PATTERN`] and [`INCREMENT`] under the same names, so
//! that a scenario is written once.
//!
//! * NVIDIA: [`ptx`] has all of [`KERNELS`], for Volta (`sm_70`) and every later GPU. It is PTX 6.0, which every driver
//!   since 384 reads.
//! * AMD: [`code_object`] has those of [`KERNELS`] that are not for NVIDIA alone, for gfx906, gfx908, gfx90a, gfx942,
//!   gfx1030, gfx1100 and gfx1201, and for the rest of the families gfx9, gfx10.1, gfx10.3, gfx11 and gfx12.
//!
//! The image kernels are for NVIDIA alone: HIP on Linux maps no mipmapped arrays, so there is nothing that they could
//! work on.
//!
//! # Rebuilding
//! The library must build without a compiler for GPUs, so what it embeds is checked in, under `prebuilt`, with the
//! SHA-256 of everything that it was built from in `prebuilt/MANIFEST`. After a change to `device` or `build.sh`, run
//! `kernels/build.sh` and commit what it writes; it needs `clang-19` and `lld-19` (Debian's packages), no CUDA and no
//! ROCm. Otherwise this crate's tests and `kernels/build.sh --check` fail. `kernels/build.sh --verify` builds once more
//! and compares every byte. `.ci/run` does both.
//!
//! # What this crate promises
//! * The embedded PTX and code objects are complete, declare each kernel with the parameters of its [`Signature`], and
//!   were built from the checked-in source.
//! * A kernel takes any launch that is one-dimensional, whatever its number of blocks and threads, and does all its
//!   work: each thread takes every n-th element, n the number of threads.
//! * No dependencies, no `unsafe`, no driver.
//!
//! # What the caller must do
//! * Pass arguments of the number, order and types of the [`Signature`], and addresses of memory that is as large as
//!   the counts say, aligned to 4 bytes, until the kernel has run. No driver checks them.
//! * Zero a counter before the launch: kernels add to it. It wraps at 2^32 on a GPU.

mod code_object;
mod pattern;
mod signature;

use std::ffi::CStr;

pub use code_object::{CODE_OBJECTS, code_object};
pub use pattern::pattern_word;
pub use signature::{
    FILL_PATTERN, INCREMENT, KERNELS, Parameter, ParameterType, SURFACE_FILL, SURFACE_VERIFY, Signature, SurfaceShape,
    TEXTURE_READ, TEXTURE_READ_LEVEL, TexelType, VERIFY_PATTERN,
};

const PTX: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("../prebuilt/kernels.ptx"), "\0").as_bytes()) {
    Ok(text) => text,
    #[allow(clippy::panic, reason = "while compiling")]
    Err(_) => panic!("a NUL within the PTX"),
};

/// The PTX of all [`KERNELS`], for `cuModuleLoadData` or `ModuleImage::Ptx`.
#[must_use]
pub fn ptx() -> &'static CStr {
    PTX
}
