//! Timelines of exporting APIs as seen by the host, and strategies to share them with streams.

use std::any::{Any, TypeId};
use std::fmt;
use std::str::FromStr;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::capability::{Capabilities, Feature, Support};
use crate::error::{Error, Result};
use crate::handle::SemaphoreHandleKind;
use crate::import::SemaphoreImport;
use crate::sync::{lock, unpoisoned};

/// Environment variable that overrides the strategy of [`Timeline::new`](crate::Timeline::new): `native`, `bridge`, or
/// `auto`, the default.
pub const TIMELINE_VARIABLE: &str = "GPU_INTEROP_TIMELINE";

/// Strategy by which a [`Timeline`](crate::Timeline) transfers values between streams and the exporting API.
///
/// With both strategies, a side that observes a value also observes the writes that the other side made before it
/// signalled the value. In Vulkan's terms, for external memory bound by both sides:
///
/// | | availability | ordering | visibility |
/// |---|---|---|---|
/// | Vulkan to stream, native | the release to `VK_QUEUE_FAMILY_EXTERNAL` in the submission | its semaphore signal operation, whose first scope is all work before it in submission order | the stream's wait, by the driver's import (`cuWaitExternalSemaphoresAsync`) |
/// | Vulkan to stream, bridge | the same release, and the same signal | the host sees the value (`vkWaitSemaphores`, `vkGetSemaphoreCounterValue`: the signal happened before), then stores a word with release semantics | the stream's wait for the word, an acquire for all work behind it (`cuStreamWaitValue64`) |
/// | stream to Vulkan, native | the stream's signal (`cuSignalExternalSemaphoresAsync`) | the semaphore wait operation of the submission | the acquire from `VK_QUEUE_FAMILY_EXTERNAL` behind that wait |
/// | stream to Vulkan, bridge | the system-scope fence before the stream's write of a word (`cuStreamWriteValue64` without `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`) | the host reads the word with acquire semantics, then signals (`vkSignalSemaphore`, whose first scope includes earlier host operations); the submission waits | the same acquire |
///
/// The application's code is therefore the same for both: release and signal, or wait and acquire. A presentation is the
/// exception: see [`Timeline::before_present`](crate::Timeline::before_present).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TimelineStrategy {
    /// The compute driver imports the exporter's timeline; streams signal it and wait for it. The fastest strategy
    /// where supported.
    Native,
    /// The exporter's timeline is not imported. Streams wait for words in memory, which a host thread writes once the
    /// exporter's timeline has reached the value; streams write words, which the same thread converts into host
    /// signals.
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
            _ => Err(Error::invalid("TimelineStrategy::from_str", "unknown strategy; use native or bridge")
                .with_context("value", text)),
        }
    }
}

impl TimelineStrategy {
    /// Strategy set by [`TIMELINE_VARIABLE`]; `None` for `auto`, an empty value, or an unset variable.
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

/// A timeline of an exporting API as seen by the host: a `VkSemaphore` of type timeline, an `ID3D12Fence`.
///
/// Implement it for other timelines. [`value`](Self::value), [`signal`](Self::signal) and [`wait`](Self::wait) are
/// sufficient for a bridge.
///
/// The value is monotonic; a timeline that decreases while streams wait for it over a bridge fails. All methods may be
/// called concurrently from any thread. A panic on a thread of this crate counts as a failure of the timeline, and one of the
/// destructor ends where the timeline is dropped. No method may call the compute driver, and none but [`ExporterTimeline::wait`] may block: a [`Timeline`](crate::Timeline) calls them from a thread that
/// serves many timelines.
pub trait ExporterTimeline: Any + fmt::Debug + Send + Sync {
    /// Returns the current value (`vkGetSemaphoreCounterValue`).
    ///
    /// # Errors
    /// A permanent failure of the exporter, such as a lost device. All waits for this timeline then end with this
    /// error.
    #[doc(alias = "vkGetSemaphoreCounterValue")]
    fn value(&self) -> Result<u64>;

    /// Raises the value from the host (`vkSignalSemaphore`). Earlier reads and writes of the host happen before the
    /// signal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `value` is not greater than the current
    /// one, or exceeds it by more than the exporter allows; [`ErrorKind::Overtaken`](crate::ErrorKind::Overtaken) if
    /// pending work of the exporter may signal a greater value first; otherwise as [`ExporterTimeline::value`].
    #[doc(alias = "vkSignalSemaphore")]
    fn signal(&self, value: u64) -> Result<()>;

    /// Blocks until the value is at least `value` (`vkWaitSemaphores`).
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) after `timeout`; otherwise as [`ExporterTimeline::value`].
    #[doc(alias = "vkWaitSemaphores")]
    fn wait(&self, value: u64, timeout: Duration) -> Result<()>;

    /// Greatest difference between a value that is waited for and the current one
    /// (`maxTimelineSemaphoreValueDifference`). Streams reject waits for greater values.
    fn max_difference(&self) -> u64 {
        u64::MAX
    }

