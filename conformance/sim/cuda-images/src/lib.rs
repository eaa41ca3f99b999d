//! A simulator of NVIDIA's driver: `gpu-interop-sim-cuda` with surfaces and textures.
//!
//! Surfaces and textures are created, destroyed and counted; no kernel of the simulator reads or writes them. The suite
//! verifies data and therefore runs on the library without them; tests of failures run on this one.
#![cfg(target_os = "linux")]

use std::ffi::c_uint;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_cuda::{code, driver, give};
use gpu_interop_sim_device::array::{LEVELS, MIPMAPPED, SURFACES, TEXTURES};
use gpu_interop_sim_device::entries;

type Resource = cuda::CUDA_RESOURCE_DESC_st;

/// `CU_RESOURCE_TYPE_ARRAY`, `CU_RESOURCE_TYPE_MIPMAPPED_ARRAY`.
const ARRAY: c_uint = cuda::CUresourcetype_enum::CU_RESOURCE_TYPE_ARRAY as c_uint;
const MIPMAPPED_ARRAY: c_uint = cuda::CUresourcetype_enum::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY as c_uint;

/// Fails unless a description is of a live array: of one level, or with `all` also of an image.
///
/// # Safety
/// `desc` is NULL or valid. Its enum is read as a number.
unsafe fn check(desc: *const Resource, all: bool) -> Result<(), u32> {
    code::reject_if(desc.is_null())?;
    // SAFETY: the caller's promise. An array's handle is first in the union.
    let (kind, handle) = unsafe {
        ((&raw const (*desc).resType).cast::<c_uint>().read(), (&raw const (*desc).res).cast::<usize>().read())
    };
    let live = match kind {
        ARRAY => LEVELS.get(handle).is_some(),
        MIPMAPPED_ARRAY if all => MIPMAPPED.get(handle).is_some(),
        _ => return Err(code::INVALID_VALUE),
    };
    if live { Ok(()) } else { Err(code::INVALID_HANDLE) }
}

entries! {
    after driver::need_context;

    fn cuSurfObjectCreate(surface: *mut u64, desc: *const Resource) gives surface {
        check(desc, false)?;
        give(surface, SURFACES.insert(()) as u64)
    }

    fn cuSurfObjectDestroy(surface: u64) {
        SURFACES.remove(usize::try_from(surface).unwrap_or(0)).map(drop).ok_or(code::INVALID_VALUE)
    }

    fn cuTexObjectCreate(
        texture: *mut u64, desc: *const Resource, sampling: *const cuda::CUDA_TEXTURE_DESC_st,
        _view: *const cuda::CUDA_RESOURCE_VIEW_DESC_st,
    ) gives texture {
        check(desc, true)?;
        code::reject_if(sampling.is_null())?;
        give(texture, TEXTURES.insert(()) as u64)
    }

    fn cuTexObjectDestroy(texture: u64) {
        TEXTURES.remove(usize::try_from(texture).unwrap_or(0)).map(drop).ok_or(code::INVALID_VALUE)
    }
}
