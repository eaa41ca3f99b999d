//! The backends compiled into this build.

use std::sync::Arc;

use enum_dispatch::enum_dispatch;
use gpu_interop_core::{Backend, Error, Result};

use crate::selection::BackendName;

/// A backend that may be loaded.
#[enum_dispatch]
pub(crate) trait Candidate {
    /// Which backend it is.
    fn name(&self) -> BackendName;

    /// Loads its driver.
    fn load(&self) -> Result<Arc<dyn Backend>>;
}

/// Every candidate. Closed on purpose: other backends are passed to
/// [`Device::open`](gpu_interop_core::Device::open) by the application itself.
#[enum_dispatch(Candidate)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyCandidate {
    /// A backend that this build does not contain. Tried like the others, so that reports name it.
    #[cfg_attr(all(feature = "cuda", feature = "hip", feature = "host"), allow(dead_code, reason = "none is absent"))]
    Absent(AbsentCandidate),
    #[cfg(feature = "cuda")]
    Cuda(CudaCandidate),
    #[cfg(feature = "hip")]
    Hip(HipCandidate),
    #[cfg(feature = "host")]
    Host(HostCandidate),
}

/// In the order in which `auto` tries them: GPUs first, the CPU last.
pub(crate) const CANDIDATES: &[AnyCandidate] = &[
    #[cfg(feature = "cuda")]
    AnyCandidate::Cuda(CudaCandidate),
    #[cfg(not(feature = "cuda"))]
    AnyCandidate::Absent(AbsentCandidate(BackendName::Cuda)),
    #[cfg(feature = "hip")]
    AnyCandidate::Hip(HipCandidate),
    #[cfg(not(feature = "hip"))]
    AnyCandidate::Absent(AbsentCandidate(BackendName::Hip)),
    #[cfg(feature = "host")]
    AnyCandidate::Host(HostCandidate),
    #[cfg(not(feature = "host"))]
    AnyCandidate::Absent(AbsentCandidate(BackendName::Host)),
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct AbsentCandidate(pub(crate) BackendName);

impl Candidate for AbsentCandidate {
    fn name(&self) -> BackendName {
        self.0
    }

    fn load(&self) -> Result<Arc<dyn Backend>> {
        let name = self.0;
        Err(Error::unsupported(
            "gpu_interop::select",
            format!("this build has no {name} backend; it needs the cargo feature `{name}`"),
        ))
    }
}

#[cfg(feature = "cuda")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CudaCandidate;

#[cfg(feature = "cuda")]
impl Candidate for CudaCandidate {
    fn name(&self) -> BackendName {
        BackendName::Cuda
    }

    fn load(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(gpu_interop_cuda::CudaBackend::load()?))
    }
}

#[cfg(feature = "hip")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct HipCandidate;

#[cfg(feature = "hip")]
impl Candidate for HipCandidate {
    fn name(&self) -> BackendName {
        BackendName::Hip
    }

    fn load(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(gpu_interop_hip::HipBackend::load()?))
    }
}

#[cfg(feature = "host")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCandidate;

#[cfg(feature = "host")]
impl Candidate for HostCandidate {
    fn name(&self) -> BackendName {
        BackendName::Host
    }

    fn load(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(gpu_interop_host::HostBackend::new()))
    }
}
