//! Backends compiled into this build.

use std::sync::Arc;

use enum_dispatch::enum_dispatch;
use gpu_interop_core::{Backend, Error, Result};

use crate::selection::BackendName;

/// Backend that may be loaded.
#[enum_dispatch]
pub(crate) trait Candidate {
    fn name(&self) -> BackendName;

    /// Loads the backend's driver.
    fn load(&self) -> Result<Arc<dyn Backend>>;
}

/// Candidates of this build. The set is closed: applications pass other backends to
/// [`Device::open`](gpu_interop_core::Device::open).
#[enum_dispatch(Candidate)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyCandidate {
    /// Backend that this build does not contain. It is tried like the others so that errors name it.
    #[cfg_attr(all(feature = "cuda", feature = "hip", feature = "host"), allow(dead_code, reason = "none is absent"))]
    Absent(AbsentCandidate),
    #[cfg(feature = "cuda")]
    Cuda(CudaCandidate),
    #[cfg(feature = "hip")]
    Hip(HipCandidate),
    #[cfg(feature = "host")]
    Host(HostCandidate),
}

/// Candidates in the order of `auto`: GPUs first, the CPU last.
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

/// Declares the candidate of each backend that a cargo feature adds, and how it is loaded.
macro_rules! candidates {
    ($($feature:literal $candidate:ident: $name:ident = $load:expr;)+) => { $(
        #[cfg(feature = $feature)]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $candidate;

        #[cfg(feature = $feature)]
        impl Candidate for $candidate {
            fn name(&self) -> BackendName {
                BackendName::$name
            }

            fn load(&self) -> Result<Arc<dyn Backend>> {
                Ok(Arc::new($load))
            }
        }
    )+ };
}

candidates! {
    "cuda" CudaCandidate: Cuda = gpu_interop_cuda::CudaBackend::load()?;
    "hip" HipCandidate: Hip = gpu_interop_hip::HipBackend::load()?;
    "host" HostCandidate: Host = gpu_interop_host::HostBackend::new();
}
