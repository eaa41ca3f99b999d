//! Memory that Vulkan allocated, filled by the compute side, read back by Vulkan.

use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, HeadlessContext, HeadlessOptions, ash::vk::BufferUsageFlags,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The exporting side. An application passes its own instance and device to `VulkanInterop` instead.
    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let exported = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(4096, usage))?;
    // The compute side is the first to write.
    vulkan.release(exported.buffer())?;

    // The importing side: the same hardware, through CUDA, HIP or the CPU.
    let device = gpu_interop::device_for(vulkan.identity())?;
    let memory = device.import_memory(exported.import_request()?)?;
    let buffer = memory.map_buffer(0..4096)?;
    let stream = device.create_stream()?;
    stream.fill_u32(&buffer, 0xCAFE_F00D)?;
    stream.synchronize()?;

    // Vulkan takes the buffer back and reads what the device wrote.
    let mut bytes = vec![0; 4096];
    vulkan.acquire(exported.buffer())?;
    vulkan.download(exported.buffer(), 0, &mut bytes)?;
    assert!(bytes.chunks(4).all(|word| word == 0xCAFE_F00D_u32.to_ne_bytes()));
    println!("{} wrote 1,024 words, {} read them", device.identity(), vulkan.identity());
    Ok(())
}
