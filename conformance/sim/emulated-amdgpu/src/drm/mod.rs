//! Ioctls of the render nodes: their handles of buffer objects, and the properties of a GPU as amdgpu reports them.

mod gem;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

use rustix::io::Errno;

use crate::abi::drm::{
    Client, GetCap, INFO_ACCEL_WORKING, INFO_DEV_INFO, INFO_GTT_USAGE, INFO_HW_IP_COUNT, INFO_HW_IP_INFO, INFO_MEMORY,
    INFO_READ_MMR_REG, INFO_TIMESTAMP, INFO_VRAM_GTT, INFO_VRAM_USAGE, Info, Version,
};
use crate::abi::{Result, drm as number, edit, request_number, write_user};
use crate::emulation::{Emulation, File};
use crate::gpu;
use crate::gpu::Gpu;
use crate::lock;
use crate::memory::Storage;
use crate::report::say;

/// Executes an ioctl of a GPU's render node.
///
/// # Safety
///
/// `argument` is valid for the request, as the caller of `ioctl` guarantees.
pub(crate) unsafe fn ioctl(
    emulation: &'static Emulation,
    file: &File,
    gpu: usize,
    request: u64,
    argument: *mut c_void,
) -> Result<()> {
    let number = request_number(request);
    let name = number::name(number).unwrap_or_else(|| format!("drm-{number:#04x}"));
    emulation.ioctl(&name, || {
        let gpu = emulation.gpus.get(gpu).ok_or(Errno::NODEV)?;
        // SAFETY: the caller's promise.
        unsafe { dispatch(Caller { emulation, file, gpu }, request, argument) }
    })
}

/// # Safety
///
/// As for [`ioctl`].
unsafe fn dispatch(caller: Caller<'_>, request: u64, argument: *mut c_void) -> Result<()> {
    macro_rules! call {
        ($function:path) => {
            // SAFETY: the caller's promise.
            unsafe { edit(request, argument, |value| $function(caller, value)) }
        };
    }
    match request_number(request) {
        number::VERSION => call!(version),
        number::GET_CLIENT => call!(client),
        number::GET_CAP => call!(capability),
        number::INFO => call!(info),
        number::GEM_CREATE => call!(gem::create),
        number::GEM_USERPTR => call!(gem::userptr),
        number::GEM_CLOSE => call!(gem::close),
        number::GEM_MMAP => call!(gem::mmap_offset),
        number::GEM_VA => call!(gem::address),
        number::GEM_WAIT_IDLE => call!(gem::wait_idle),
        number::GEM_METADATA => call!(gem::metadata),
        number::GEM_OP => call!(gem::operation),
        number::PRIME_FD_TO_HANDLE => call!(gem::import),
        number::PRIME_HANDLE_TO_FD => call!(gem::export),
        _ => Err(Errno::NOTTY),
    }
}

fn version(_: Caller<'_>, value: &mut Version) -> Result<()> {
    (value.major, value.minor, value.patch) = (3, 54, 0);
    for ([length, address], text) in value.texts.iter_mut().zip(["amdgpu", "20150101", "AMD GPU"]) {
        let room = *length;
        for (at, byte) in (*address..).zip(text.bytes()).take(usize::try_from(room).unwrap_or(0)) {
            if *address != 0 {
                // SAFETY: the caller of the ioctl passes a buffer of the stated size.
                unsafe { write_user(at, byte)? };
            }
        }
        *length = text.len() as u64;
    }
    Ok(())
}

/// Every user that opens a render node counts as authenticated.
fn client(_: Caller<'_>, value: &mut Client) -> Result<()> {
    value.authenticated = 1;
    Ok(())
}

/// PRIME: import and export. Synchronisation objects: none.
fn capability(_: Caller<'_>, value: &mut GetCap) -> Result<()> {
    value.value = if value.capability == 5 { 3 } else { 0 };
    Ok(())
}

/// The open file of an ioctl, and the GPU of its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    emulation: &'static Emulation,
    file: &'a File,
    gpu: &'static Gpu,
}

impl Caller<'_> {
    fn with_handles<R>(self, function: impl FnOnce(&mut Handles) -> R) -> R {
        function(&mut lock(&self.file.handles))
    }

    fn object(self, handle: u32) -> Result<Arc<Storage>> {
        self.with_handles(|handles| handles.get(handle))
    }
}

/// The handles of an open file.
#[derive(Debug, Default)]
pub(crate) struct Handles(BTreeMap<u32, Arc<Storage>>);

