//! Capabilities of a device, known before any operation.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, ErrorKind};
use crate::handle::{MemoryHandleKind, SemaphoreHandleKind};

/// Support of a feature by one device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(tag = "support", content = "detail", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Support {
    /// Implemented by the driver.
    Native,
    /// Emulated by this library; the text describes how.
    Emulated(String),
    /// Not supported; the text states the reason.
    Unsupported(String),
    /// Not supported by this driver version; the text names the missing function and the first version that has it.
    DriverTooOld(String),
    /// Not supported because the driver lacks a function that its version should have; the text names it.
    SymbolMissing(String),
}

impl Support {
    /// `true` if the feature works, natively or emulated.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.reason().is_none()
    }

    /// Creates a [`Support::Unsupported`] with a reason.
    #[must_use]
    pub fn no(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }

    /// The reason, if unsupported.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unsupported(reason) | Self::DriverTooOld(reason) | Self::SymbolMissing(reason) => Some(reason),
            Self::Native | Self::Emulated(_) => None,
        }
    }

    /// Error of an operation that requires the feature; its kind distinguishes missing support from an old driver.
    /// `what` is the start of the message. `None` if the feature is supported.
    #[must_use]
    pub fn unsupported_error(&self, operation: &'static str, what: impl fmt::Display) -> Option<Error> {
        let kind = match self {
            Self::Native | Self::Emulated(_) => return None,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::DriverTooOld(_) => ErrorKind::DriverTooOld,
            Self::SymbolMissing(_) => ErrorKind::SymbolMissing,
        };
        Some(Error::new(kind, operation, format!("{what}: {}", self.reason().unwrap_or_default())))
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Emulated(how) => write!(f, "emulated: {how}"),
            Self::Unsupported(why) | Self::DriverTooOld(why) | Self::SymbolMissing(why) => {
                write!(f, "unsupported: {why}")
            }
        }
    }
}

named_enum! {
    /// Features, other than handle kinds, that differ between devices.
    Feature {
        /// Mapping imported memory as a linear buffer.
        MappedBuffer = "mapped_buffer", "mapped buffer";
        /// Mapping imported memory as a mipmapped array.
        MappedMipmappedArray = "mapped_mipmapped_array", "mapped mipmapped array";
        /// Surfaces of levels of a mapped mipmapped array.
        Surfaces = "surfaces", "surfaces";
        /// Textures of mapped mipmapped arrays.
        Textures = "textures", "textures";
        /// Exportable memory of the device itself (the reverse direction).
        ExportableMemory = "exportable_memory", "exportable memory";
        /// Stream waits for, and writes of, a 32-bit word in memory.
        StreamMemoryOperations32 = "stream_memory_operations32", "stream memory operations, 32 bit";
        /// Stream waits for, and writes of, a 64-bit word in memory.
        StreamMemoryOperations64 = "stream_memory_operations64", "stream memory operations, 64 bit";
        /// Memory words that the host and streams both access; required to bridge a [`Timeline`](crate::Timeline).
        SignalMemory = "signal_memory", "signal memory";
        /// Host functions of the application in stream order.
        HostFunctions = "host_functions", "host functions";
        /// Modules and kernels.
        Kernels = "kernels", "kernels";
        /// Graphs: work captured once and launched many times.
        Graphs = "graphs", "graphs";
        /// Kernels in graphs.
        GraphKernels = "graph_kernels", "kernels in graphs";
        /// Semaphore signals and waits in graphs.
        GraphSemaphores = "graph_semaphores", "semaphores in graphs";
        /// Waits for, and writes of, a word in memory in graphs.
        GraphMemoryOperations = "graph_memory_operations", "stream memory operations in graphs";
        /// Memory imports by the name of a Windows object instead of a handle.
        NamedMemory = "named_memory", "imports of memory by name";
        /// Semaphore imports by the name of a Windows object instead of a handle.
        NamedSemaphores = "named_semaphores", "imports of semaphores by name";
        /// NvSciSync attribute lists filled by the device: [`Device::fill_nv_sci_sync_attributes`].
        ///
        /// [`Device::fill_nv_sci_sync_attributes`]: crate::Device::fill_nv_sci_sync_attributes
        NvSciSyncAttributes = "nv_sci_sync_attributes", "NvSciSync attributes";
    }
}

/// Handle kinds and features that one device supports. Determined at run time from the driver, the device and the
/// operating system, and constant for the life of the device.
#[doc(alias("cuDeviceGetAttribute", "cudaDeviceGetAttribute", "hipDeviceGetAttribute"))]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Capabilities {
    memory: BTreeMap<MemoryHandleKind, Support>,
    semaphores: BTreeMap<SemaphoreHandleKind, Support>,
    features: BTreeMap<Feature, Support>,
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    known_defects: Vec<String>,
}

impl Capabilities {
    /// Creates capabilities that support nothing. Backends add theirs.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Declares the support of a memory handle kind. Kinds of another operating system stay unsupported.
    #[must_use]
    pub fn with_memory(mut self, kind: MemoryHandleKind, support: Support) -> Self {
        self.memory.insert(kind, if kind.handle_type().is_current() { support } else { other_platform() });
        self
    }

