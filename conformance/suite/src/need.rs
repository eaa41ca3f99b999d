//! Requirements of a scenario on the device, the backend and the exporter.
//!
//! A scenario's row in its table (`scenarios!`) contains its requirements. The command lists them, and uses them to
//! determine unsupported scenarios without starting a process. [`Context::run`](crate::Context::run) checks them again,
//! for programs that run scenarios themselves. The scenario itself checks requirements that only an attempt reveals,
//! such as the format of an image.

use std::fmt;

use gpu_interop::{
    Capabilities, DeviceIdentity, Feature, IdentityMatch, MemoryHandleKind, SemaphoreHandleKind, SemaphorePayload,
    Support,
};

use crate::backend_under_test::{BackendUnderTest, DriverUse};
use crate::exporter::{ExporterFeature, ExporterName};
use crate::system;

/// One requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// A feature of the device.
    Feature(Feature),
    /// The device imports memory handles of this kind.
    Memory(MemoryHandleKind),
    /// The device imports semaphore handles of this kind.
    Semaphore(SemaphoreHandleKind),
    /// The device imports the timelines of the exporter.
    NativeTimelines,
    /// A host thread can bridge timelines.
    BridgedTimelines,
    /// Streams wait for words in memory, of 64 or of 32 bits.
    WordWaits,
    /// The exporter exports semaphores with this payload, and the device imports them.
    Shared(SemaphorePayload),
    /// A feature of the exporter.
    Exporter(ExporterFeature),
    /// The scenario also calls the backend's driver directly.
    Driver(DriverUse),
    /// The backend lists a second device.
    SecondDevice,
}

/// The device, the backend and the exporter, as known before a scenario runs.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The backend under test.
    pub backend: &'a BackendUnderTest,
    /// The capabilities of the device under test.
    pub capabilities: &'a Capabilities,
    /// The device under test, and all devices of the backend; `None` if unknown, in which case the scenario checks
    /// [`Need::SecondDevice`].
    pub devices: Option<(&'a DeviceIdentity, &'a [DeviceIdentity])>,
    /// The exporter; `None` for scenarios that need none.
    pub exporter: Option<ExporterName>,
}

impl Need {
    /// The reason why `setup` does not meet this requirement; `None` if it does.
    #[must_use]
    pub fn unmet(self, setup: &Setup<'_>) -> Option<String> {
        let capabilities = setup.capabilities;
        let because = |support: Support, what: String| support.reason().map(|reason| format!("{what}: {reason}"));
        match self {
            Self::Feature(feature) => because(capabilities.feature(feature), feature.to_string()),
            Self::Memory(kind) => because(capabilities.memory(kind), format!("memory import, {kind}")),
            Self::Semaphore(kind) => because(capabilities.semaphore(kind), format!("semaphore import, {kind}")),
            Self::NativeTimelines => {
                let kind = setup.exporter.map_or(system::TIMELINE_SEMAPHORE, ExporterName::timeline_kind);
                because(capabilities.semaphore(kind), "this strategy".into())
            }
            Self::BridgedTimelines => because(capabilities.timeline(None), "this strategy".into()),
            Self::WordWaits if capabilities.feature(Feature::StreamMemoryOperations64).is_supported() => None,
            Self::WordWaits => {
                let narrow = capabilities.feature(Feature::StreamMemoryOperations32);
                because(narrow, "streams that wait for a word".into())
            }
            Self::Shared(payload) => {
                let (kind, feature) = match payload {
                    SemaphorePayload::Binary => (system::BINARY_SEMAPHORE, ExporterFeature::BinarySemaphores),
                    _ => (system::TIMELINE_SEMAPHORE, ExporterFeature::TimelineSemaphores),
                };
                Self::Semaphore(kind).unmet(setup).or_else(|| Self::Exporter(feature).unmet(setup))
            }
            Self::Exporter(feature) => {
                setup.exporter.and_then(|exporter| exporter.lacks(feature, setup.backend)).map(str::to_owned)
            }
            Self::Driver(used) => {
                let provides = setup.backend.driver_api().is_some_and(|api| api.provides(used));
                (!provides).then(|| format!("{used}: not known for the backend `{}`", setup.backend.name()))
            }
            Self::SecondDevice => {
                let (this, all) = setup.devices?;
                let differs = |other: &DeviceIdentity| this.compare(other) == IdentityMatch::Different;
                let reason = || format!("needs two devices that differ; the backend lists {}", all.len());
                (!all.iter().any(differs)).then(reason)
            }
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(feature) => write!(f, "{feature}"),
            Self::Memory(kind) => write!(f, "memory import, {kind}"),
            Self::Semaphore(kind) => write!(f, "semaphore import, {kind}"),
            Self::NativeTimelines => f.write_str("import of the exporter's timelines"),
            Self::BridgedTimelines => f.write_str("bridged timelines"),
            Self::WordWaits => f.write_str("streams that wait for a word"),
            Self::Shared(SemaphorePayload::Binary) => f.write_str("shared binary semaphores"),
            Self::Shared(_) => f.write_str("shared timeline semaphores"),
            Self::Exporter(feature) => write!(f, "exporter: {feature}"),
            Self::Driver(used) => write!(f, "{used}"),
            Self::SecondDevice => f.write_str("a second device"),
        }
    }
}

