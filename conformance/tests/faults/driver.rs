//! The tested backend, with the simulator of its driver.

use gpu_interop::cuda::CudaBackend;
use gpu_interop::hip::HipBackend;
use gpu_interop::{Backend, BinaryImage, Device, Feature, ModuleImage, Result};

/// Whose driver it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    /// NVIDIA's.
    Cuda,
    /// AMD's.
    Hip,
}

/// A backend and its surroundings.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) name: &'static str,
    pub(crate) vendor: Vendor,
    /// The device that is opened.
    pub(crate) ordinal: usize,
    /// What the library is told.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Functions that the library is without.
    pub(crate) without: &'static [&'static str],
    /// Functions that are not called here, and are elsewhere, with the reason.
    pub(crate) spared: &'static [(&'static str, &'static str)],
    /// Whether every code is tried, and not only some.
    pub(crate) whole: bool,
}

const PINNED: &str = "asked where hipExtMallocWithFlags is missing or fails";

/// All that is tried.
pub(crate) const DRIVERS: [Driver; 3] = [
    Driver {
        name: "cuda",
        vendor: Vendor::Cuda,
        ordinal: 0,
        // Each call makes the device's context current, and this one again.
        environment: &[("SIM_CONTEXT", "foreign")],
        without: &[],
        spared: &[],
        whole: true,
    },
    Driver {
        name: "hip",
        vendor: Vendor::Hip,
        // Another device than the thread's, so that each call changes that and changes it back. They look alike: where 0 is
        // answered in place of a device's number, that is a device.
        ordinal: 1,
        environment: &[("SIM_DEVICES", "2"), ("SIM_ALIKE", "1")],
        without: &[],
        spared: &[
            ("hipGetDeviceProperties", "asked where hipGetDevicePropertiesR0600 is missing"),
            ("hipMalloc", "before HIP 5.7, whose fills are copies"),
            ("hipHostMalloc", PINNED),
            ("hipHostGetDevicePointer", PINNED),
            ("hipHostFree", PINNED),
        ],
        whole: true,
    },
    Driver {
        name: "hip 5",
        vendor: Vendor::Hip,
        ordinal: 0,
        // HIP 5.2 has neither attribute, and the exercise has exportable memory and timelines.
        environment: &[("SIM_HIP_LAYOUT", "5"), ("SIM_ATTRIBUTES", "89:1,10013:1")],
        // What came with HIP 6, and the memory in whose place there is pinned memory.
        without: &["hipGetDevicePropertiesR0600", "hipExtMallocWithFlags"],
        spared: &[
            ("hipGetDevicePropertiesR0600", "not there"),
            ("hipExtMallocWithFlags", "not there"),
            ("hipMemsetD8Async", "fills are copies"),
            ("hipSetDevice", "the device is the thread's own"),
        ],
        whole: false,
    },
];

impl Driver {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> &'static Self {
        DRIVERS.iter().find(|driver| driver.name == name).expect("a driver's name")
    }

    /// Whether its devices have a feature when nothing fails.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        let images = [Feature::MappedMipmappedArray, Feature::Surfaces, Feature::Textures];
        self.vendor == Vendor::Cuda || !images.contains(&feature)
    }
}

impl Vendor {
    /// The package of the library.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Cuda => "gpu-interop-sim-cuda-images",
            Self::Hip => "gpu-interop-sim-hip",
        }
    }

    /// The variable that names the library to the backend.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Cuda => "GPU_INTEROP_CUDA_LIBRARY",
            Self::Hip => "GPU_INTEROP_HIP_LIBRARY",
        }
    }

    /// What the names of the driver's functions begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Hip => "hip",
        }
    }

    /// Whether a symbol is a function of its driver.
    pub(crate) fn owns(self, symbol: &str) -> bool {
        symbol.strip_prefix(self.prefix()).is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()))
    }

    /// The backend's name in errors.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }

    /// Loads the backend.
    pub(crate) fn load(self) -> Result<Box<dyn Backend>> {
        Ok(match self {
            Self::Cuda => Box::new(CudaBackend::load()?),
            Self::Hip => Box::new(HipBackend::load()?),
        })
    }

    /// The module of kernels for a device; `None` if the device does not say what it is.
    pub(crate) fn kernels(self, device: &Device) -> Option<ModuleImage<'static>> {
        match self {
            Self::Cuda => Some(ModuleImage::Ptx(gpu_interop_kernels::ptx())),
            Self::Hip => {
                let bytes = gpu_interop_kernels::code_object(device.architecture()?)?;
                // SAFETY: whole code objects, which the tests of `gpu-interop-kernels` read to the end.
                Some(ModuleImage::Binary(unsafe { BinaryImage::new(bytes) }))
            }
        }
    }
}
