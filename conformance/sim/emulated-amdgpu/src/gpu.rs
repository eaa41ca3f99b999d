//! The GPUs that can be emulated, their identities, and their clocks.

use rustix::time::{ClockId, clock_gettime};

use crate::settings::PciAddress;

/// A model of a GPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// The target's name.
    pub(crate) name: &'static str,
    /// `gfx_target_version` of the topology.
    pub(crate) target_version: u32,
    pub(crate) pci_device: u32,
    /// The name in the topology.
    pub(crate) family_name: &'static str,
    /// amdgpu's family number.
    pub(crate) family: u32,
    pub(crate) compute_units: u32,
}

const MODELS: &[Model] = &[
    Model {
        name: "gfx900",
        target_version: 90_000,
        pci_device: 0x687f,
        family_name: "vega10",
        family: 141,
        compute_units: 4,
    },
    Model {
        name: "gfx906",
        target_version: 90_006,
        pci_device: 0x66a0,
        family_name: "vega20",
        family: 141,
        compute_units: 4,
    },
    Model {
        name: "gfx908",
        target_version: 90_008,
        pci_device: 0x738c,
        family_name: "arcturus",
        family: 141,
        compute_units: 4,
    },
];

impl Model {
    /// The model with a target's name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }
}

/// A requested GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuSetting {
    pub(crate) model: &'static Model,
    pub(crate) address: PciAddress,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Gpu {
    pub(crate) index: usize,
    pub(crate) model: &'static Model,
    pub(crate) address: PciAddress,
    pub(crate) vram: u64,
    pub(crate) large_bar: bool,
}

impl Gpu {
    pub(crate) fn new(index: usize, setting: &GpuSetting, vram: u64, large_bar: bool) -> Self {
        Self { index, model: setting.model, address: setting.address, vram, large_bar }
    }

    /// The GPU's number in KFD's ioctls: not 0, and at most 16 bits.
    pub(crate) fn id(&self) -> u32 {
        0x4321 + 0x0101 * self.number()
    }

    /// Its node of the topology; node 0 is the CPU.
    pub(crate) fn node(&self) -> u32 {
        1 + self.number()
    }

    /// The minor device number of its render node.
    pub(crate) fn render_minor(&self) -> u32 {
        crate::abi::drm::FIRST_RENDER_MINOR + self.number()
    }

    /// `location_id` of the topology: bus, device and function.
    pub(crate) fn location(&self) -> u32 {
        u32::from(self.address.bus) << 8 | u32::from(self.address.device) << 3 | u32::from(self.address.function)
    }

    /// `unique_id` of the topology, from which the runtime derives the UUID.
    pub(crate) fn unique_id(&self) -> u64 {
        0x0123_4567_89ab_cdef + u64::from(self.number())
    }

    /// The first processor number of the GPU in the topology's caches.
    pub(crate) fn first_simd(&self) -> u32 {
        0x8000_1000 + 0x1000 * self.number()
    }

    fn number(&self) -> u32 {
        u32::try_from(self.index).unwrap_or(0)
    }
}

/// Frequency of the GPU's counter: 100 MHz.
pub(crate) const GPU_HERTZ: u64 = 100_000_000;

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The CPU's counter, in nanoseconds.
pub(crate) fn cpu_clock() -> u64 {
    nanoseconds(ClockId::MonotonicRaw)
}

/// The system's counter, in nanoseconds.
pub(crate) fn system_clock() -> u64 {
    nanoseconds(ClockId::Boottime)
}

pub(crate) fn gpu_clock() -> u64 {
    cpu_clock() / (1_000_000_000 / GPU_HERTZ)
}
