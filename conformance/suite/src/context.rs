//! What a scenario is given.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop::{
    Backend, Device, ErrorKind, Feature, MappedBuffer, MemoryHandleKind, Module, SemaphoreHandleKind, Stream,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend_under_test::BackendUnderTest;
use crate::exporter::{self, BufferSpec, Complaints, ExportedBuffer, Exporter, ExporterName};
use crate::outcome::{Stop, Verdict};
use crate::pattern::Pattern;
use crate::peer::Peer;
use crate::scenario::Scenario;
use crate::service::Request;

/// How long a scenario waits for something that should happen. Several of these fit into every time limit, so that a
/// scenario can say what it waited for before it is stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
/// How long a scenario watches to see that something does *not* happen.
pub(crate) const WATCH: Duration = Duration::from_millis(80);

/// The device under test, the exporter, and the seed of the data.
pub struct Context {
    under_test: Arc<BackendUnderTest>,
    backend: Arc<dyn Backend>,
    device: Device,
    exporter: Option<Box<dyn Exporter>>,
    exporter_name: Option<ExporterName>,
    /// The device's ordinal.
    ordinal: usize,
    seed: u32,
    signals_by_host: bool,
    observations: Observations,
}

/// With which seeds every scenario is run: `first` and those after it.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// The first.
    pub first: u32,
    /// How many there are.
    pub count: NonZeroU32,
}

/// What a driver did when it was called as an application might by mistake, beside what the library made of the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// What was asked for.
    pub call: String,
    /// What the driver did, called without the library, in a process of its own: accepted it, refused it with a code, or
    /// killed the process.
    pub raw: String,
    /// What the library did.
    pub library: String,
}

/// What a scenario records for its report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Raw calls beside what the library did.
    pub observed: Vec<Observation>,
    /// What did not run, with the reasons.
    pub left_out: Vec<String>,
}

/// Where it records that; outlives the context.
#[derive(Debug, Clone, Default)]
pub struct Observations(Arc<Mutex<Recorded>>);

impl Observations {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was recorded since the last call.
    #[must_use]
    pub fn take(&self) -> Recorded {
        std::mem::take(&mut self.lock())
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("backend", &self.under_test)
            .field("device", self.device.identity())
            .field("exporter", &self.exporter_name)
            .field("seed", &self.seed)
            .finish()
    }
}

impl Context {
    /// Loads the backend, opens its first device, and an exporter for it.
    ///
    /// # Errors
    /// Failed if the backend does not load; unsupported or skipped if the exporter cannot be used.
    pub fn open(under_test: Arc<BackendUnderTest>, exporter: Option<ExporterName>, seed: u32) -> Verdict<Self> {
        Self::open_for(under_test, exporter, 0, seed, false)
    }

    /// As [`Context::open`], with the device of this ordinal, for scenarios that do or do not signal timelines by the host.
    pub fn open_for(
        under_test: Arc<BackendUnderTest>,
        exporter: Option<ExporterName>,
        ordinal: usize,
        seed: u32,
        signals_by_host: bool,
    ) -> Verdict<Self> {
        let backend = under_test.load()?;
        let device = Device::open(&*backend, ordinal)?;
        let opened = exporter.map(|name| exporter::open(name, &under_test, &device, signals_by_host)).transpose()?;
        Ok(Self {
            under_test,
            backend,
            device,
            exporter: opened,
            exporter_name: exporter,
            ordinal,
            seed,
            signals_by_host,
            observations: Observations::default(),
        })
    }

    /// The same context with this exporter.
    #[cfg(test)]
    pub(crate) fn with_exporter(self, exporter: Box<dyn Exporter>) -> Self {
        Self { exporter: Some(exporter), ..self }
    }

    /// Runs a scenario with each seed, until it does not pass, and notes what the exporter's own checks did not see of it.
    pub fn run(&mut self, scenario: &Scenario, seeds: Seeds) -> Verdict {
        for number in 0..seeds.count.get() {
            self.seed = seeds.first.wrapping_add(number);
            // Only the last run's are kept.
            drop(self.observations.take());
            (scenario.run)(self).map_err(|stop| match stop {
                Stop::Failed(reason) if seeds.count.get() > 1 => {
                    let number = number + 1;
                    Stop::Failed(format!("{reason} [run {number} of {}, --seed {}]", seeds.count, self.seed))
                }
                stop => stop,
            })?;
        }
        if let Some(unseen) = self.exporter.as_ref().and_then(|exporter| exporter.unchecked()) {
            self.leave_out(unseen);
        }
        Ok(())
    }

    /// What scenarios record.
    pub fn observations(&self) -> Observations {
        self.observations.clone()
    }

