//! The functions of AMD's runtime that the tests call.

use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;

/// `hipExternalMemoryHandleDesc` for a descriptor, with room for what later versions append.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct HandleDescriptor {
    kind: c_int,
    pad: c_int,
    descriptor: c_int,
    rest_of_union: [c_int; 3],
    size: u64,
    flags: c_uint,
    reserved: [c_uint; 17],
}

/// `hipExternalMemoryBufferDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct BufferDescriptor {
    offset: u64,
    size: u64,
    flags: c_uint,
    reserved: [c_uint; 17],
}

/// AMD's runtime, loaded. Every function returns an error number, which the wrappers convert to an error.
#[derive(Debug)]
pub(crate) struct Hip(Library);

/// The result of a call: the function's name and its error number.
pub(crate) type Result<T> = std::result::Result<T, String>;

macro_rules! call {
    ($hip:expr, $name:ident($($argument:expr => $type:ty),*)) => {{
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        // SAFETY: the type is that of the function with this name.
        let function = unsafe { $hip.0.get::<Function>(stringify!($name)) }.map_err(|error| error.to_string())?;
        // SAFETY: the arguments are valid for the call, as each wrapper below ensures.
        match unsafe { function($($argument),*) } {
            0 => Ok(()),
            error => Err(format!("{} = {error}", stringify!($name))),
        }
    }};
}

impl Hip {
    /// Loads the runtime and initialises it.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        // SAFETY: the library is AMD's runtime, whose initialisers may run here.
        let hip = Self(unsafe { Library::new(path) }.map_err(|error| error.to_string())?);
        call!(hip, hipInit(0 => c_uint))?;
        Ok(hip)
    }

    /// Major and minor version.
    pub(crate) fn version(&self) -> Result<(c_int, c_int)> {
        let mut version = 0;
        call!(self, hipRuntimeGetVersion(&raw mut version => *mut c_int))?;
        Ok((version / 10_000_000, version / 100_000 % 100))
    }

    pub(crate) fn devices(&self) -> Result<c_int> {
        let mut count = 0;
        call!(self, hipGetDeviceCount(&raw mut count => *mut c_int))?;
        Ok(count)
    }

    pub(crate) fn set_device(&self, device: c_int) -> Result<()> {
        call!(self, hipSetDevice(device => c_int))
    }

    pub(crate) fn pci_address(&self, device: c_int) -> Result<String> {
        let mut bytes = [0_u8; 64];
        call!(self, hipDeviceGetPCIBusId(bytes.as_mut_ptr() => *mut u8, 64 => c_int, device => c_int))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    pub(crate) fn malloc(&self, size: usize) -> Result<*mut c_void> {
        let mut address = std::ptr::null_mut();
        call!(self, hipMalloc(&raw mut address => *mut *mut c_void, size => usize))?;
        Ok(address)
    }

    pub(crate) fn free(&self, address: *mut c_void) -> Result<()> {
        call!(self, hipFree(address => *mut c_void))
    }

    pub(crate) fn memset(&self, address: *mut c_void, value: u8, size: usize) -> Result<()> {
        call!(self, hipMemset(address => *mut c_void, value.into() => c_int, size => usize))?;
        call!(self, hipDeviceSynchronize())
    }

    /// Copies to memory of the GPU.
    pub(crate) fn upload(&self, address: *mut c_void, bytes: &[u8]) -> Result<()> {
        call!(self, hipMemcpy(address => *mut c_void, bytes.as_ptr().cast() => *const c_void, bytes.len() => usize, 1 => c_int))
    }

    /// Copies from memory of the GPU.
    pub(crate) fn download(&self, address: *mut c_void, size: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        let to = bytes.as_mut_ptr();
        call!(self, hipMemcpy(to.cast() => *mut c_void, address => *const c_void, size => usize, 2 => c_int))?;
        Ok(bytes)
    }

    pub(crate) fn copy_peer(&self, to: (*mut c_void, c_int), from: (*mut c_void, c_int), size: usize) -> Result<()> {
        call!(self, hipMemcpyPeer(to.0 => *mut c_void, to.1 => c_int, from.0 => *const c_void, from.1 => c_int, size => usize))?;
        call!(self, hipDeviceSynchronize())
    }

    pub(crate) fn import(&self, descriptor: c_int, size: u64) -> Result<*mut c_void> {
        let handle =
            HandleDescriptor { kind: 1, pad: 0, descriptor, rest_of_union: [0; 3], size, flags: 0, reserved: [0; 17] };
        let mut memory = std::ptr::null_mut();
        call!(self, hipImportExternalMemory(&raw mut memory => *mut *mut c_void, &raw const handle => *const HandleDescriptor))?;
        Ok(memory)
    }

    pub(crate) fn map(&self, memory: *mut c_void, size: u64) -> Result<*mut c_void> {
        let buffer = BufferDescriptor { offset: 0, size, flags: 0, reserved: [0; 17] };
        let mut address = std::ptr::null_mut();
        call!(
            self,
            hipExternalMemoryGetMappedBuffer(
                &raw mut address => *mut *mut c_void,
                memory => *mut c_void,
                &raw const buffer => *const BufferDescriptor
            )
        )?;
        Ok(address)
    }

    pub(crate) fn destroy(&self, memory: *mut c_void) -> Result<()> {
        call!(self, hipDestroyExternalMemory(memory => *mut c_void))
    }
}
