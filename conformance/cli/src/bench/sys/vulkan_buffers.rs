//! Vulkan's side of many buffers in one allocation, without a library.

use std::time::{Duration, Instant};

use gpu_interop::vulkan::{ExportableBuffer, ash, ash::vk, memory_handle_type};
use gpu_interop_conformance::{Stop, Verdict, ensure};

/// Buffers that are destroyed on drop, also after an error.
struct Buffers<'a> {
    device: &'a ash::Device,
    list: Vec<vk::Buffer>,
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        for buffer in self.list.drain(..) {
            // SAFETY: this object's, destroyed once; nothing uses it.
            unsafe { self.device.destroy_buffer(buffer, None) };
        }
    }
}

/// Creates `count` buffers of `size` bytes, bound one behind the other to the memory of `whole`, and destroys them.
/// Returns the durations of both.
pub(crate) fn bound_buffers(whole: &ExportableBuffer, count: u32, size: u64) -> Verdict<[Duration; 2]> {
    let memory = whole.buffer();
    ensure!(!memory.is_dedicated(), "the memory is dedicated to another buffer");
    let types = memory_handle_type(whole.handle_kind()).ok_or_else(|| Stop::failed("no handle of Vulkan".into()))?;
    let failed = |error: vk::Result| Stop::failed(format!("Vulkan: {error}"));
    let capacity = usize::try_from(count)?;
    let mut buffers = Buffers { device: memory.interop().device(), list: Vec::with_capacity(capacity) };
    let mut taken = Duration::ZERO;
    for number in 0..u64::from(count) {
        let start = Instant::now();
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(types);
        let info = vk::BufferCreateInfo::default().size(size).usage(memory.usage()).push_next(&mut external);
        // SAFETY: the device is live, and creates such buffers for `whole`.
        let buffer = unsafe { buffers.device.create_buffer(&info, None) }.map_err(failed)?;
        buffers.list.push(buffer);
        // SAFETY: the buffer is live.
        let needs = unsafe { buffers.device.get_buffer_memory_requirements(buffer) };
        let offset = (number * size).next_multiple_of(needs.alignment);
        let fits = offset + needs.size <= memory.allocation_size();
        ensure!(fits && needs.memory_type_bits & 1 << memory.memory_type() != 0, "the memory does not fit the buffer");
        // SAFETY: the range is inside the memory and aligned, the type is allowed, and the buffer is not bound.
        unsafe { buffers.device.bind_buffer_memory(buffer, memory.memory(), offset) }.map_err(failed)?;
        taken += start.elapsed();
    }
    let start = Instant::now();
    drop(buffers);
    Ok([taken, start.elapsed()])
}
