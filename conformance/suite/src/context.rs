//! The context of a scenario.

use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop::sync::lock;
use gpu_interop::{Backend, Device, ErrorKind, ExternalMemory, Feature, MappedBuffer, Module, Stream};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend_under_test::{BackendUnderTest, DriverApi};
use crate::exporter::{self, BufferSpec, Complaints, ExportedBuffer, Exporter, ExporterName};
use crate::need::{Need, Setup};
use crate::outcome::{Stop, Verdict, checked_bytes};
use crate::pattern::Pattern;
use crate::peer::Peer;
use crate::process::{self, Request};

/// The device under test, the exporter, and the seed of the data.
pub struct Context {
    under_test: Arc<BackendUnderTest>,
    backend: Arc<dyn Backend>,
    device: Device,
    exporter: Option<Box<dyn Exporter>>,
    exporter_name: Option<ExporterName>,
    /// The device's ordinal.
    ordinal: usize,
    pub(crate) seed: u32,
    signals_by_host: bool,
    observations: Observations,
}

/// A driver's behaviour for a call that an application might make by mistake, and the library's for the same call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// The call.
    pub call: String,
    /// The driver's behaviour without the library, in a separate process: the call was accepted, failed with a code, or
    /// crashed the process.
    pub raw: String,
    /// The library's behaviour.
    pub library: String,
}

/// Records of a scenario for its report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Raw calls with the library's behaviour.
    pub observed: Vec<Observation>,
    /// The checks that did not run, with the reasons.
    pub left_out: Vec<String>,
    /// The pairs of operations of the two sides, if the scenario counts them.
    pub pairs: Option<Pairs>,
    /// The work of a scenario that passed.
    pub work: Option<Work>,
}

/// The work of a scenario in its own process. A scenario that was weakened by mistake passes, but does less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Checked conditions. A comparison of data is one, and so are the error of a rejected call and an observation of a
    /// driver's behaviour.
    pub checks: u64,
    /// Bytes that were compared with the expected ones.
    pub bytes: u64,
    /// Sum of the checksums (CRC-32) of the expected data or what describes it, of the names of rejected calls, and of the
    /// observations, whose order does not matter.
    #[serde(default)]
    pub data: u64,
}

/// Pairs of an operation of the exporter and an access of the device: on each image, on each queue, in each order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pairs {
    /// Pairs whose data was compared.
    pub covered: u32,
    /// Pairs of this device's queues, images and accesses, including those that it or the exporter does not support.
    pub possible: u32,
}

/// The store of these records; outlives the context.
#[derive(Debug, Clone, Default)]
pub struct Observations(Arc<Mutex<Recorded>>);

