//! The video engine of an NVIDIA GPU (NVENC), by the functions of the driver's `libnvidia-encode`.

use std::error::Error;
use std::ffi::{CStr, c_uint};
use std::path::Path;
use std::sync::Arc;

use gpu_interop::backend::DevicePtr;
use gpu_interop::{BorrowedMemory, BufferSlice, Device, Stream};

use crate::abi::{
    Bitstream, CONSTANT_QP, CUDA, DEVICE_POINTER, Functions, H264, HIGH_QUALITY, Handle, Initialize, KEY_FRAME, Lock,
    Map, NV12, ONE_GROUP, Open, P4, PROGRESSIVE, Picture, Preset, Register, SUPPORTED_VERSION, VERSION, WITHOUT_ENGINE,
};
use crate::driver_library::{LoadError, Status, functions, zeroed};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The library's name where the driver installs it.
pub(crate) const NAME: &str = if cfg!(windows) { "nvEncodeAPI64.dll" } else { "libnvidia-encode.so.1" };

/// What the machine lacks for encoding on the GPU.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEncoder {
    #[error(
        "NVIDIA's encoder library cannot be used ({0}); install the driver's video libraries (Debian: libnvidia-encode1) or \
         a newer driver, or give the container the driver capability `video` \
         (NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility,video)"
    )]
    Library(#[from] LoadError),
    #[error("the encoder library supports version {}.{} of its interface; install a driver from 470 on", .0 >> 4, .0 & 15)]
    Version(c_uint),
    #[error("NVIDIA's encoder works with devices of the CUDA backend, and this is {0}; set GPU_INTEROP_BACKEND=cuda")]
    Backend(String),
    #[error("no video engine encodes H.264 here: {0}; use a GPU that has one (the A100, H100 and H200 have none)")]
    Engine(String),
}

functions! {
    /// The functions that the library exports.
    Library {
        max_version = "NvEncodeAPIGetMaxSupportedVersion": fn(*mut c_uint);
        functions = "NvEncodeAPICreateInstance": fn(*mut Functions);
    }
}

functions! {
    /// The functions of the CUDA driver for the encoder's input.
    Driver {
        set_context = "cuCtxSetCurrent": fn(usize);
        allocate = "cuMemAlloc_v2": fn(*mut u64, usize);
        free = "cuMemFree_v2": fn(u64);
    }
}

/// Memory that the application allocates.
struct Allocation {
    driver: Driver,
    context: usize,
    address: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the context is the device's primary one, which the application retains until its end.
        unsafe { (self.driver.set_context)(self.context) };
        // SAFETY: allocated by `cuMemAlloc`, freed once; the device has completed the work that uses it.
        unsafe { (self.driver.free)(self.address) };
    }
}

/// Allocates device memory by `cuMemAlloc`. The encoder's header names that and arrays, and no imported memory.
fn allocate(device: &Device, size: u64) -> Result<BorrowedMemory> {
    let info = device.backend();
    let (Some(context), Some(file)) = (device.context(), &info.library) else {
        return Err(NoEncoder::Backend(info.name.clone()).into());
    };
    let driver = Driver::load(file)?;
    let (context, mut address) = (context.get(), 0);
    // SAFETY: the context is the device's, which is open.
    let current = unsafe { (driver.set_context)(context) };
    // SAFETY: the pointer is valid for the call.
    let allocated = unsafe { (driver.allocate)(&raw mut address, usize::try_from(size)?) };
    if current != 0 || allocated != 0 {
        return Err(format!("cuMemAlloc failed with CUresult {}", current.max(allocated)).into());
    }
    let owner = Arc::new(Allocation { driver, context, address });
    // SAFETY: the allocation is of this size and lives as long as its owner. The encoder reads it after a synchronisation.
    Ok(unsafe { device.borrow_memory(DevicePtr::new(address), size, owner) }?)
}

/// Runs a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A function of the list.
fn need<T>(function: Option<T>) -> Result<T> {
    function.ok_or_else(|| "the encoder library lacks a function of its version 11.1".into())
}

