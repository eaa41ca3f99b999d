//! Array copies with their text in the record. Used by the backends' tests.

use gpu_interop_core::backend::{ArrayCopy, ArrayCopySide, DevicePtr, RawArray};

use super::recorder::{LEVEL, STREAM};

/// Memory type constants of a vendor's header.
#[derive(Debug, Clone, Copy)]
pub struct MemoryTypes {
    pub host: u32,
    pub device: u32,
    pub array: u32,
}

/// Returns copies between arrays, device memory and host memory, each with its own address, pitch and memory type, and
/// the expected arguments of the driver's function.
pub fn array_copies(types: MemoryTypes) -> Vec<(ArrayCopy, String)> {
    let shown = |offset: &str, kind: u32, [host, device, array]: [&str; 3], pitch: u64, height: u64| {
        format!(
            "{{origin {offset}, level 0, type {kind}, host {host}, device {device}, array {array}, pitch {pitch}, height \
             {height}}}"
        )
    };
    let array = ArrayCopySide::Array { raw: RawArray::new(LEVEL), offset: [8, 2, 3] };
    let shown_array = shown("8 2 3", types.array, ["0", "0", "0xa12"], 0, 0);
    let linear = ArrayCopySide::Linear { ptr: DevicePtr::new(0x1000), row_pitch: 64, rows: 5 };
    let shown_linear = shown("0 0 0", types.device, ["0", "0x1000", "0"], 64, 5);
    let host = ArrayCopySide::Host { ptr: std::ptr::without_provenance_mut(0x2000), row_pitch: 20, rows: 3 };
    let shown_host = shown("0 0 0", types.host, ["0x2000", "0", "0"], 20, 3);
    let rows = [
        (array, linear, &shown_array, &shown_linear),
        (linear, array, &shown_linear, &shown_array),
        (array, host, &shown_array, &shown_host),
        (host, array, &shown_host, &shown_array),
        (array, array, &shown_array, &shown_array),
    ];
    rows.map(|(dst, src, shown_target, shown_source)| {
        let arguments = format!("from {shown_source} to {shown_target} extent 20 3 2 {STREAM:#x}");
        (ArrayCopy { dst, src, extent: [20, 3, 2] }, arguments)
    })
    .to_vec()
}
