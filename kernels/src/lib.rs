//! Kernels of gpu-interop: conversions of video pictures ([`convert`]), and a pattern that tests write and verify.
//!
//! One device source in C (`kernels/device`) is built for NVIDIA as PTX and for AMD as code objects, and embedded here.
//! The host backend has CPU versions of [`YUV_TO_RGBA`], [`RGBA_TO_YUV`], [`FILL_PATTERN`], [`VERIFY_PATTERN`] and
//! [`INCREMENT`] with the same names, so that programs and scenarios run on every backend.
//!
//! * NVIDIA: [`ptx`] contains all [`KERNELS`] for Volta (`sm_70`) and later GPUs, in PTX 6.0, which drivers since 384
//!   load.
//! * AMD: [`code_object`] contains the [`KERNELS`] that are not NVIDIA-only, for gfx906, gfx908, gfx90a, gfx942,
//!   gfx1030, gfx1100 and gfx1201, and for the other members of the families gfx9, gfx10.1, gfx10.3, gfx11 and gfx12.
//!
//! The image kernels are NVIDIA-only: HIP on Linux maps no mipmapped arrays.
//!
//! The sources also compile for the CPU (`device/simulated.h`), for a library that the simulators of the drivers load.
//! `crates/gpu-interop-wgpu/examples/kernels` uses the same headers and scripts for kernels of its own.
//!
//! The feature `prebuilt` embeds both. Without it, this crate has the signatures and the CPU versions only. The feature
//! `launch` adds [`convert::Converter`], which enqueues conversions on a stream.
//!
//! # Rebuilding
//! The library builds without a GPU compiler: the embedded files are checked in under `prebuilt`, with the SHA-256 of
//! their sources in `prebuilt/MANIFEST`. After a change to `device` or a script, run `kernels/build.sh` and commit
//! its output, else this crate's tests and `kernels/build.sh --check` fail. It requires `clang-19` and `lld-19` (Debian
//! packages), but neither CUDA nor ROCm. `kernels/build.sh --verify` builds again and compares every byte. `cargo
//! xtask ci` runs both.
//!
//! # Guarantees
//! * The embedded PTX and code objects are built from the checked-in source and declare each kernel with the parameters
//!   of its [`Signature`].
//! * A kernel completes its work in one-dimensional launches of any number of blocks and threads: each thread processes
//!   every n-th element, where n is the number of threads.
//! * Without the feature `launch` the crate has no dependencies, no `unsafe` code and needs no driver.
//!
//! # Requirements on the caller
//! * Arguments match the [`Signature`] in number, order and types. Addresses are aligned to 4 bytes and refer to memory
//!   of the stated counts until the kernel has run. No driver checks this. Those of conversions are aligned to a sample, a
//!   pair of chroma and a texel, and refer to [`convert::plane_sizes`].
//! * Counters are zeroed before the launch: kernels add to them. They wrap at 2^32 on a GPU.

#![doc(html_root_url = "../")]

#[cfg(feature = "prebuilt")]
mod code_object;
pub mod convert;
mod pattern;
mod signature;

#[cfg(feature = "prebuilt")]
use std::ffi::CStr;

#[cfg(feature = "prebuilt")]
pub use code_object::{CODE_OBJECTS, code_object, code_object_among};
pub use pattern::{pattern_word, write_pattern};
pub use signature::{
    FILL_PATTERN, INCREMENT, KERNELS, Parameter, ParameterType, RGBA_TO_YUV, SURFACE_FILL, SURFACE_VERIFY, Signature,
    SurfaceShape, TEXTURE_READ, TEXTURE_READ_LEVEL, TexelType, VERIFY_PATTERN, YUV_TO_RGBA,
};

#[cfg(feature = "prebuilt")]
const PTX: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("../prebuilt/kernels.ptx"), "\0").as_bytes()) {
    Ok(text) => text,
    #[allow(clippy::panic, reason = "at compile time")]
    Err(_) => panic!("a NUL within the PTX"),
};

#[cfg(feature = "prebuilt")]
/// Returns the PTX of all [`KERNELS`], for `cuModuleLoadData` or `ModuleImage::Ptx`.
#[must_use]
pub fn ptx() -> &'static CStr {
    PTX
}
