//! Copies and fills.

use std::ffi::{c_int, c_void};

use cudarc::driver::sys::CUstream;
use gpu_interop_sim_abi::entries;

use crate::code::INVALID_VALUE;
use crate::context::call;

/// Rejects a null address.
fn need(size: usize, addresses: &[u64]) -> Result<(), u32> {
    if size > 0 && addresses.contains(&0) { Err(INVALID_VALUE) } else { Ok(()) }
}

entries! {
    fn hipMemcpyDtoDAsync(target: u64, source: u64, size: usize, stream: CUstream) {
        need(size, &[target, source])?;
        call!(cuMemcpyDtoDAsync_v2(target, source, size, stream))
    }

    fn hipMemcpyDtoHAsync(target: *mut c_void, source: u64, size: usize, stream: CUstream) {
        need(size, &[target.addr() as u64, source])?;
        call!(cuMemcpyDtoHAsync_v2(target, source, size, stream))
    }

    fn hipMemcpyHtoDAsync(target: u64, source: *const c_void, size: usize, stream: CUstream) {
        need(size, &[target, source.addr() as u64])?;
        call!(cuMemcpyHtoDAsync_v2(target, source, size, stream))
    }

    fn hipMemsetD8Async(target: u64, value: u8, count: usize, stream: CUstream) {
        need(count, &[target])?;
        call!(cuMemsetD8Async(target, value, count, stream))
    }

    fn hipMemsetD32Async(target: u64, value: c_int, count: usize, stream: CUstream) {
        need(count, &[target])?;
        call!(cuMemsetD32Async(target, value.cast_unsigned(), count, stream))
    }
}