    /// Records what this scenario would also have done, and why it did not. A scenario that passes without it says in its
    /// purpose that it may.
    pub fn leave_out(&self, what: impl Into<String>) {
        self.observations.lock().left_out.push(what.into());
    }

    /// Records what a call did that goes around the library, beside what the library did. No check: whatever the driver
    /// does alone, a scenario is about the library.
    pub fn observe(&self, call: impl Into<String>, raw: impl Into<String>, library: impl Into<String>) {
        let observation = Observation { call: call.into(), raw: raw.into(), library: library.into() };
        self.observations.lock().observed.push(observation);
    }

    /// The device under test.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The name by which other processes of the suite find the backend.
    pub(crate) fn backend_name(&self) -> &str {
        self.under_test.name()
    }

    /// The loaded backend.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// The same hardware opened once more.
    ///
    /// # Errors
    /// If the backend refuses.
    pub fn open_again(&self) -> Verdict<Device> {
        Ok(Device::open(&*self.backend, self.ordinal)?)
    }

    /// The device's place in what [`Backend::devices`] lists.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The exporter.
    ///
    /// # Errors
    /// Failed if the scenario did not ask for one.
    pub fn exporter(&self) -> Verdict<&dyn Exporter> {
        self.exporter.as_deref().ok_or_else(|| Stop::Failed("this scenario was run without an exporter".into()))
    }

    /// The pattern of this run.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        Pattern::new(self.seed)
    }

    /// A new exportable buffer, not dedicated and device-local.
    ///
    /// # Errors
    /// What the exporter answers.
    pub fn buffer(&self, size: u64) -> Verdict<Box<dyn ExportedBuffer>> {
        self.exporter()?.buffer(BufferSpec::new(size))
    }

    /// Imports a buffer and maps the part that the buffer occupies.
    ///
    /// # Errors
    /// What the device answers.
    pub fn import(&self, buffer: &dyn ExportedBuffer) -> Verdict<MappedBuffer> {
        Ok(self.device.import_memory(buffer.import_request()?)?.map_buffer(0..buffer.size())?)
    }

    /// Copies a whole mapping to the host.
    ///
    /// # Errors
    /// What the device answers.
    pub fn read(&self, stream: &Stream, buffer: &MappedBuffer) -> Verdict<Vec<u8>> {
        let length = usize::try_from(buffer.size()).map_err(|error| Stop::Failed(error.to_string()))?;
        let mut bytes = vec![0; length];
        stream.read(buffer, &mut bytes)?;
        Ok(bytes)
    }

    /// Stops as unsupported unless the device has a feature.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] with the device's reason.
    pub fn need_feature(&self, feature: Feature) -> Verdict {
        need(&feature.to_string(), self.device.capabilities().feature(feature).reason())
    }

    /// The kernels of `gpu-interop-kernels`, in the form that this backend loads.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if the device runs no kernels, or the backend refuses the form that was given for it.
    pub fn kernels(&self) -> Verdict<Module> {
        self.need_feature(Feature::Kernels)?;
        self.device.load_module(self.under_test.kernels(&self.device)?).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Stop::Unsupported(format!("no kernels for this backend: {error}")),
            _ => error.into(),
        })
    }

    /// Stops as unsupported unless the device imports memory handles of a kind.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] with the device's reason.
    pub fn need_memory(&self, kind: MemoryHandleKind) -> Verdict {
        need(&format!("memory import, {kind}"), self.device.capabilities().memory(kind).reason())
    }

    /// Stops as unsupported unless the device imports semaphore handles of a kind.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] with the device's reason.
    pub fn need_semaphore(&self, kind: SemaphoreHandleKind) -> Verdict {
        need(&format!("semaphore import, {kind}"), self.device.capabilities().semaphore(kind).reason())
    }

    /// Starts another process with the same backend, exporter and seed.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn_peer(&self, role: &str) -> Verdict<Peer> {
        self.spawn_peer_with(role, &[])
    }

    /// The same with variables in the environment of that process.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn_peer_with(&self, role: &str, environment: &[(&str, &str)]) -> Verdict<Peer> {
        let request = Request::Peer {
            role: role.into(),
            backend: self.under_test.name().into(),
            exporter: self.exporter_name,
            seed: self.seed,
            device: self.ordinal,
            signals_by_host: self.signals_by_host,
        };
        Peer::start(&request, environment)
    }

    /// Lists what the exporter's own checks complain about; outlives the context.
    pub fn complaints(&self) -> Complaints {
        self.exporter.as_ref().map_or_else(|| Box::new(Vec::new) as Complaints, |exporter| exporter.complaints())
    }
}

fn need(what: &str, reason: Option<&str>) -> Verdict {
    reason.map_or(Ok(()), |reason| Err(Stop::Unsupported(format!("{what}: {reason}"))))
}
