//! The properties of a GPU as amdgpu reports them.

use rustix::io::Errno;

use crate::abi::drm::{
    DeviceInfo, ENGINE_KINDS, EngineInfo, INFO_ACCEL_WORKING, INFO_DEV_INFO, INFO_FW_VERSION, INFO_GTT_USAGE,
    INFO_HW_IP_COUNT, INFO_HW_IP_INFO, INFO_MEMORY, INFO_NUM_BYTES_MOVED, INFO_NUM_EVICTIONS, INFO_READ_MMR_REG,
    INFO_TIMESTAMP, INFO_VIDEO_CAPS, INFO_VIS_VRAM_USAGE, INFO_VRAM_GTT, INFO_VRAM_LOST_COUNTER, INFO_VRAM_USAGE, Info,
    REGISTER_GB_ADDR_CONFIG, VIDEO_CAPS_SIZE, VRAM_HBM,
};
use crate::abi::{Result, bytes_of, write_user};
use crate::drm::Caller;
use crate::drm::gem::FIRST_ADDRESS;
use crate::gpu;
use crate::gpu::Gpu;
use crate::queue::ring::Engine;
use crate::report::say;

const GTT: u64 = 4 << 30;
/// Pipes, banks, engines and render backends of the memory's layout, on gfx900 and gfx906.
pub(crate) const GB_ADDR_CONFIG: u32 = 0x2a11_4042;
pub(crate) const RENDER_BACKENDS: u32 = 16;
/// Address above the hole of addresses that are not sign-extended, and the end of usable ones.
const HIGH_ADDRESSES: (u64, u64) = (0xffff_8000_0000_0000, 0xffff_ffff_ffe0_0000);

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
        INFO_HW_IP_INFO if detail[0] < ENGINE_KINDS => bytes_of(&engine_info(gpu, detail)).to_vec(),
        INFO_HW_IP_COUNT if detail[0] < ENGINE_KINDS => {
            vec![u8::from(Engine::numbered(detail[0]).is_some()), 0, 0, 0]
        }
        INFO_TIMESTAMP => words(&[gpu::gpu_clock()]),
        INFO_FW_VERSION => firmware(detail[0]).iter().flat_map(|word| word.to_le_bytes()).collect(),
        INFO_VRAM_USAGE => words(&[used]),
        INFO_VIS_VRAM_USAGE => words(&[used.min(visible)]),
        INFO_GTT_USAGE | INFO_NUM_BYTES_MOVED | INFO_NUM_EVICTIONS | INFO_VRAM_LOST_COUNTER => words(&[0]),
        INFO_VRAM_GTT => words(&[gpu.vram, visible, GTT]),
        INFO_MEMORY => {
            let vram = [gpu.vram, gpu.vram, used, gpu.vram];
            let visible_vram = [visible, visible, used.min(visible), visible];
            words(&[vram, visible_vram, [GTT, GTT, 0, GTT]].concat())
        }
        INFO_READ_MMR_REG => {
            let [first, count, ..] = detail;
            // The most registers that the kernel reads at once.
            if count > 128 {
                return Err(Errno::INVAL);
            }
            let read = |offset| if offset == u64::from(REGISTER_GB_ADDR_CONFIG) { GB_ADDR_CONFIG } else { 0 };
            (u64::from(first)..).take(count as usize).flat_map(|offset| read(offset).to_le_bytes()).collect()
        }
        INFO_DEV_INFO => bytes_of(&device_info(gpu)).to_vec(),
        // No codec.
        INFO_VIDEO_CAPS => vec![0; VIDEO_CAPS_SIZE],
        other => {
            say!(1, "AMDGPU_INFO: unknown query {other:#x}");
            return Err(Errno::INVAL);
        }
    })
}

/// Graphics, compute and copies; the engines for video have no rings.
fn engine_info(gpu: &Gpu, [kind, instance, ..]: [u32; 4]) -> EngineInfo {
    let Some(engine) = Engine::numbered(kind).filter(|_| instance == 0) else { return EngineInfo::default() };
    let [major, minor, revision] = gpu.model.engine_version.map(u32::from);
    let (major, minor, discovery, size_alignment) = match engine {
        Engine::Copy => (4, 0, 4 << 16, 4),
        Engine::Graphics | Engine::Compute => (major, 0, major << 16 | minor << 8 | revision, 32),
    };
    EngineInfo {
        major,
        minor,
        start_alignment: if engine == Engine::Copy { 256 } else { 32 },
        size_alignment,
        rings: (1 << engine.rings(gpu)) - 1,
        discovery,
        ..EngineInfo::default()
    }
}

/// Version and feature number of a firmware. The compute engine's is that of the topology.
const fn firmware(kind: u32) -> [u32; 2] {
    match kind {
        // The graphics engine's parts.
        4 => [165, 53],
        5 => [189, 53],
        6 => [79, 53],
        8 => [440, 53],
        // SDMA.
        11 => [430, 0],
        _ => [0, 0],
    }
}

fn device_info(gpu: &Gpu) -> DeviceInfo {
    let units = gpu.model.compute_units;
    // One engine per unit.
    let mut map = [[0; 4]; 4];
    for (engine, _) in map.iter_mut().zip(0..units) {
        engine[0] = 1;
    }
    DeviceInfo {
        device_id: gpu.model.pci_device,
        chip_revision: 1,
        external_revision: gpu.model.external_revision,
        pci_revision: 0xc1,
        family: gpu.model.family,
        shader_engines: units,
        arrays_per_engine: 1,
        counter_frequency: u32::try_from(gpu::GPU_HERTZ / 1000).unwrap_or(0),
        engine_clock: 1_500_000,
        memory_clock: 945_000,
        active_units: units,
        units: map,
        always_on_units: map,
        render_backends: (1 << RENDER_BACKENDS) - 1,
        render_backend_count: RENDER_BACKENDS,
        graphics_contexts: 8,
        pcie_generation: 3,
        pcie_lanes: 16,
        virtual_start: FIRST_ADDRESS,
        virtual_end: 1 << 47,
        virtual_alignment: 4096,
        fragment_size: 2 << 20,
        gart_page_size: 4096,
        ce_ram_size: 32 << 10,
        vram_type: VRAM_HBM,
        vram_bits: 2048,
        double_offchip_lds: 1,
        wave_size: 64,
        visible_vgprs: 256,
        units_per_array: 1,
        texture_cache_channels: 16,
        gs_vertex_depth: 32,
        gs_primitive_depth: 1792,
        gs_waves: 32,
        high_start: HIGH_ADDRESSES.0,
        high_end: HIGH_ADDRESSES.1,
        vector_cache_kib: 16,
        scalar_caches_per_group: 1,
        scalar_data_cache_kib: 16,
        scalar_instruction_cache_kib: 32,
        gl2_cache_kib: 4096,
        ..DeviceInfo::default()
    }
}
