//! Processes of the tests on AMD's runtimes, and the functions of a runtime that they call. They print their results,
//! and exit with status 1 after an error.

use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;
use rustix::fd::AsRawFd as _;

/// Runs a test's process: its name, the runtime's library, then its own arguments.
pub(crate) fn run(arguments: &[String]) {
    let result = match arguments {
        [test, library, rest @ ..] => start(test, Path::new(library), rest),
        _ => Err("the name of a test and a library are missing".to_owned()),
    };
    match result {
        Ok(found) => println!("{found}"),
        Err(error) => {
            println!("error: {error}");
            std::process::exit(1);
        }
    }
}

fn start(test: &str, library: &Path, rest: &[String]) -> Result<String> {
    let hip = Hip::load(library)?;
    match test {
        "cycles" => cycles(&hip, rest.first().and_then(|count| count.parse().ok()).unwrap_or(1)),
        "copies" => copies(&hip),
        "exhaust" => exhaust(&hip),
        "fills" => fills(&hip),
        "two_gpus" => two_gpus(&hip),
        other => Err(format!("unknown test {other}")),
    }
}

const SIZE: usize = 64 << 10;

/// The number of descriptors and mappings of the process.
pub(crate) fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let maps = std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
    (descriptors, maps)
}

/// Repeatedly imports, maps, fills, verifies and frees.
fn cycles(hip: &Hip, count: u32) -> Result<String> {
    let version = hip.version()?;
    let file = rustix::fs::memfd_create(c"memory of another driver", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|it| it.to_string())?;
    rustix::fs::ftruncate(&file, SIZE as u64).map_err(|it| it.to_string())?;
    let mut before = (0, 0);
    for cycle in 0..count {
        if cycle == 3 {
            before = held();
        }
        let memory = hip.import(file.as_raw_fd(), SIZE as u64)?;
        let address = hip.map(memory, SIZE as u64)?;
        let value = u8::try_from(cycle % 251).unwrap_or(0) + 1;
        hip.memset(address, value, SIZE)?;
        let mut bytes = vec![0; SIZE];
        rustix::io::pread(&file, &mut bytes, 0).map_err(|it| it.to_string())?;
        if let Some(at) = bytes.iter().position(|byte| *byte != value) {
            return Err(format!("cycle {cycle}: byte {at} is {}, not {value}", bytes[at]));
        }
        // 5.2 aborts the process when a mapping is freed; there it ends with its import.
        if version > (5, 2) {
            hip.free(address)?;
        }
        hip.destroy(memory)?;
    }
    let after = held();
    if count > 3 && after != before {
        return Err(format!("descriptors and mappings: {before:?} before, {after:?} after"));
    }
    Ok(format!("{count} cycles"))
}

fn copies(hip: &Hip) -> Result<String> {
    let address = hip.malloc(SIZE)?;
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect();
    hip.upload(address, &bytes)?;
    if hip.download(address, SIZE)? != bytes {
        return Err("what came back is not what was sent".to_owned());
    }
    hip.memset(address, 0x5a, SIZE / 2)?;
    let expected: Vec<u8> =
        bytes.iter().enumerate().map(|(at, byte)| if at < SIZE / 2 { 0x5a } else { *byte }).collect();
    if hip.download(address, SIZE)? != expected {
        return Err("the fill is wrong".to_owned());
    }
    hip.free(address)?;
    Ok("copied".to_owned())
}

/// Allocates until memory runs out, frees everything and copies.
fn exhaust(hip: &Hip) -> Result<String> {
    let mut pieces = Vec::new();
    let error = loop {
        match hip.malloc(128 << 20) {
            Ok(piece) => pieces.push(piece),
            Err(error) => break error,
        }
        if pieces.len() > 8 {
            return Err("more was allocated than there is".to_owned());
        }
    };
    for piece in pieces {
        hip.free(piece)?;
    }
    copies(hip)?;
    Ok(error)
}

/// Two fills; the settings inject a fault into the second one's kernel.
fn fills(hip: &Hip) -> Result<String> {
    let address = hip.malloc(SIZE)?;
    hip.memset(address, 1, SIZE)?;
    hip.memset(address, 2, SIZE)?;
    Ok("filled".to_owned())
}

/// Work on two GPUs, and a copy from one to the other.
fn two_gpus(hip: &Hip) -> Result<String> {
    let count = hip.devices()?;
    let mut addresses = Vec::new();
    let mut memory = Vec::new();
    for device in 0..count {
        hip.set_device(device)?;
        addresses.push(hip.pci_address(device)?);
        let address = hip.malloc(SIZE)?;
        hip.memset(address, u8::try_from(device).unwrap_or(0) + 1, SIZE)?;
        memory.push(address);
    }
    for (device, address) in (0..).zip(&memory) {
        hip.set_device(device)?;
        let bytes = hip.download(*address, SIZE)?;
        if bytes.iter().any(|byte| i32::from(*byte) != device + 1) {
            return Err(format!("memory of GPU {device} has another's bytes"));
        }
    }
    let [first, second] = memory[..] else { return Err(format!("{count} GPUs")) };
    hip.copy_peer((second, 1), (first, 0), SIZE)?;
    if hip.download(second, SIZE)?.iter().any(|byte| *byte != 1) {
        return Err("the copy between the GPUs is wrong".to_owned());
    }
    Ok(addresses.join(" "))
}

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