impl Observations {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        lock(&self.0)
    }

    /// Takes the records since the last call.
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

    /// As [`Context::open`], for the device of this ordinal. `signals_by_host` is that of the scenarios to run.
    ///
    /// # Errors
    /// As [`Context::open`].
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

    /// The store of the scenario's records.
    pub fn observations(&self) -> Observations {
        self.observations.clone()
    }

    /// Records a check that this scenario omitted, with the reason. The scenario's sentence must permit it.
    pub fn leave_out(&self, what: impl Into<String>) {
        self.observations.lock().left_out.push(what.into());
    }

    /// Records the number of pairs that this scenario covers.
    pub(crate) fn count_pairs(&self, covered: u32, possible: u32) {
        self.observations.lock().pairs = Some(Pairs { covered, possible });
    }

    /// Records a raw call with the library's behaviour. The driver's behaviour is not checked, because a scenario tests
    /// the library.
    pub fn observe(&self, call: impl Into<String>, raw: impl Into<String>, library: impl Into<String>) {
        let observation = Observation { call: call.into(), raw: raw.into(), library: library.into() };
        checked_bytes(0, &[&observation.call, &observation.raw, &observation.library].map(|text| text.as_bytes()));
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

    /// Opens the device under test once more.
    ///
    /// # Errors
    /// The backend's error.
    pub fn open_again(&self) -> Verdict<Device> {
        Ok(Device::open(&*self.backend, self.ordinal)?)
    }

    /// The device's index in [`Backend::devices`].
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The exporter.
    ///
    /// # Errors
    /// Failed if the scenario did not request one.
    pub fn exporter(&self) -> Verdict<&dyn Exporter> {
        self.exporter.as_deref().ok_or_else(|| Stop::failed("this scenario was run without an exporter".into()))
    }

    /// The pattern of this run.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        Pattern::new(self.seed)
    }

    /// A new exportable buffer, not dedicated and device-local.
    ///
    /// # Errors
    /// The exporter's error.
    pub fn buffer(&self, size: u64) -> Verdict<Box<dyn ExportedBuffer>> {
        self.exporter()?.buffer(BufferSpec::new(size))
    }

    /// A new exportable buffer that contains the pattern.
    pub(crate) fn written(&self, size: usize) -> Verdict<Box<dyn ExportedBuffer>> {
        let buffer = self.buffer(size as u64)?;
        buffer.put(self.pattern())?;
        Ok(buffer)
    }

    /// A new exportable buffer of undefined contents, and its mapping by the device.
    pub(crate) fn shared(&self, size: usize) -> Verdict<(Box<dyn ExportedBuffer>, MappedBuffer)> {
        let buffer = self.buffer(size as u64)?;
        let mapped = self.import(&*buffer)?;
        Ok((buffer, mapped))
    }

    /// A new exportable buffer of zeros, and its mapping by the device.
    pub(crate) fn zeroed(&self, size: usize) -> Verdict<(Box<dyn ExportedBuffer>, MappedBuffer)> {
        let buffer = self.buffer(size as u64)?;
        buffer.write(0, &vec![0; size])?;
        let mapped = self.import(&*buffer)?;
        Ok((buffer, mapped))
    }

    /// Imports a buffer and maps the range that the buffer occupies.
    ///
    /// # Errors
    /// The device's error.
    pub fn import(&self, buffer: &dyn ExportedBuffer) -> Verdict<MappedBuffer> {
        import_on(&self.device, buffer)
    }

    /// Imports the memory of a buffer.
    pub(crate) fn import_memory(&self, buffer: &dyn ExportedBuffer) -> Verdict<ExternalMemory> {
        Ok(self.device.import_memory(buffer.import_request()?)?)
    }

    /// A new stream of the device under test.
    pub(crate) fn stream(&self) -> Verdict<Stream> {
        Ok(self.device.create_stream()?)
    }

    /// Several new streams.
    pub(crate) fn streams(&self, count: usize) -> Verdict<Vec<Stream>> {
        (0..count).map(|_| self.stream()).collect()
    }

    /// Copies a whole mapping to the host.
    ///
    /// # Errors
    /// The device's error.
    pub fn read(&self, stream: &Stream, buffer: &MappedBuffer) -> Verdict<Vec<u8>> {
        let length = usize::try_from(buffer.size())?;
        let mut bytes = vec![0; length];
        stream.read(buffer, &mut bytes)?;
        Ok(bytes)
    }

    /// `true` if the device has a feature.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.device.capabilities().feature(feature).is_supported()
    }

    /// The reason why a requirement is not met; `None` if it is met. For requirements of only some checks of a
    /// scenario.
    pub(crate) fn unmet(&self, need: Need) -> Option<String> {
        need.unmet(&self.setup())
    }

    pub(crate) fn setup(&self) -> Setup<'_> {
        Setup {
            backend: &self.under_test,
            capabilities: self.device.capabilities(),
            devices: None,
            exporter: self.exporter_name,
        }
    }

    /// The vendor's API below the backend.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if there is none.
    pub(crate) fn driver_api(&self) -> Verdict<DriverApi> {
        let reason = || Stop::unsupported(format!("no vendor's API is known below `{}`", self.under_test.name()));
        self.under_test.driver_api().ok_or_else(reason)
    }

    /// `true` if the backend's memory and semaphores are objects of the operating system.
    #[cfg(windows)]
    pub(crate) fn has_system_objects(&self) -> bool {
        self.under_test.has_system_objects()
    }

    /// The kernels of `gpu-interop-kernels`, in the form of this backend.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if the device runs no kernels, or the backend rejects this form.
    pub fn kernels(&self) -> Verdict<Module> {
        if let Some(reason) = self.unmet(Need::Feature(Feature::Kernels)) {
            return Err(Stop::unsupported(reason));
        }
        self.device.load_module(self.under_test.kernels(&self.device)?).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Stop::unsupported(format!("no kernels for this backend: {error}")),
            _ => error.into(),
        })
    }

    /// Starts another process with the same backend, exporter and seed. Its streams must not wait for each other: CUDA has
    /// one hardware queue there, with which it starts faster, unless
    /// [`CONNECTIONS_VARIABLE`](crate::CONNECTIONS_VARIABLE) is set in the environment.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn_peer(&self, role: &str) -> Verdict<Peer> {
        self.spawn_peer_with(role, &[])
    }

    /// Starts such a process with these environment variables, which may also set the number of hardware queues.
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
        Peer::start(&request, &[process::one_queue().as_slice(), environment].concat())
    }

    /// Lists the errors of the exporter's own checks; outlives the context.
    pub fn complaints(&self) -> Complaints {
        self.exporter.as_ref().map_or_else(|| Box::new(Vec::new) as Complaints, |exporter| exporter.complaints())
    }
}

/// Imports a buffer on a device and maps the range that the buffer occupies.
pub(crate) fn import_on(device: &Device, buffer: &dyn ExportedBuffer) -> Verdict<MappedBuffer> {
    Ok(device.import_memory(buffer.import_request()?)?.map_buffer(0..buffer.size())?)
}