    /// Kind of handle that the timeline can be exported as; `None` if it cannot.
    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        None
    }

    /// Exports the timeline as a new handle, owned by the caller.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if it cannot be exported; else the error of the
    /// exporter's driver.
    fn export(&self) -> Result<SemaphoreImport> {
        Err(Error::unsupported("ExporterTimeline::export", "this timeline cannot be exported"))
    }

    /// Creates a waiter for this timeline and all others that it can wait for at once, such as those of the same
    /// `VkDevice`.
    ///
    /// # Errors
    /// The error of the exporter's driver.
    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(PollingWaiter::new(self.type_id())))
    }

    /// Writes a short name of the timeline for error messages, such as "timeline 0x5a10 of Vulkan". The default is `Debug`. A
    /// wrapper forwards it.
    ///
    /// # Errors
    /// Errors of `f`.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }

    /// Called when a bridge begins to carry the timeline's values: the host then makes the signals of streams. Does nothing
    /// by default. A wrapper forwards it.
    fn bridged(&self) {}
}

/// Waits for several timelines of one exporter at once. One thread waits at a time; any thread may interrupt it.
pub trait TimelineWaiter: fmt::Debug + Send + Sync {
    /// `true` if this waiter can wait for `timeline`.
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool;

    /// Blocks until one of `waits` has reached its value, [`TimelineWaiter::interrupt`] is called, or `timeout` has
    /// elapsed; spurious returns are allowed (`vkWaitSemaphores` with `VK_SEMAPHORE_WAIT_ANY_BIT`). `waits` may be
    /// empty; the waiter serves each of its timelines. An interruption since the last call ends this one immediately.
    ///
    /// # Errors
    /// A permanent failure. The caller queries each timeline's value to find the failed one.
    #[doc(alias = "vkWaitSemaphores")]
    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()>;

    /// Ends the current [`TimelineWaiter::wait_any`], or the next one. Does not block.
    fn interrupt(&self);
}

impl Capabilities {
    /// Support of timelines exported as handles of `kind`, or not exportable (`None`): native, emulated by the host
    /// bridge, or unsupported.
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
            return Support::Emulated("a host thread transfers values between words in memory and the exporter".into());
        }
        let functions = self.feature(Feature::HostFunctions);
        if functions.is_supported() {
            return Support::Emulated(
                "host functions signal; streams cannot wait for words in memory, so a value must be reached before a \
                 stream waits for it"
                    .into(),
            );
        }
        functions
    }
}

/// A polling [`TimelineWaiter`] for timelines of any exporter: returns after half a millisecond, and the caller queries
/// the values.
#[derive(Debug)]
pub struct PollingWaiter {
    timelines: TypeId,
    interrupted: Mutex<bool>,
    interruption: Condvar,
}

/// Polling interval.
const PAUSE: Duration = Duration::from_micros(500);

impl PollingWaiter {
    /// Creates a waiter for timelines of this type; other types may have a better one.
    #[must_use]
    pub fn new(timelines: TypeId) -> Self {
        Self { timelines, interrupted: Mutex::default(), interruption: Condvar::new() }
    }
}

impl TimelineWaiter for PollingWaiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        let timeline: &dyn Any = timeline;
        timeline.type_id() == self.timelines
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let pause = if waits.is_empty() { timeout } else { timeout.min(PAUSE) };
        let interrupted = lock(&self.interrupted);
        let waited = self.interruption.wait_timeout_while(interrupted, pause, |interrupted| !*interrupted);
        *unpoisoned(waited).0 = false;
        Ok(())
    }

    fn interrupt(&self) {
        *lock(&self.interrupted) = true;
        self.interruption.notify_one();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn strategies_parse_their_display_text() {
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
    fn timeline_support_follows_from_handles_and_features() {
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

    #[derive(Debug)]
    struct Timeline<const TYPE: usize>;

    impl<const TYPE: usize> ExporterTimeline for Timeline<TYPE> {
        fn value(&self) -> Result<u64> {
            Ok(0)
        }

        fn signal(&self, _value: u64) -> Result<()> {
            Ok(())
        }

        fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn timelines_of_other_types_are_not_served() {
        let (one, two) = (Timeline::<1>, Timeline::<2>);
        let waiter = one.waiter().expect("a waiter");
        assert!(waiter.serves(&one) && waiter.serves(&Timeline::<1>) && !waiter.serves(&two));
        assert!(two.waiter().expect("a waiter").serves(&two));
    }

    #[test]
    fn an_interruption_ends_exactly_one_wait() {
        const LONG: Duration = Duration::from_secs(20);
        let waiter = PollingWaiter::new(TypeId::of::<Timeline<1>>());
        let start = Instant::now();
        waiter.interrupt();
        waiter.wait_any(&[], LONG).expect("waits");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                waiter.interrupt();
            });
            waiter.wait_any(&[], LONG).expect("waits");
        });
        // The waiter returns soon for a poll.
        waiter.wait_any(&[(&Timeline::<1>, 1)], LONG).expect("waits");
        assert!(start.elapsed() < LONG, "the interruption was lost");
        let (start, short) = (Instant::now(), Duration::from_millis(20));
        waiter.wait_any(&[], short).expect("waits");
        assert!(start.elapsed() >= short, "the interruption ended two waits");
    }
}
