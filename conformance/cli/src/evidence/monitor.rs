//! Reads the state of the GPU under test.
//!
//! Another process reads it: a management library may crash or hang with a GPU that is lost. The process stays for the
//! whole run, because such a library takes longer to start than to read.

use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use gpu_interop::{DeviceIdentity, DeviceKind};
use gpu_interop_conformance::process::this_program;
use gpu_interop_conformance::system::{self, Received};
use gpu_interop_conformance::{Channel, Incoming, Stop, Verdict};
use wait_timeout::ChildExt;

use super::amdgpu;
use super::gpu::Gpu;
use super::sys::nvml::Nvml;
use crate::examined::System;

/// The hidden subcommand that reads the state.
const SUBCOMMAND: &str = "gpu-state";
/// The message that asks for the state.
const READ: &str = "read";
/// The time limit of a reading.
const LIMIT: Duration = Duration::from_secs(10);
/// Time for the process to end after it was killed.
const LEAVING: Duration = Duration::from_secs(3);
/// Maximum size of a reply, bytes.
const REPLY: usize = 16 << 10;

/// The GPU whose state is read.
#[derive(Debug, Args)]
pub(crate) struct GpuArgs {
    /// `domain:bus:device.function`.
    #[arg(long)]
    pci: Option<String>,
    #[arg(long)]
    uuid: Option<String>,
}

/// Serves the parent's requests for the state, until the parent closes the connection.
///
/// # Errors
/// If a reply cannot be sent.
pub(crate) fn examine(args: &GpuArgs) -> Verdict {
    let (channel, mut nvml) = (Channel::of_this_process()?, None);
    loop {
        match channel.next(LIMIT)? {
            Incoming::Nothing => {}
            Incoming::Gone => return Ok(()),
            Incoming::Message(..) => {
                let state = read(args, &mut nvml).map_err(Stop::skipped);
                channel.connection().send(&serde_json::to_vec(&state)?, &[])?;
            }
        }
    }
}

/// Reads the state in this process.
fn read(args: &GpuArgs, nvml: &mut Option<Nvml>) -> Result<Gpu, String> {
    if let Some(gpu) = args.pci.as_deref().and_then(|pci| amdgpu::read(&System::new(None), pci)) {
        return Ok(gpu);
    }
    let nvml = match nvml {
        Some(nvml) => nvml,
        None => nvml.insert(Nvml::load()?),
    };
    nvml.read(args.pci.as_deref(), args.uuid.as_deref())
}

/// Reads the state of the GPU under test.
#[derive(Debug)]
pub(crate) struct Monitor(Mutex<State>);

/// The process that reads.
#[derive(Debug)]
enum State {
    Runs(Process),
    /// There is nothing to read, or a reading has failed.
    Ended,
}

#[derive(Debug)]
struct Process {
    child: Child,
    channel: Channel,
}

impl Monitor {
    /// Of a device; without a GPU it reads nothing. The process ends with the calling thread, on Linux.
    pub(crate) fn new(device: &DeviceIdentity, is_real: bool) -> Self {
        let mut arguments = vec![SUBCOMMAND.to_owned()];
        if let Some(pci) = &device.pci {
            arguments.extend(["--pci".into(), pci.to_string()]);
        }
        if let Some(uuid) = &device.uuid {
            arguments.extend(["--uuid".into(), format!("GPU-{uuid}")]);
        }
        let works = is_real && device.kind != DeviceKind::Cpu && arguments.len() > 1;
        if works { Self::start(&arguments) } else { Self(Mutex::new(State::Ended)) }
    }

    /// Of the GPU at this PCI address.
    pub(crate) fn at(pci: &str) -> Self {
        Self::start(&[SUBCOMMAND, "--pci", pci].map(Into::into))
    }

    fn start(arguments: &[String]) -> Self {
        Self(Mutex::new(Process::start(arguments).map_or_else(failed, State::Runs)))
    }

    /// The present state; `None` if it cannot be read. A failed reading is the last one.
    pub(crate) fn read(&self) -> Option<Gpu> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Runs(process) = &*state else { return None };
        match process.read() {
            Ok(gpu) => Some(gpu),
            Err(stop) => {
                *state = failed(stop);
                None
            }
        }
    }
}

fn failed(stop: Stop) -> State {
    tracing::info!(reason = stop.reason(), "the GPU's state is not in the report");
    State::Ended
}

impl Process {
    fn start(arguments: &[String]) -> Verdict<Self> {
        let (channel, there) = Channel::pair()?;
        let mut command = this_program()?;
        command.args(arguments).stdin(there).stdout(Stdio::null()).stderr(Stdio::null());
        system::own_group(&mut command);
        Ok(Self { child: command.spawn()?, channel })
    }

    fn read(&self) -> Verdict<Gpu> {
        let connection = self.channel.connection();
        self.channel.send(READ, 0, &[])?;
        if !connection.wait(LIMIT)? {
            return Err(Stop::failed(format!("reading the GPU's state did not end within {LIMIT:?}")));
        }
        match connection.receive(REPLY)? {
            Received::Message(reply, _) => serde_json::from_slice::<Verdict<Gpu>>(&reply)?,
            Received::Gone => Err(Stop::failed("the process that reads the GPU's state has ended".into())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail harmlessly if it has ended. One that hangs in its driver ends later, with this process.
        let _ = self.child.kill();
        let _ = self.child.wait_timeout(LEAVING);
    }
}