/// An encoder, destroyed when it is dropped.
struct Encoder {
    functions: Functions,
    handle: Handle,
    _library: Library,
}

impl Encoder {
    /// Turns a status into a result, with the encoder's own words.
    fn check(&self, function: &'static str, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the encoder is live, or 0 if it could not be opened, which the caller excludes.
        let text = self.functions.last_error.map(|last| unsafe { last(self.handle) });
        // SAFETY: the library returns text that ends with a zero and stays valid until the encoder's next call.
        let text = text.filter(|text| !text.is_null()).map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
        Err(format!("{function} failed with NVENCSTATUS {status} {}", text.unwrap_or_default()).into())
    }

    fn open(library: &Path, device: &Device) -> Result<Self> {
        let library = Library::load(library).map_err(NoEncoder::from)?;
        let Some(context) = device.context() else {
            return Err(NoEncoder::Backend(device.backend().name.clone()).into());
        };
        let mut supported = 0;
        // SAFETY: the pointer is valid for the call.
        let asked = unsafe { (library.max_version)(&raw mut supported) };
        if asked != 0 || supported < SUPPORTED_VERSION {
            return Err(NoEncoder::Version(supported).into());
        }
        let mut functions = Functions::default();
        // SAFETY: the struct is complete, and the function keeps no pointer to it.
        let listed = unsafe { (library.functions)(&raw mut functions) };
        if listed != 0 {
            return Err(format!("NvEncodeAPICreateInstance failed with NVENCSTATUS {listed}").into());
        }
        let mut params = Open { kind: CUDA, device: context.get(), api_version: VERSION, ..Open::default() };
        let mut encoder = Self { functions, handle: 0, _library: library };
        // SAFETY: the pointers are valid for the call, and the context is that of an open device.
        let opened = unsafe { need(functions.open)?(&raw mut params, &raw mut encoder.handle) };
        match opened {
            0 => {}
            status if WITHOUT_ENGINE.contains(&status) => {
                return Err(NoEncoder::Engine(format!("NVENCSTATUS {status}")).into());
            }
            status => return Err(format!("nvEncOpenEncodeSessionEx failed with NVENCSTATUS {status}").into()),
        }
        if encoder.codecs()?.contains(&H264) {
            Ok(encoder)
        } else {
            Err(NoEncoder::Engine("other codecs only".into()).into())
        }
    }

    fn codecs(&self) -> Result<Vec<crate::abi::Guid>> {
        let mut count = 0;
        // SAFETY: the encoder is live and the pointer is valid for the call.
        let counted = unsafe { need(self.functions.codec_count)?(self.handle, &raw mut count) };
        self.check("nvEncGetEncodeGUIDCount", counted)?;
        let mut codecs = vec![zeroed(); usize::try_from(count)?];
        // SAFETY: as above; `codecs` has `count` elements.
        let listed = unsafe { need(self.functions.codecs)?(self.handle, codecs.as_mut_ptr(), count, &raw mut count) };
        self.check("nvEncGetEncodeGUIDs", listed)?;
        codecs.truncate(usize::try_from(count)?);
        Ok(codecs)
    }

    /// Prepares for single frames of constant quantisation.
    fn initialize(&self, extent: [u32; 2], qp: u32) -> Result<()> {
        let mut preset = Preset { config: crate::abi::Config::default(), ..Preset::default() };
        // SAFETY: the encoder is live and the pointer is valid for the call.
        let queried = unsafe { need(self.functions.preset)?(self.handle, H264, P4, HIGH_QUALITY, &raw mut preset) };
        self.check("nvEncGetEncodePresetConfigEx", queried)?;
        // Without B frames each picture is complete after its call.
        preset.config.group = ONE_GROUP;
        preset.config.interval = 1;
        preset.config.rate.mode = CONSTANT_QP;
        preset.config.rate.qp = [qp; 3];
        let mut params = Initialize {
            codec: H264,
            preset: P4,
            extent,
            aspect: extent,
            rate: [30, 1],
            decides_types: 1,
            config: &raw mut preset.config,
            tuning: HIGH_QUALITY,
            ..Initialize::default()
        };
        // SAFETY: the encoder is live; the struct and its configuration are valid for the call, which copies them.
        let initialized = unsafe { need(self.functions.initialize)?(self.handle, &raw mut params) };
        self.check("nvEncInitializeEncoder", initialized)
    }

