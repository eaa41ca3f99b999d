//! Detection of edges on the CPU, as `kernels/edges.c` on a GPU.

use gpu_interop_wgpu::gpu_interop::host::KernelCall;

/// Sobel's operator on the brightness of texels that are `radius` apart.
pub(crate) fn edge(texel: impl Fn(i32, i32) -> u32, (x, y): (i32, i32), size: i32, radius: i32) -> u32 {
    let light = |across: i32, down: i32| {
        let clamped = |at: i32, step: i32| (at + step * radius).clamp(0, size - 1);
        let [r, g, b, _] = texel(clamped(x, across), clamped(y, down)).to_le_bytes().map(i32::from);
        (r * 77 + g * 150 + b * 29) >> 8
    };
    let side = |at: &dyn Fn(i32) -> i32| at(-1) + 2 * at(0) + at(1);
    let across = side(&|down| light(1, down)) - side(&|down| light(-1, down));
    let down = side(&|across| light(across, 1)) - side(&|across| light(across, -1));
    ((across.abs() + down.abs()).min(255).unsigned_abs() * 0x01_01_01) | 0xFF00_0000
}

/// `kernels/edges.c`, for images in memory.
pub(crate) fn edges_on_the_cpu(call: &KernelCall<'_>) -> Result<(), String> {
    let pitch = |index| usize::try_from(call.u64(index)?).map_err(|error| error.to_string());
    let (from, from_pitch, to, to_pitch) = (call.ptr(0)?, pitch(1)?, call.ptr(2)?, pitch(3)?);
    let (size, radius) = (call.i32(4)?, call.i32(5)?);
    for (x, y) in (0..size).flat_map(|y| (0..size).map(move |x| (x, y))) {
        // SAFETY: both images have `size` rows of `size` texels of 4 bytes, and rows are aligned to them.
        let texel = |x: i32, y: i32| unsafe { from.add(y as usize * from_pitch + x as usize * 4).cast::<u32>().read() };
        // SAFETY: as above.
        unsafe {
            to.add(y as usize * to_pitch + x as usize * 4).cast::<u32>().write(edge(texel, (x, y), size, radius))
        };
    }
    Ok(())
}
