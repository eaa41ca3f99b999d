//! Copies between arrays, linear memory and the host.

use gpu_interop::backend::{ArrayCopy, ArrayCopySide, RawArray};
use gpu_interop::{DevicePtr, Error, Result};
use gpu_interop_capi as c;

use crate::api::Api;
use crate::live::Live;

/// Enqueues a copy.
///
/// # Safety
/// As for `BackendDevice::copy_array`.
pub(crate) unsafe fn copy(api: &Api, live: &Live, stream: c::gpi_stream, copy: &ArrayCopy) -> Result<()> {
    let [width, height, slices] = copy.extent;
    let region = |array: RawArray, offset| live.region(array.get() as u64, offset, copy.extent);
    let texels = |ptr: DevicePtr, row_pitch: u64, rows: u64| -> Result<c::gpi_texels> {
        let size = ((slices - 1) * rows + height - 1) * row_pitch + width;
        Ok(c::gpi_texels { range: live.range("copy_array", ptr, size)?, row_pitch, rows })
    };
    let bytes = usize::try_from(width * height * slices).expect("64 bits");
    // Host memory without gaps, which the stream's next synchronisation would wait for anyway.
    // SAFETY: the caller's promise.
    let status = unsafe {
        match (copy.dst, copy.src) {
            (ArrayCopySide::Linear { ptr, row_pitch, rows }, ArrayCopySide::Array { raw, offset }) => {
                (api.gpi_stream_copy_from_array)(stream, texels(ptr, row_pitch, rows)?, region(raw, offset)?)
            }
            (ArrayCopySide::Array { raw, offset }, ArrayCopySide::Linear { ptr, row_pitch, rows }) => {
                (api.gpi_stream_copy_to_array)(stream, region(raw, offset)?, texels(ptr, row_pitch, rows)?)
            }
            (ArrayCopySide::Array { raw, offset }, ArrayCopySide::Array { raw: src, offset: src_offset }) => {
                (api.gpi_stream_copy_array)(stream, region(raw, offset)?, region(src, src_offset)?)
            }
            (ArrayCopySide::Host { ptr, .. }, ArrayCopySide::Array { raw, offset }) => {
                (api.gpi_stream_read_array)(stream, region(raw, offset)?, ptr.cast(), bytes)
            }
            (ArrayCopySide::Array { raw, offset }, ArrayCopySide::Host { ptr, .. }) => {
                (api.gpi_stream_write_array)(stream, region(raw, offset)?, ptr.cast_const().cast(), bytes)
            }
            _ => return Err(Error::unsupported("copy_array", "a copy without an array")),
        }
    };
    api.check(status)
}