    /// Encodes one picture, which is complete, at an address of the device. Returns its bytes of H.264.
    fn encode(&self, address: DevicePtr, extent: [u32; 2]) -> Result<Vec<u8>> {
        let (functions, encoder) = (&self.functions, self.handle);
        let mut output = Bitstream::default();
        // SAFETY: here and below the encoder is live, and the struct is valid for the call.
        let created = unsafe { need(functions.create_bitstream)?(encoder, &raw mut output) };
        self.check("nvEncCreateBitstreamBuffer", created)?;
        let destroy = need(functions.destroy_bitstream)?;
        // SAFETY: the objects below are released once, in the reverse order, and the encoder after all of them.
        let _output = OnDrop(|| _ = unsafe { destroy(encoder, output.handle) });

        let mut input = Register {
            kind: DEVICE_POINTER,
            extent,
            pitch: extent[0],
            address: usize::try_from(address.get())?,
            format: NV12,
            ..Register::default()
        };
        // SAFETY: as above; the memory is of this size, from `cuMemAlloc` in the encoder's context.
        let registered = unsafe { need(functions.register)?(encoder, &raw mut input) };
        self.check("nvEncRegisterResource", registered)?;
        let unregister = need(functions.unregister)?;
        // SAFETY: as for the bitstream.
        let _input = OnDrop(|| _ = unsafe { unregister(encoder, input.handle) });

        let mut mapped = Map { registered: input.handle, ..Map::default() };
        // SAFETY: as above.
        let status = unsafe { need(functions.map)?(encoder, &raw mut mapped) };
        self.check("nvEncMapInputResource", status)?;
        let unmap = need(functions.unmap)?;
        // SAFETY: as for the bitstream.
        let _mapped = OnDrop(|| _ = unsafe { unmap(encoder, mapped.mapped) });

        let mut picture = Picture {
            extent,
            pitch: extent[0],
            flags: KEY_FRAME,
            input: mapped.mapped,
            output: output.handle,
            format: mapped.format,
            structure: PROGRESSIVE,
            ..Picture::default()
        };
        // SAFETY: as above; the picture's objects are live.
        let encoded = unsafe { need(functions.encode)?(encoder, &raw mut picture) };
        self.check("nvEncEncodePicture", encoded)?;
        let mut lock = Lock { handle: output.handle, ..Lock::default() };
        // SAFETY: as above. The call waits for the engine.
        let locked = unsafe { need(functions.lock)?(encoder, &raw mut lock) };
        self.check("nvEncLockBitstream", locked)?;
        // SAFETY: the engine has written these bytes, which stay in place until the unlock.
        let bytes = unsafe { std::slice::from_raw_parts(lock.bytes, usize::try_from(lock.size)?) }.to_vec();
        // SAFETY: as above; locked before.
        let unlocked = unsafe { need(functions.unlock)?(encoder, output.handle) };
        self.check("nvEncUnlockBitstream", unlocked)?;
        Ok(bytes)
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.destroy.filter(|_| self.handle != 0) {
            // SAFETY: opened in `open`, destroyed once, after its objects.
            unsafe { destroy(self.handle) };
        }
    }
}

/// Encodes a tightly packed NV12 picture, with constant quantisation. Returns H.264.
pub(crate) fn encode(
    library: &Path,
    device: &Device,
    stream: &Stream,
    nv12: BufferSlice<'_>,
    extent: [u32; 2],
    qp: u32,
) -> Result<Vec<u8>> {
    let encoder = Encoder::open(library, device)?;
    encoder.initialize(extent, qp)?;
    let input = allocate(device, nv12.size())?;
    stream.copy(&input, nv12)?;
    stream.synchronize()?;
    encoder.encode(input.as_raw(), extent)
}
