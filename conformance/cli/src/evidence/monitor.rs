//! Reads the state of the GPU under test.
//!
//! It is read in another process: a management library may crash or hang with a GPU that is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use gpu_interop::{DeviceIdentity, DeviceKind};
use gpu_interop_conformance::{Stop, Verdict, process};

use super::gpu::Gpu;
use super::{amdgpu, sys};
use crate::examined::System;

/// The hidden subcommand that reads the state.
const SUBCOMMAND: &str = "gpu-state";
/// The time limit of a reading.
const LIMIT: Duration = Duration::from_secs(10);

/// The GPU whose state is read.
#[derive(Debug, Args)]
pub(crate) struct GpuArgs {
    /// `domain:bus:device.function`.
    #[arg(long)]
    pci: Option<String>,
    #[arg(long)]
    uuid: Option<String>,
}

/// Reads the state in this process, and sends it to the parent.
///
/// # Errors
/// If it cannot be sent.
pub(crate) fn examine(args: &GpuArgs) -> Verdict {
    let gpu = args.pci.as_deref().and_then(|pci| amdgpu::read(&System::new(None), pci));
    let gpu = gpu.map_or_else(|| sys::nvml::read(args.pci.as_deref(), args.uuid.as_deref()), Ok);
    process::answer(&gpu.map_err(Stop::Skipped))
}

/// Reads the state of the GPU under test.
#[derive(Debug)]
pub(crate) struct Monitor {
    arguments: Vec<String>,
    /// `false` after a reading that failed.
    works: AtomicBool,
}

impl Monitor {
    /// Of a device; without a GPU it reads nothing.
    pub(crate) fn new(device: &DeviceIdentity, is_real: bool) -> Self {
        let mut arguments = vec![SUBCOMMAND.to_owned()];
        if let Some(pci) = &device.pci {
            arguments.extend(["--pci".into(), pci.to_string()]);
        }
        if let Some(uuid) = &device.uuid {
            arguments.extend(["--uuid".into(), format!("GPU-{uuid}")]);
        }
        let works = is_real && device.kind != DeviceKind::Cpu && arguments.len() > 1;
        Self { arguments, works: works.into() }
    }

    /// The present state; `None` if it cannot be read. A failed reading is the last one.
    pub(crate) fn read(&self) -> Option<Gpu> {
        // Relaxed: a further reading is harmless.
        if !self.works.load(Ordering::Relaxed) {
            return None;
        }
        match process::ask::<Gpu>("reading the GPU's state", &self.arguments, &[], LIMIT) {
            Ok(gpu) => Some(gpu),
            Err(stop) => {
                tracing::info!(reason = stop.reason(), "the GPU's state is not in the report");
                self.works.store(false, Ordering::Relaxed);
                None
            }
        }
    }
}