    /// Declares the support of a semaphore handle kind. Kinds of another operating system stay unsupported.
    #[must_use]
    pub fn with_semaphore(mut self, kind: SemaphoreHandleKind, support: Support) -> Self {
        self.semaphores.insert(kind, if kind.handle_type().is_current() { support } else { other_platform() });
        self
    }

    /// Declares the support of a feature.
    #[must_use]
    pub fn with_feature(mut self, feature: Feature, support: Support) -> Self {
        self.features.insert(feature, support);
        self
    }

    /// Adds a driver defect that the backend cannot work around: a sentence with its effect, the affected versions and
    /// a workaround.
    #[must_use]
    pub fn with_known_defect(mut self, defect: impl Into<String>) -> Self {
        self.known_defects.push(defect.into());
        self
    }

    /// Driver defects that the backend cannot work around, one sentence each.
    #[must_use]
    pub fn known_defects(&self) -> &[String] {
        &self.known_defects
    }

    /// Support of importing memory handles of this kind.
    #[must_use]
    pub fn memory(&self, kind: MemoryHandleKind) -> Support {
        if !kind.handle_type().is_current() {
            return other_platform();
        }
        declared(&self.memory, kind)
    }

    /// Support of importing semaphore handles of this kind.
    #[must_use]
    pub fn semaphore(&self, kind: SemaphoreHandleKind) -> Support {
        if !kind.handle_type().is_current() {
            return other_platform();
        }
        declared(&self.semaphores, kind)
    }

    /// Support of a feature.
    #[must_use]
    pub fn feature(&self, feature: Feature) -> Support {
        declared(&self.features, feature)
    }

    /// `true` if a feature is supported, without building a reason.
    pub(crate) fn has_feature(&self, feature: Feature) -> bool {
        self.features.get(&feature).is_some_and(Support::is_supported)
    }
}

fn other_platform() -> Support {
    Support::no(format!("handles of this kind do not exist on {}", std::env::consts::OS))
}

fn declared<K: Ord>(table: &BTreeMap<K, Support>, key: K) -> Support {
    table.get(&key).cloned().unwrap_or_else(|| Support::no("the backend does not implement it"))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn undeclared_features_are_unsupported() {
        let capabilities = Capabilities::none().with_feature(Feature::MappedBuffer, Support::Native);
        assert_eq!(capabilities.feature(Feature::MappedBuffer), Support::Native);
        assert!(!capabilities.feature(Feature::Kernels).is_supported());
        assert!(!capabilities.memory(MemoryHandleKind::OpaqueFd).is_supported());
    }

    #[test]
    fn kinds_of_another_system_are_never_supported() {
        let everything = MemoryHandleKind::ALL
            .iter()
            .fold(Capabilities::none(), |all, kind| all.with_memory(*kind, Support::Native));
        for kind in MemoryHandleKind::ALL {
            assert_eq!(everything.memory(*kind).is_supported(), kind.handle_type().is_current(), "{kind}");
        }
        // The JSON form agrees.
        let json = serde_json::to_value(&everything).expect("serializes");
        assert_eq!(json["memory"]["d3d12_heap"]["support"] == "native", cfg!(windows), "{json}");
    }

    #[test]
    fn the_error_kind_distinguishes_old_drivers_from_missing_support() {
        let kind = |support: Support| support.unsupported_error("op", "it does not work").map(|error| error.kind());
        assert_eq!(kind(Support::Native), None);
        assert_eq!(kind(Support::Emulated("otherwise".into())), None);
        assert_eq!(kind(Support::no("never")), Some(ErrorKind::Unsupported));
        assert_eq!(kind(Support::DriverTooOld("not yet".into())), Some(ErrorKind::DriverTooOld));
        assert_eq!(kind(Support::SymbolMissing("lost".into())), Some(ErrorKind::SymbolMissing));
    }

    #[test]
    fn capabilities_round_trip_through_json() {
        let capabilities = Capabilities::none()
            .with_memory(MemoryHandleKind::OpaqueFd, Support::Native)
            .with_semaphore(SemaphoreHandleKind::TimelineFd, Support::Emulated("a futex".into()))
            .with_feature(Feature::HostFunctions, Support::DriverTooOld("no such function yet".into()))
            .with_feature(Feature::MappedBuffer, Support::SymbolMissing("no such function".into()))
            .with_feature(Feature::Kernels, Support::no("no compiler"))
            .with_known_defect("memory is never freed");
        let json = serde_json::to_string(&capabilities).expect("serializes");
        let read = serde_json::from_str::<Capabilities>(&json).expect("deserializes");
        assert_eq!(read, capabilities);
        assert_eq!(read.known_defects(), ["memory is never freed"]);
        // The field is omitted if empty.
        let none = serde_json::to_string(&Capabilities::none()).expect("serializes");
        assert!(!none.contains("known_defects"), "{none}");
        assert_eq!(serde_json::from_str::<Capabilities>(&none).expect("deserializes"), Capabilities::none());
    }
}