impl Handles {
    /// The handle of an object: the existing one, or a new one.
    fn of(&mut self, storage: Arc<Storage>) -> Result<u32> {
        if let Some((handle, _)) = self.0.iter().find(|(_, known)| Arc::ptr_eq(known, &storage)) {
            return Ok(*handle);
        }
        let handle = (1..).find(|handle| !self.0.contains_key(handle)).ok_or(Errno::NOMEM)?;
        self.0.insert(handle, storage);
        Ok(handle)
    }

    fn get(&self, handle: u32) -> Result<Arc<Storage>> {
        self.0.get(&handle).map(Arc::clone).ok_or(Errno::NOENT)
    }

    /// Takes an object's handle away from it.
    fn remove(&mut self, handle: u32) -> Option<Arc<Storage>> {
        self.0.remove(&handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

const GTT: u64 = 4 << 30;

/// Writes the result of a query, up to the size of the caller's buffer.
fn info(caller: Caller<'_>, value: &mut Info) -> Result<()> {
    let answer = answer(caller, value.query, value.rest)?;
    let room = usize::try_from(value.return_size).map_err(|_| Errno::INVAL)?;
    let bytes = answer.iter().copied().chain(std::iter::repeat(0));
    for (at, byte) in (value.return_pointer..).zip(bytes).take(room) {
        // SAFETY: the caller of the ioctl passes a buffer of the stated size.
        unsafe { write_user(at, byte)? };
    }
    Ok(())
}

fn answer(caller: Caller<'_>, query: u32, detail: [u32; 4]) -> Result<Vec<u8>> {
    let Caller { emulation, gpu, .. } = caller;
    let used = emulation.memory.vram_used(gpu.index);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let visible = if gpu.large_bar { gpu.vram } else { 0 };
    Ok(match query {
        INFO_ACCEL_WORKING => vec![1, 0, 0, 0],
        // Rings for graphics, compute and copies; none for anything else.
        INFO_HW_IP_INFO if detail[0] < 3 => engine_info(detail[0]),
        INFO_HW_IP_COUNT => vec![u8::from(detail[0] < 3), 0, 0, 0],
        INFO_TIMESTAMP => words(&[gpu::gpu_clock()]),
        INFO_VRAM_USAGE => words(&[used]),
        INFO_GTT_USAGE => words(&[0]),
        INFO_VRAM_GTT => words(&[gpu.vram, visible, GTT]),
        INFO_MEMORY => {
            let vram = [gpu.vram, gpu.vram, used, gpu.vram];
            let visible_vram = [visible, visible, used.min(visible), visible];
            words(&[vram, visible_vram, [GTT, GTT, 0, GTT]].concat())
        }
        INFO_READ_MMR_REG => Vec::new(),
        INFO_DEV_INFO => device_info(gpu),
        other => {
            say!(1, "AMDGPU_INFO: unknown query {other:#x}");
            return Err(Errno::INVAL);
        }
    })
}

/// `drm_amdgpu_info_hw_ip` of an engine: its version, alignments of commands, and its rings.
fn engine_info(kind: u32) -> Vec<u8> {
    let (major, minor) = if kind == 2 { (4, 0) } else { (9, 0) };
    [major, minor, 0, 0, 32, 32, 1, 0].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The first part of `drm_amdgpu_info_device`; the rest is 0.
fn device_info(gpu: &Gpu) -> Vec<u8> {
    let units = gpu.model.compute_units;
    let kilohertz = u32::try_from(gpu::GPU_HERTZ / 1000).unwrap_or(0);
    let mut bytes: Vec<u8> = [
        gpu.model.pci_device,
        // Chip revision, external revision and PCI revision.
        1,
        2,
        0xc1,
        gpu.model.family,
        // Shader engines, arrays of each, the counter's frequency.
        units,
        1,
        kilohertz,
    ]
    .into_iter()
    .flat_map(u32::to_le_bytes)
    .collect();
    // Highest clocks of the engine and of the memory, in kHz; number of compute units.
    bytes.extend(1_500_000_u64.to_le_bytes());
    bytes.extend(945_000_u64.to_le_bytes());
    bytes.extend(units.to_le_bytes());
    bytes.resize(144, 0);
    // Range of virtual addresses, their alignment, the size of a fragment of page tables, the granularity of GART
    // pages.
    bytes.extend((2_u64 << 20).to_le_bytes());
    bytes.extend((1_u64 << 47).to_le_bytes());
    bytes.extend([4096, 2 << 20, 4096].into_iter().flat_map(u32::to_le_bytes));
    bytes
}
