//! Example: Direct3D 12 allocates a buffer, the compute device fills it, and Direct3D 12 reads it back. A fence orders
//! the accesses.

#[cfg(windows)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    direct3d::run()
}

#[cfg(not(windows))]
fn main() {
    eprintln!("Direct3D requires Windows");
    std::process::exit(2);
}

#[cfg(windows)]
mod direct3d {
    use std::sync::Arc;
    use std::time::Duration;

    use gpu_interop::d3d::ResourceFlags;
    use gpu_interop::d3d::d3d12::{D3d12Interop, ExportableFence, ExportableResource};
    use gpu_interop::d3d::windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
    use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::*;
    use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
    use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::{CreateDXGIFactory1, IDXGIFactory1};
    use gpu_interop::d3d::windows::core::{Interface, Result};
    use gpu_interop::{Device, Timeline};

    const WORDS: usize = 1024;
    const SIZE: u64 = 4 * WORDS as u64;
    const PATTERN: u32 = 0xCAFE_F00D;
    const TIMEOUT: Duration = Duration::from_secs(10);

    pub(super) fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let (interop, device) = both_sides()?;

        // The exporting side: a committed buffer and a fence.
        let exported = ExportableResource::buffer(&interop, SIZE, ResourceFlags::empty())?;
        let fence = ExportableFence::new(&interop, 0)?;

        // The importing side fills the buffer and signals the fence.
        let memory = device.import_memory(exported.import_request()?)?;
        let buffer = memory.map_buffer(0..SIZE)?;
        let timeline = Timeline::new(&device, Arc::new(fence.clone()))?;
        let stream = device.create_stream()?;
        stream.fill_u32(&buffer, PATTERN)?;
        stream.signal_timeline(&timeline, 1)?;

        // Direct3D's queue waits for the fence and copies to a readback buffer.
        // SAFETY: the objects belong to one device. They live until the fence reports that the queue has completed.
        let read = unsafe {
            let queue: ID3D12CommandQueue = interop.device().CreateCommandQueue(&D3D12_COMMAND_QUEUE_DESC::default())?;
            let host = host_buffer(interop.device())?;
            let allocator: ID3D12CommandAllocator =
                interop.device().CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_DIRECT)?;
            let list: ID3D12GraphicsCommandList =
                interop.device().CreateCommandList(0, D3D12_COMMAND_LIST_TYPE_DIRECT, &allocator, None)?;
            list.CopyBufferRegion(&host, 0, exported.resource(), 0, SIZE);
            list.Close()?;
            fence.queue_wait(&queue, 1)?;
            queue.ExecuteCommandLists(&[Some(list.cast()?)]);
            fence.queue_signal(&queue, 2)?;
            fence.wait(2, TIMEOUT)?;
            words(&host)?
        };
        assert_eq!(read, [PATTERN; WORDS]);
        println!(
            "{} wrote 1,024 words by strategy {}, {} read them",
            device.identity(),
            timeline.strategy(),
            interop.identity()
        );
        Ok(())
    }

    /// Opens the first adapter that both Direct3D 12 and a compute driver support.
    fn both_sides() -> std::result::Result<(D3d12Interop, Device), Box<dyn std::error::Error>> {
        // SAFETY: the call has no arguments.
        let factory: IDXGIFactory1 = unsafe { CreateDXGIFactory1() }?;
        // SAFETY: the argument is a plain value.
        for adapter in (0..).map_while(|index| unsafe { factory.EnumAdapters1(index) }.ok()) {
            let mut device: Option<ID3D12Device> = None;
            // SAFETY: `device` has the type of the requested interface.
            let created = unsafe { D3D12CreateDevice(&adapter, D3D_FEATURE_LEVEL_11_0, &mut device) };
            let (Ok(()), Some(device)) = (created, device) else { continue };
            let interop = D3d12Interop::new(&device)?;
            match gpu_interop::device_for(interop.identity()) {
                Ok(device) => return Ok((interop, device)),
                Err(error) => eprintln!("skipped {}: {error}", interop.identity()),
            }
        }
        Err("no adapter has both Direct3D 12 and a compute driver".into())
    }

    /// Creates a readback buffer. Readback memory cannot be shared.
    unsafe fn host_buffer(device: &ID3D12Device) -> Result<ID3D12Resource> {
        let memory = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_READBACK, ..D3D12_HEAP_PROPERTIES::default() };
        let desc = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
            Width: SIZE,
            Height: 1,
            DepthOrArraySize: 1,
            MipLevels: 1,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
            ..D3D12_RESOURCE_DESC::default()
        };
        let mut buffer = None;
        // SAFETY: the descriptors outlive the call.
        unsafe {
            let state = D3D12_RESOURCE_STATE_COPY_DEST;
            device.CreateCommittedResource(&memory, D3D12_HEAP_FLAG_NONE, &desc, state, None, &mut buffer)?;
        }
        buffer.ok_or_else(|| std::io::Error::other("no buffer was created").into())
    }

    /// Reads the readback buffer.
    unsafe fn words(host: &ID3D12Resource) -> Result<Vec<u32>> {
        let mut address = std::ptr::null_mut();
        // SAFETY: the buffer has `WORDS` words, and no command writes to it while it is mapped.
        unsafe {
            host.Map(0, None, Some(&mut address))?;
            let words = std::slice::from_raw_parts(address.cast::<u32>(), WORDS).to_vec();
            host.Unmap(0, None);
            Ok(words)
        }
    }
}
