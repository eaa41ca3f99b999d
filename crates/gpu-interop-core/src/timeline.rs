//! Timelines of exporting APIs, as the host sees them, and how streams follow them.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bridge::PollingWaiter;
use crate::capability::{Capabilities, Feature, Support};
use crate::error::{Error, Result};
use crate::handle::SemaphoreHandleKind;
use crate::import::SemaphoreImport;

/// The environment variable that overrides the strategy of every [`Timeline`](crate::Timeline) that is made without
/// naming one: `native`, `bridge`, or `auto`, which is as if it were not set.
pub const TIMELINE_VARIABLE: &str = "GPU_INTEROP_TIMELINE";

/// How a [`Timeline`](crate::Timeline) carries values between streams and the exporting API.
///
/// Whichever it is: who sees a value, sees what the other side wrote before it signalled that value. Vulkan's terms for
/// why that holds, where the memory is external memory that both sides bound:
///
/// | | what makes the writes available | what orders the two sides | what makes them visible |
/// |---|---|---|---|
/// | Vulkan to stream, native | the release to `VK_QUEUE_FAMILY_EXTERNAL` in the submission | its semaphore signal operation, whose first scope is everything before it in submission order | the stream's wait, by the driver's import (`cuWaitExternalSemaphoresAsync`) |
/// | Vulkan to stream, bridge | the same release, and the same signal | the host sees the value (`vkWaitSemaphores`, `vkGetSemaphoreCounterValue`: the signal happened before), then stores a word with release semantics | the stream's wait for the word, which acquires it for what is enqueued behind (`cuStreamWaitValue64`) |
/// | stream to Vulkan, native | the stream's signal (`cuSignalExternalSemaphoresAsync`) | the semaphore wait operation of the submission | the acquire from `VK_QUEUE_FAMILY_EXTERNAL` behind that wait |
/// | stream to Vulkan, bridge | the fence for the whole system before the stream's write of a word (`cuStreamWriteValue64` without `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`) | the host reads the word with acquire semantics, then signals (`vkSignalSemaphore`, whose first scope is what happened before on the host); the submission waits | the same acquire |
///
/// So the application does the same for both: release and signal, or wait and acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimelineStrategy {
    /// The compute driver imports the exporter's timeline; streams signal and wait for it. The fastest where drivers
    /// have it.
    Native,
    /// The exporter's timeline is not imported. Streams wait for words in memory, which a thread writes once the
    /// exporter's timeline has come far enough; streams write words, which that thread turns into signals by the host.
    HostBridge,
}

impl fmt::Display for TimelineStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::HostBridge => "bridge",
        })
    }
}

impl FromStr for TimelineStrategy {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for anything but `native` and `bridge`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "native" => Ok(Self::Native),
            "bridge" => Ok(Self::HostBridge),
            _ => Err(Error::invalid("TimelineStrategy::from_str", "there are the strategies native and bridge")
                .with_context("value", text)),
        }
    }
}

impl TimelineStrategy {
    /// What [`TIMELINE_VARIABLE`] asks for; `None` for `auto`, an empty value, or none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for any other value.
    pub fn from_environment() -> Result<Option<Self>> {
        match std::env::var_os(TIMELINE_VARIABLE) {
            None => Ok(None),
            Some(value) => Self::from_variable(&value.to_string_lossy()),
        }
    }

    fn from_variable(value: &str) -> Result<Option<Self>> {
        match value {
            "" | "auto" => Ok(None),
            text => text.parse().map(Some).map_err(|error: Error| error.with_context("variable", TIMELINE_VARIABLE)),
        }
    }
}

/// A timeline of an exporting API, as the host sees it: a `VkSemaphore` of type timeline, an `ID3D12Fence`.
///
/// An application implements it for a timeline of its own. [`value`](Self::value), [`signal`](Self::signal) and
/// [`wait`](Self::wait) are enough: the timeline then works over a bridge.
///
/// Its value only grows. All methods may be called from any thread, at the same time. None may call into the compute
/// driver, and none may block but [`ExporterTimeline::wait`]: a [`Timeline`](crate::Timeline) calls them from a thread
/// that serves many timelines.
pub trait ExporterTimeline: Any + fmt::Debug + Send + Sync {
    /// The present value (`vkGetSemaphoreCounterValue`).
    ///
    /// # Errors
    /// If the exporter failed for good: its device is lost. Then everything that waits for this timeline is let go, with
    /// this error.
    fn value(&self) -> Result<u64>;

    /// Raises the value from the host (`vkSignalSemaphore`). The host's earlier reads and writes happen before it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `value` is not greater than the present one, or
    /// so much greater that the exporter does not allow it; otherwise as [`ExporterTimeline::value`].
    fn signal(&self, value: u64) -> Result<()>;

