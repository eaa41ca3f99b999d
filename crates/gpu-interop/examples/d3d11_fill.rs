//! Example: memory allocated by Direct3D 11, filled by the compute device, read back by Direct3D 11, ordered by a keyed
//! mutex.

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
    use std::error::Error;
    use std::time::Duration;

    use gpu_interop::Device;
    use gpu_interop::d3d::d3d11::{D3d11Interop, ExportableResource};
    use gpu_interop::d3d::windows::Win32::Foundation::HMODULE;
    use gpu_interop::d3d::windows::Win32::Graphics::Direct3D::D3D_DRIVER_TYPE_UNKNOWN;
    use gpu_interop::d3d::windows::Win32::Graphics::Direct3D11::*;
    use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::{CreateDXGIFactory1, IDXGIFactory1};
    use gpu_interop::d3d::{BindFlags, Sharing};

    const SIZE: u32 = 4096;
    const PATTERN: u32 = 0xCAFE_F00D;
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let (interop, device) = both_sides()?;

        // The exporting side: a buffer with a keyed mutex, initially released with key 0.
        let sharing = Sharing::NtHandleKeyedMutex;
        let exported = ExportableResource::buffer(&interop, SIZE.into(), BindFlags::VERTEX_BUFFER, sharing)?;
        let mutex = exported.keyed_mutex()?;

        // The importing side acquires the mutex, fills the buffer, and releases it with key 1.
        let memory = device.import_memory(exported.import_request()?)?;
        let buffer = memory.map_buffer(0..SIZE.into())?;
        let turn = device.import_semaphore(mutex.import_request()?)?;
        let stream = device.create_stream()?;
        stream.wait(&[turn.acquire_key(0, PATIENCE)])?;
        stream.fill_u32(&buffer, PATTERN)?;
        stream.signal(&[turn.release_key(1)])?;

        // Direct3D acquires it with that key, and reads.
        // SAFETY: no other thread uses the mutex.
        unsafe { mutex.acquire(1, PATIENCE) }?;
        // SAFETY: the objects belong to one device, whose context has no other user.
        let read = unsafe { words(&interop, &exported) }?;
        // SAFETY: as above.
        unsafe { mutex.release(0) }?;
        assert_eq!(read, [PATTERN; SIZE as usize / 4]);
        println!("{} wrote 1,024 words, {} read them", device.identity(), interop.identity());
        Ok(())
    }

    /// Opens the first adapter that is a Direct3D device and a compute device.
    fn both_sides() -> Result<(D3d11Interop, Device), Box<dyn Error>> {
        // SAFETY: the call has no arguments.
        let factory: IDXGIFactory1 = unsafe { CreateDXGIFactory1() }?;
        // SAFETY: the argument is a plain value.
        for adapter in (0..).map_while(|index| unsafe { factory.EnumAdapters(index) }.ok()) {
            let mut device = None;
            let (kind, flags) = (D3D_DRIVER_TYPE_UNKNOWN, D3D11_CREATE_DEVICE_FLAG::default());
            let (none, version) = (HMODULE::default(), D3D11_SDK_VERSION);
            // SAFETY: the out pointer is to a live variable.
            let created =
                unsafe { D3D11CreateDevice(&adapter, kind, none, flags, None, version, Some(&mut device), None, None) };
            let (Ok(()), Some(device)) = (created, device) else { continue };
            let interop = D3d11Interop::new(&device)?;
            match gpu_interop::device_for(interop.identity()) {
                Ok(device) => return Ok((interop, device)),
                Err(error) => eprintln!("skipped {}: {error}", interop.identity()),
            }
        }
        Err("no adapter has both Direct3D 11 and a compute driver".into())
    }

    /// Reads the shared buffer through a staging buffer.
    unsafe fn words(interop: &D3d11Interop, exported: &ExportableResource) -> Result<Vec<u32>, Box<dyn Error>> {
        let desc = D3D11_BUFFER_DESC {
            ByteWidth: SIZE,
            Usage: D3D11_USAGE_STAGING,
            CPUAccessFlags: D3D11_CPU_ACCESS_READ.0.cast_unsigned(),
            ..D3D11_BUFFER_DESC::default()
        };
        let mut host = None;
        // SAFETY: the descriptor outlives the call.
        unsafe { interop.device().CreateBuffer(&desc, None, Some(&mut host)) }?;
        let host = host.ok_or("no buffer was created")?;
        let mut mapped = D3D11_MAPPED_SUBRESOURCE::default();
        // SAFETY: both buffers are live and of equal size; the copy has completed when mapping returns, and nothing
        // writes to the staging buffer while it is mapped.
        unsafe {
            let context = interop.device().GetImmediateContext()?;
            context.CopyResource(&host, exported.resource());
            context.Map(&host, 0, D3D11_MAP_READ, 0, Some(&mut mapped))?;
            let words = std::slice::from_raw_parts(mapped.pData.cast::<u32>(), SIZE as usize / 4).to_vec();
            context.Unmap(&host, 0);
            Ok(words)
        }
    }
}
