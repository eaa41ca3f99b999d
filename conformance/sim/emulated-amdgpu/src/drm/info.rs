//! Properties of a GPU, as amdgpu reports them.

use rustix::io::Errno;

use super::caller::Caller;
use crate::abi::drm::{
    INFO_ACCEL_WORKING, INFO_DEV_INFO, INFO_GTT_USAGE, INFO_HW_IP_COUNT, INFO_HW_IP_INFO, INFO_MEMORY,
    INFO_READ_MMR_REG, INFO_TIMESTAMP, INFO_VRAM_GTT, INFO_VRAM_USAGE, Info,
};
use crate::abi::{Result, write_user};
use crate::gpu::Gpu;
use crate::log::say;
use crate::queue::clock;

const GTT: u64 = 4 << 30;

/// Writes the result of a query, up to the size of the caller's buffer.
pub(super) fn info(caller: Caller<'_>, value: &mut Info) -> Result<()> {
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
        INFO_HW_IP_INFO if detail[0] < 3 => engine(detail[0]),
        INFO_HW_IP_COUNT => vec![u8::from(detail[0] < 3), 0, 0, 0],
        INFO_TIMESTAMP => words(&[clock::gpu()]),
        INFO_VRAM_USAGE => words(&[used]),
        INFO_GTT_USAGE => words(&[0]),
        INFO_VRAM_GTT => words(&[gpu.vram, visible, GTT]),
        INFO_MEMORY => {
            let vram = [gpu.vram, gpu.vram, used, gpu.vram];
            let visible_vram = [visible, visible, used.min(visible), visible];
            words(&[vram, visible_vram, [GTT, GTT, 0, GTT]].concat())
        }
        INFO_READ_MMR_REG => Vec::new(),
        INFO_DEV_INFO => device(gpu),
        other => {
            say!(1, "AMDGPU_INFO: unknown query {other:#x}");
            return Err(Errno::INVAL);
        }
    })
}

/// `drm_amdgpu_info_hw_ip` of an engine: its version, alignments of commands, and its rings.
fn engine(kind: u32) -> Vec<u8> {
    let (major, minor) = if kind == 2 { (4, 0) } else { (9, 0) };
    [major, minor, 0, 0, 32, 32, 1, 0].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The first part of `drm_amdgpu_info_device`; the rest is 0.
fn device(gpu: &Gpu) -> Vec<u8> {
    let units = gpu.model.compute_units;
    let kilohertz = u32::try_from(clock::GPU_HERTZ / 1000).unwrap_or(0);
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