    /// Blocks until the value is at least `value` (`vkWaitSemaphores`).
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) after `timeout`; otherwise as [`ExporterTimeline::value`].
    fn wait(&self, value: u64, timeout: Duration) -> Result<()>;

    /// As which kind of handle it can be exported; `None` if it cannot.
    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        None
    }

    /// Exports it: a new handle, owned by the caller.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if it cannot be exported; else what the exporter's
    /// driver answers.
    fn export(&self) -> Result<SemaphoreImport> {
        Err(Error::unsupported("ExporterTimeline::export", "this timeline cannot be exported"))
    }

    /// A waiter for this timeline and whichever others it can wait for at the same time: those of the same `VkDevice`.
    ///
    /// # Errors
    /// What the exporter's driver answers.
    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(PollingWaiter::new(self.type_id())))
    }
}

/// Waits for several timelines of one exporter at once. One thread at a time waits; any may interrupt it.
pub trait TimelineWaiter: fmt::Debug + Send + Sync {
    /// Whether this can wait for `timeline`.
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool;

    /// Blocks until one of `waits` has reached its value, [`TimelineWaiter::interrupt`] is called, or `timeout` is over;
    /// it may return sooner (`vkWaitSemaphores` with `VK_SEMAPHORE_WAIT_ANY_BIT`). `waits` may be empty; this serves
    /// each of its timelines. An interruption since the last call ends this one at once.
    ///
    /// # Errors
    /// If waiting failed for good. The caller asks each timeline for its value to learn which one it is.
    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()>;

    /// Ends the present [`TimelineWaiter::wait_any`], or the next one. Does not block.
    fn interrupt(&self);
}

impl Capabilities {
    /// How a device follows timelines that are exported as handles of `kind`, or not at all (`None`): natively,
    /// emulated by the host bridge, or not.
    #[must_use]
    pub fn timeline(&self, kind: Option<SemaphoreHandleKind>) -> Support {
        if kind.is_some_and(|kind| self.semaphore(kind).is_supported()) {
            return Support::Native;
        }
        let signal_memory = self.feature(Feature::SignalMemory);
        if !signal_memory.is_supported() {
            return signal_memory;
        }
        let words = [Feature::StreamMemoryOperations64, Feature::StreamMemoryOperations32];
        if words.into_iter().any(|feature| self.feature(feature).is_supported()) {
            return Support::Emulated(
                "a thread of the host carries values between words in memory and the exporter".into(),
            );
        }
        let functions = self.feature(Feature::HostFunctions);
        if functions.is_supported() {
            return Support::Emulated(
                "host functions signal; streams cannot wait for words in memory, so that a value must be reached before a \
                 stream waits for it"
                    .into(),
            );
        }
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_have_names() {
        for strategy in [TimelineStrategy::Native, TimelineStrategy::HostBridge] {
            assert_eq!(strategy.to_string().parse::<TimelineStrategy>().expect("its own name"), strategy);
        }
        assert!("Native".parse::<TimelineStrategy>().is_err());
    }

    #[test]
    fn a_variable_names_a_strategy_or_none() {
        for (value, strategy) in [
            ("", None),
            ("auto", None),
            ("native", Some(TimelineStrategy::Native)),
            ("bridge", Some(TimelineStrategy::HostBridge)),
        ] {
            assert_eq!(TimelineStrategy::from_variable(value).expect(value), strategy);
        }
        for value in ["Bridge", " native", "host", "\u{fffd}"] {
            let error = TimelineStrategy::from_variable(value).expect_err(value);
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(TIMELINE_VARIABLE) && error.to_string().contains(value), "{error}");
        }
    }

    #[test]
    fn support_is_what_the_parts_allow() {
        let kind = Some(SemaphoreHandleKind::TimelineFd);
        let none = Capabilities::none();
        assert!(!none.timeline(kind).is_supported());
        let functions = none.with_feature(Feature::SignalMemory, Support::Native);
        assert!(!functions.timeline(kind).is_supported());
        let functions = functions.with_feature(Feature::HostFunctions, Support::Native);
        assert!(matches!(functions.timeline(kind), Support::Emulated(how) if how.contains("must be reached")));
        let words = functions.with_feature(Feature::StreamMemoryOperations32, Support::Native);
        assert!(matches!(words.timeline(kind), Support::Emulated(how) if how.contains("words in memory")));
        let native = words.with_semaphore(SemaphoreHandleKind::TimelineFd, Support::Native);
        assert_eq!(native.timeline(kind) == Support::Native, cfg!(unix));
        assert!(matches!(native.timeline(None), Support::Emulated(_)));
    }
}