/// A requirement in the notation of a scenario's row: `Graphs`, `memory OpaqueFd`, `exporter Images`, `driver
/// RawCalls`.
macro_rules! need {
    (memory of this system) => {
        $crate::need::Need::Memory($crate::system::MEMORY)
    };
    (shared binaries) => {
        $crate::need::Need::Shared(gpu_interop::SemaphorePayload::Binary)
    };
    (shared timelines) => {
        $crate::need::Need::Shared(gpu_interop::SemaphorePayload::Timeline)
    };
    (memory $kind:ident) => {
        $crate::need::Need::Memory(gpu_interop::MemoryHandleKind::$kind)
    };
    (semaphore $kind:ident) => {
        $crate::need::Need::Semaphore(gpu_interop::SemaphoreHandleKind::$kind)
    };
    (exporter $feature:ident) => {
        $crate::need::Need::Exporter($crate::exporter::ExporterFeature::$feature)
    };
    (driver $used:ident) => {
        $crate::need::Need::Driver($crate::backend_under_test::DriverUse::$used)
    };
    (native timelines) => {
        $crate::need::Need::NativeTimelines
    };
    (bridged timelines) => {
        $crate::need::Need::BridgedTimelines
    };
    (word waits) => {
        $crate::need::Need::WordWaits
    };
    (second device) => {
        $crate::need::Need::SecondDevice
    };
    ($feature:ident) => {
        $crate::need::Need::Feature(gpu_interop::Feature::$feature)
    };
}
pub(crate) use need;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_decided_without_a_device() {
        let (capabilities, host, cuda) = (Capabilities::default(), BackendUnderTest::host(), BackendUnderTest::cuda());
        let here = DeviceIdentity::default().with_name("one");
        let devices = [here.clone()];
        let setup = |backend, exporter| Setup {
            backend,
            capabilities: &capabilities,
            devices: Some((&here, &devices)),
            exporter,
        };
        let on_host = setup(&host, Some(ExporterName::Native));
        for (need, reason) in [
            (need!(Graphs), "graphs: "),
            (need!(memory OpaqueFd), "memory import, "),
            (need!(native timelines), "this strategy: "),
            (need!(word waits), "streams that wait for a word: "),
            (need!(exporter Dedicated), "native memory has one form"),
            (need!(driver FreeMemory), "not known for the backend `host`"),
            (need!(second device), "needs two devices that differ; the backend lists 1"),
        ] {
            let unmet = need.unmet(&on_host).unwrap_or_default();
            assert!(unmet.contains(reason), "{need}: {unmet}");
        }
        assert_eq!(need!(driver RawCalls).unmet(&setup(&cuda, None)), None);
        assert_eq!(need!(exporter Dedicated).unmet(&setup(&host, Some(ExporterName::Vulkan))), None);
        assert_eq!(need!(exporter Dedicated).unmet(&setup(&host, None)), None, "left to the scenario");
        let unknown = Setup { devices: None, ..on_host };
        assert_eq!(need!(second device).unmet(&unknown), None, "left to the scenario");
    }
}
