//! Resources of Direct3D 11, and their keyed mutexes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use gpu_interop::d3d::d3d11::{ExportableResource, KeyedMutex};
use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::IDXGIKeyedMutex;
use gpu_interop::d3d::windows::core::Interface;
use gpu_interop::d3d::{BindFlags, DxgiFormat, Sharing, SrvDimension, TextureSpec};
use gpu_interop::handle::Win32Object;
use gpu_interop::{ErrorKind, MappedBuffer, MemoryHandle, Result, SemaphoreImport};

use super::{SIZE, buffer11, import_sized, map_array, name, open11};
use crate::context::Context;
use crate::direct3d::Gpu11;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::scenarios::{BRIEF, expect_error, keeps_waiting, times_out};
use crate::{ensure, ensure_eq};

scenarios! {
    "d3d.buffer_11", None,
        "Buffers of Direct3D 11 by NT and KMT handle, with and without a keyed mutex, import as dedicated; data goes both \
         ways.",
        buffers, needs [memory D3d11Resource, memory D3d11ResourceKmt],
        mirrors("CUDA C++ Programming Guide: Direct3D 11 interoperability, importing memory objects");
    "d3d.buffer_11_by_name", None, "A buffer of Direct3D 11 imports by the name that it was shared under.", by_name,
        needs [memory D3d11Resource, NamedMemory];
    "d3d.texture_11", None,
        "Textures of Direct3D 11 by NT and KMT handle map as arrays, every texel in both directions, for the formats that \
         the device supports.",
        textures, needs [memory D3d11Resource, memory D3d11ResourceKmt, MappedMipmappedArray],
        mirrors("cuda-samples: simpleD3D11Texture");
    "d3d.keyed_mutex", None,
        "A context and a stream hand a buffer over 100 times by a keyed mutex, by NT and KMT handle; every byte is checked.",
        hand_over, needs [memory D3d11Resource, memory D3d11ResourceKmt, semaphore D3d11KeyedMutex,
            semaphore D3d11KeyedMutexKmt],
        mirrors("CUDA C++ Programming Guide: Direct3D 11 interoperability, keyed mutex");
    "d3d.keyed_mutex_by_name", None, "The same turns work with the mutex of a resource imported by name.", mutex_by_name,
        needs [memory D3d11Resource, semaphore D3d11KeyedMutex, NamedMemory, NamedSemaphores];
    "d3d.keyed_mutex_timeout", None,
        "A wait for a key that is never released times out with a typed error and acquires nothing; the released key is \
         acquired afterwards.",
        timeout, needs [memory D3d11Resource, memory D3d11ResourceKmt, semaphore D3d11KeyedMutex,
            semaphore D3d11KeyedMutexKmt];
    "d3d.keyed_mutex_without_end", None,
        "An unbounded wait ends with the stream's release, not before, and finds the stream's data.", without_end,
        needs [memory D3d11Resource, memory D3d11ResourceKmt, semaphore D3d11KeyedMutex, semaphore D3d11KeyedMutexKmt];
    "d3d.keyed_mutex_abandoned", None,
        "A mutex whose holder has ended is a typed error at once, and does not count as acquired.", abandoned,
        needs [memory D3d11Resource, semaphore D3d11KeyedMutex];
}

