//! The backends under test, each on its simulator.

use gpu_interop::cuda::CudaBackend;
use gpu_interop::hip::HipBackend;
use gpu_interop::{Backend, BinaryImage, Device, Feature, ModuleImage, Result};

/// The driver's vendor.
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
    /// The simulator's settings.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Functions hidden from the library.
    pub(crate) without: &'static [&'static str],
    /// Functions that only another driver of the list calls, with the reason.
    pub(crate) spared: &'static [(&'static str, &'static str)],
    /// `true` if every code is injected, `false` if only some.
    pub(crate) whole: bool,
}

const PINNED: &str = "asked where hipExtMallocWithFlags is missing or fails";

/// Every backend under test.
pub(crate) const DRIVERS: [Driver; 3] = [
    Driver {
        name: "cuda",
        vendor: Vendor::Cuda,
        ordinal: 0,
        // Each call but signals and waits makes the device's context current and restores this one.
        environment: &[("GPU_INTEROP_SIM_CONTEXT", "foreign")],
        without: &[],
        spared: &[("cuDevicePrimaryCtxGetState", "asked where cuCtxGetId is missing")],
        whole: true,
    },
    Driver {
        name: "hip",
        vendor: Vendor::Hip,
        // Not the thread's device, so that each call changes the current device and restores it. The two devices have
        // the same identity, because a null result instead of a device's number is a valid device.
        ordinal: 1,
        environment: &[("GPU_INTEROP_SIM_DEVICES", "2"), ("GPU_INTEROP_SIM_ALIKE", "1")],
        without: &[],
        spared: &[
            ("hipGetDeviceProperties", "asked where hipGetDevicePropertiesR0600 is missing"),
            ("hipHostRegister", PINNED),
            ("hipHostGetDevicePointer", PINNED),
            ("hipHostUnregister", PINNED),
        ],
        whole: true,
    },
    Driver {
        name: "hip 5",
        vendor: Vendor::Hip,
        ordinal: 0,
        // HIP 5.2 has neither attribute, and the exercise has exportable memory and timelines.
        environment: &[("GPU_INTEROP_SIM_HIP_LAYOUT", "5"), ("GPU_INTEROP_SIM_ATTRIBUTES", "89:1,10013:1")],
        // Newer than HIP 5; and signal memory, for which pinned memory is the fallback.
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
    pub(crate) fn named(name: &str) -> &'static Self {
        DRIVERS.iter().find(|driver| driver.name == name).expect("a driver's name")
    }

    /// `true` if its devices have a feature without faults.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        let images = [Feature::MappedMipmappedArray, Feature::Surfaces, Feature::Textures];
        self.vendor == Vendor::Cuda || !images.contains(&feature)
    }
}

impl Vendor {
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

    /// The prefix of the driver's functions.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Hip => "hip",
        }
    }

    /// `true` if a symbol is a function of its driver.
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

    pub(crate) fn load(self) -> Result<Box<dyn Backend>> {
        Ok(match self {
            Self::Cuda => Box::new(CudaBackend::load()?),
            Self::Hip => Box::new(HipBackend::load()?),
        })
    }

    /// The module of kernels for a device; `None` if its architecture is unknown.
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
