//! Queries of a process about the driver and the GPUs.

use rustix::io::Errno;

use crate::abi::kfd::{AcquireVm, Apertures, ClockCounters, GetApertures, GetVersion, TileConfig, XnackMode};
use crate::abi::{Result, write_user};
use crate::emulation::Emulation;
use crate::files::Device;
use crate::queue::clock;

pub(super) fn version(_: &Emulation, value: &mut GetVersion) -> Result<()> {
    (value.major, value.minor) = (1, 17);
    Ok(())
}

pub(super) fn clock_counters(_: &Emulation, value: &mut ClockCounters) -> Result<()> {
    value.gpu_clock_counter = clock::gpu();
    value.cpu_clock_counter = clock::cpu();
    value.system_clock_counter = clock::system();
    value.system_clock_freq = 1_000_000_000;
    Ok(())
}

pub(super) fn apertures(emulation: &Emulation, value: &mut GetApertures) -> Result<()> {
    let room = usize::try_from(value.count).map_err(|_| Errno::INVAL)?;
    for (gpu, at) in emulation.gpus.iter().take(room).zip((value.apertures..).step_by(size_of::<Apertures>())) {
        let apertures = Apertures {
            lds_base: 1 << 48,
            lds_limit: 1 << 48 | 0xffff_ffff,
            scratch_base: 2 << 48,
            scratch_limit: 2 << 48 | 0xffff_ffff,
            gpuvm_base: 0x4000,
            gpuvm_limit: (1 << 47) - 1,
            gpu_id: gpu.id(),
            pad: 0,
        };
        // SAFETY: the caller of the ioctl passes an array of `count` elements, and no more are written.
        unsafe { write_user(at, apertures)? };
    }
    value.count = u32::try_from(emulation.gpus.len()).map_err(|_| Errno::INVAL)?;
    Ok(())
}

pub(super) fn tile_config(emulation: &Emulation, value: &mut TileConfig) -> Result<()> {
    emulation.gpu(value.gpu_id)?;
    (value.tile_configs, value.macro_tile_configs) = (0, 0);
    (value.gb_addr_config, value.banks, value.ranks) = (0x2a11_4042, 1, 1);
    Ok(())
}

pub(super) fn acquire_vm(emulation: &Emulation, value: &mut AcquireVm) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    let descriptor = i32::try_from(value.drm_fd).map_err(|_| Errno::INVAL)?;
    let file = emulation.files.find(descriptor).ok_or(Errno::INVAL)?;
    if file.device == Device::Render(gpu.index) { Ok(()) } else { Err(Errno::INVAL) }
}

/// Page faults are never retried.
pub(super) fn xnack_mode(_: &Emulation, value: &mut XnackMode) -> Result<()> {
    if value.enabled.cast_signed() > 0 {
        return Err(Errno::PERM);
    }
    value.enabled = 0;
    Ok(())
}