fn buffers(context: &Context) -> Verdict {
    let gpu = open11(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    for sharing in Sharing::ALL {
        let buffer = buffer11(&gpu, SIZE, sharing)?;
        // A new mutex is released with key 0.
        let mutex = sharing.semaphore_handle_kind().map(|_| buffer.keyed_mutex()).transpose()?;
        mutex.iter().try_for_each(|mutex| gpu.acquire(mutex, 0, Some(crate::outcome::WAIT_TIMEOUT)))?;
        let request = buffer.import_request()?;
        ensure!(request.is_dedicated(), "{sharing:?}: the request lacks the dedicated flag");
        ensure_eq!(request.handle().kind(), sharing.memory_handle_kind(), "the kind of handle, {sharing:?}");
        let mapped = import_sized(context, request, SIZE)?;
        gpu.write(buffer.resource(), &pattern.bytes(0, SIZE))?;
        // Returns after the context's work.
        gpu.read(buffer.resource(), SIZE)?;
        pattern.verify(0, &context.read(&stream, &mapped)?, format_args!("{sharing:?}: Direct3D's data"))?;
        stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
        let found = gpu.read(buffer.resource(), SIZE)?;
        pattern.other().verify(0, &found, format_args!("{sharing:?}: the device's data"))?;
        mutex.iter().try_for_each(|mutex| gpu.release(mutex, 0))?;
    }
    Ok(())
}

fn by_name(context: &Context) -> Verdict {
    let gpu = open11(context)?;
    let buffer = buffer11(&gpu, SIZE, Sharing::NtHandle)?;
    let name = name("buffer-11")?;
    let (kept, request) = buffer.import_request_by_name(&name)?;
    let mapped = import_sized(context, request, SIZE)?;
    // The import keeps the memory.
    drop(kept);
    let (pattern, stream) = (context.pattern(), context.stream()?);
    gpu.write(buffer.resource(), &pattern.bytes(0, SIZE))?;
    gpu.read(buffer.resource(), SIZE)?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    pattern.other().verify(0, &gpu.read(buffer.resource(), SIZE)?, "the device's data")?;
    mapped.close()?;
    let gone = gpu.interop().open_resource_by_name(&name);
    expect_error(gone, ErrorKind::InvalidArgument, "a name whose handles and imports are closed")?;
    Ok(())
}

fn textures(context: &Context) -> Verdict {
    const SHARINGS: [Sharing; 2] = [Sharing::NtHandle, Sharing::Kmt];
    const EXTENT: (u64, u32, u16) = (67, 45, 1);
    let gpu = open11(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let mut mapped_some = false;
    for (format, texel) in [
        (DxgiFormat::R8G8B8A8_UNORM, 4),
        (DxgiFormat::R16G16_UINT, 4),
        (DxgiFormat::R32G32B32A32_FLOAT, 16),
        (DxgiFormat::R8_UNORM, 1),
    ] {
        for sharing in SHARINGS {
            let what = format!("{sharing:?}, {format:?}");
            let spec = TextureSpec::new(SrvDimension::TEXTURE2D, EXTENT, format);
            let texture = ExportableResource::texture(gpu.interop(), &spec, BindFlags::SHADER_RESOURCE, sharing)?;
            let mapped = map_array(context, texture.import_request()?, &texture.array_desc()?, &what)?;
            let Some(array) = mapped else { continue };
            mapped_some = true;
            let (row, rows) = (67 * texel, 45);
            let data = pattern.bytes(0, row * rows);
            gpu.write_texture(texture.resource(), &data)?;
            gpu.read_texture(texture.resource())?;
            let mut found = vec![0; row * rows];
            stream.read_array(array.level(0)?, &mut found)?;
            pattern.verify(0, &found, format_args!("{what}: Direct3D's data"))?;
            stream.write_array(array.level(0)?, &pattern.other().bytes(0, row * rows))?;
            let found = gpu.read_texture(texture.resource())?;
            pattern.other().verify(0, &found, format_args!("{what}: the device's data"))?;
        }
    }
    ensure!(mapped_some, "the device maps none of these formats");
    Ok(())
}

const KINDS: [Sharing; 2] = [Sharing::NtHandleKeyedMutex, Sharing::KmtKeyedMutex];
const TURNS: u64 = 100;

/// A buffer with a mutex, and the device's imports of both.
struct Shared {
    gpu: Gpu11,
    mutex: KeyedMutex,
    mapped: MappedBuffer,
}

impl Shared {
    fn new(context: &Context, sharing: Sharing) -> Verdict<Self> {
        let gpu = open11(context)?;
        let buffer = buffer11(&gpu, SIZE, sharing)?;
        let mapped = import_sized(context, buffer.import_request()?, SIZE)?;
        Ok(Self { gpu, mutex: buffer.keyed_mutex()?, mapped })
    }

    fn acquire(&self, key: u64, limit: Duration) -> Result<()> {
        self.gpu.acquire(&self.mutex, key, Some(limit))
    }

    fn release(&self, key: u64) -> Result<()> {
        self.gpu.release(&self.mutex, key)
    }

    fn read(&self) -> Verdict<Vec<u8>> {
        self.gpu.read(self.mutex.resource().resource(), SIZE)
    }

    /// The context has even keys, the stream odd ones.
    fn turns(&self, context: &Context, request: SemaphoreImport) -> Verdict {
        let semaphore = context.device().import_semaphore(request)?;
        let (stream, pattern) = (context.stream()?, context.pattern());
        for turn in 0..TURNS {
            let (here, there) = (2 * turn, 2 * turn + 1);
            // Enqueued first, so that it has to wait for its turn.
            stream.wait(&[semaphore.acquire_key(there, Some(WAIT_TIMEOUT))])?;
            self.acquire(here, WAIT_TIMEOUT)?;
            if turn > 0 {
                let found = self.read()?;
                let expected = pattern.byte(turn - 1);
                verify_bytes(&found, expected, format_args!("turn {turn}: the stream's data is missing"))?;
            }
            keeps_waiting(&stream, BRIEF, format_args!("turn {turn}: the stream proceeded without its key"))?;
            let data = pattern.bytes(turn * SIZE as u64, SIZE);
            self.gpu.write(self.mutex.resource().resource(), &data)?;
            self.release(there)?;
            stream.synchronize_timeout(WAIT_TIMEOUT)?;
            pattern.verify(turn * SIZE as u64, &context.read(&stream, &self.mapped)?, "the context's data")?;
            stream.fill(&self.mapped, pattern.byte(turn))?;
            stream.signal(&[semaphore.release_key(here + 2)])?;
        }
        self.acquire(2 * TURNS, WAIT_TIMEOUT)?;
        let found = self.read()?;
        verify_bytes(&found, pattern.byte(TURNS - 1), "the stream's last data is missing")?;
        Ok(self.release(0)?)
    }
}

fn hand_over(context: &Context) -> Verdict {
    for sharing in KINDS {
        let shared = Shared::new(context, sharing)?;
        shared.turns(context, shared.mutex.import_request()?)?;
    }
    Ok(())
}

fn mutex_by_name(context: &Context) -> Verdict {
    let sharing = Sharing::NtHandleKeyedMutex;
    let gpu = open11(context)?;
    let (buffer, name) = (buffer11(&gpu, SIZE, sharing)?, name("mutex")?);
    // One name for both: the request's kind selects the object.
    let (kept, of_memory) = buffer.import_request_by_name(&name)?;
    let mapped = import_sized(context, of_memory, SIZE)?;
    let shared = Shared { mutex: buffer.keyed_mutex()?, gpu, mapped };
    // SAFETY: the mutex's resource was exported under the name, and its handle is open until after the turns.
    let of_mutex = unsafe { shared.mutex.import_request_by_name(&name) }?;
    let turns = shared.turns(context, of_mutex);
    drop(kept);
    turns
}

/// Fails unless the acquire times out, not before the limit and not much later.
fn in_time(shared: &Shared, key: u64, limit: Duration) -> Verdict {
    let error = times_out(limit, "a key that is never released", || shared.acquire(key, limit))?;
    ensure!(error.to_string().contains(&format!("key: {key}")), "it does not name the key: {error}");
    Ok(())
}

fn timeout(context: &Context) -> Verdict {
    for sharing in KINDS {
        let shared = Shared::new(context, sharing)?;
        let semaphore = context.device().import_semaphore(shared.mutex.import_request()?)?;
        let (stream, pattern) = (context.stream()?, context.pattern());
        // Free, but with another key; then held by the stream; then released with a third.
        in_time(&shared, 7, Duration::from_millis(60))?;
        stream.wait(&[semaphore.acquire_key(0, Some(WAIT_TIMEOUT))])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        for key in [0, 7] {
            in_time(&shared, key, Duration::from_millis(60))?;
        }
        stream.write(&shared.mapped, &pattern.bytes(0, SIZE))?;
        stream.signal(&[semaphore.release_key(5)])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        for limit in [Duration::ZERO, Duration::from_millis(150)] {
            in_time(&shared, 7, limit)?;
        }
        let refused = shared.release(7);
        expect_error(refused, ErrorKind::Driver, "a release without an acquisition")?;
        shared.acquire(5, WAIT_TIMEOUT)?;
        pattern.verify(0, &shared.read()?, "the stream's data")?;
        shared.release(0)?;
    }
    Ok(())
}

fn without_end(context: &Context) -> Verdict {
    for sharing in KINDS {
        let shared = Shared::new(context, sharing)?;
        let semaphore = context.device().import_semaphore(shared.mutex.import_request()?)?;
        let (stream, pattern) = (context.stream()?, context.pattern());
        stream.wait(&[semaphore.acquire_key(0, Some(WAIT_TIMEOUT))])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        let (mutex, (acquired, waits)) = (shared.mutex.clone(), mpsc::channel());
        // Not joined: without a release, it blocks until the process ends. SAFETY: nothing else uses the context and
        // the mutex until this has returned, which is waited for below.
        std::thread::spawn(move || acquired.send(unsafe { mutex.acquire(9, None) }));
        let early = waits.recv_timeout(WATCH);
        ensure!(
            matches!(early, Err(RecvTimeoutError::Timeout)),
            "the wait ended while the stream had the mutex: {early:?}"
        );
        stream.write(&shared.mapped, &pattern.bytes(0, SIZE))?;
        stream.signal(&[semaphore.release_key(9)])?;
        let acquired = waits.recv_timeout(WAIT_TIMEOUT);
        acquired.map_err(|_| Stop::failed("the wait does not end with the stream's release".into()))??;
        pattern.verify(0, &shared.read()?, "the stream's data")?;
        shared.release(0)?;
    }
    Ok(())
}

fn abandoned(context: &Context) -> Verdict {
    let shared = Shared::new(context, Sharing::NtHandleKeyedMutex)?;
    let other = Gpu11::open(context.device())?;
    let MemoryHandle::D3d11Resource(Win32Object::Handle(handle)) = shared.mutex.resource().export()? else {
        return Err(Stop::failed("the resource was not exported by NT handle".into()));
    };
    let opened = other.interop().open_resource(&handle)?;
    let held: IDXGIKeyedMutex = opened.cast()?;
    // The interface's own method treats WAIT_TIMEOUT as success. SAFETY: the function is the mutex's own, which is
    // live, and this thread is the only user of its device.
    let answer = unsafe { (held.vtable().AcquireSync)(held.as_raw(), 0, 1000) };
    ensure_eq!(answer.0, 0, "the result of AcquireSync for the other device");
    in_time(&shared, 0, Duration::from_millis(60))?;
    // The device is dropped while it holds the mutex.
    drop((held, opened, other, handle));
    let start = Instant::now();
    let error = expect_error(shared.acquire(0, WAIT_TIMEOUT), ErrorKind::Driver, "an abandoned mutex")?;
    ensure!(start.elapsed() < WAIT_TIMEOUT / 2, "it took {:?}", start.elapsed());
    let name = error.code().and_then(|code| code.name.clone());
    ensure!(name.as_deref() == Some("WAIT_ABANDONED"), "another error: {error}");
    let released = shared.release(0);
    expect_error(released, ErrorKind::Driver, "a release of an abandoned mutex")?;
    Ok(())
}
