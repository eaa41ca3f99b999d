//! Semaphores and timelines of the exporter, and exchanges on its queue between two values.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::{
    Error, ErrorKind, ExporterTimeline, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, TimelineWaiter,
};

use crate::outcome::{Stop, Verdict};
use crate::request;
use crate::system::{self, OsHandle};

/// A value of a timeline.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    /// The timeline.
    pub timeline: &'a Arc<dyn ExporterTimeline>,
    /// The value to wait for or to signal.
    pub value: u64,
}

/// Pending work of the exporter's queue: [`ExportedBuffer::exchange`](super::ExportedBuffer::exchange).
pub trait Exchange: Send {
    /// Waits for completion, and returns the previous content of the buffer.
    ///
    /// # Errors
    /// If it does not complete in time, or the exporter's driver fails.
    fn finish(self: Box<Self>) -> Verdict<Vec<u8>>;
}

pub(super) fn handle_of(timeline: SemaphoreHandle) -> Verdict<OsHandle> {
    system::into_semaphore(timeline).ok_or_else(|| Stop::failed("the timeline was not exported as a handle".into()))
}

pub(super) fn no_timelines() -> Stop {
    Stop::unsupported("the suite has no timelines of this exporter".into())
}

/// A wrapper of a timeline.
pub(crate) trait Wrapper: ExporterTimeline {
    /// The wrapped timeline.
    fn inner(&self) -> &dyn ExporterTimeline;
}

/// Waits for wrapped timelines with their exporter's waiter.
#[derive(Debug)]
pub(crate) struct Unwrapping<W> {
    waiter: Box<dyn TimelineWaiter>,
    wrapper: PhantomData<fn(W)>,
}

impl<W: Wrapper> Unwrapping<W> {
    /// The waiter of the wrapped timeline, for `wrapper` and others of its type.
    ///
    /// # Errors
    /// The exporter's error.
    pub(crate) fn new(wrapper: &W) -> Result<Self> {
        Ok(Self { waiter: wrapper.inner().waiter()?, wrapper: PhantomData })
    }
}

fn unwrapped<W: Wrapper>(timeline: &dyn ExporterTimeline) -> Option<&dyn ExporterTimeline> {
    let timeline: &dyn Any = timeline;
    timeline.downcast_ref::<W>().map(Wrapper::inner)
}

impl<W: Wrapper> TimelineWaiter for Unwrapping<W> {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        unwrapped::<W>(timeline).is_some_and(|inner| self.waiter.serves(inner))
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let foreign = || Error::invalid("Unwrapping::wait_any", "the timeline is not in such a wrapper");
        let inner = waits.iter().map(|(timeline, value)| Ok((unwrapped::<W>(*timeline).ok_or_else(foreign)?, *value)));
        self.waiter.wait_any(&inner.collect::<Result<Vec<_>>>()?, timeout)
    }

    fn interrupt(&self) {
        self.waiter.interrupt();
    }
}

/// A timeline with a replaced export.
#[derive(Debug)]
pub(super) struct Relabelled<T> {
    /// The original timeline.
    pub(super) timeline: T,
    /// The replaced handle: one of another process, or none.
    pub(super) exported: Option<OsHandle>,
}

impl<T: ExporterTimeline> ExporterTimeline for Relabelled<T> {
    fn value(&self) -> Result<u64> {
        self.timeline.value()
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.timeline.signal(value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.timeline.wait(value, timeout)
    }

    fn bridged(&self) {
        self.timeline.bridged();
    }

    fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.timeline.describe(f)
    }

    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        self.exported.as_ref().map(|_| system::TIMELINE_SEMAPHORE)
    }

    fn export(&self) -> Result<SemaphoreImport> {
        const OPERATION: &str = "Relabelled::export";
        let handle =
            self.exported.as_ref().ok_or_else(|| Error::unsupported(OPERATION, "the timeline is not exportable"))?;
        let handle = handle.try_clone().map_err(|error| {
            Error::new(ErrorKind::System, OPERATION, "the handle cannot be duplicated").with_source(error)
        })?;
        Ok(request::semaphore(system::timeline_semaphore(handle)))
    }
    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Unwrapping::new(self)?))
    }
}

impl<T: ExporterTimeline> Wrapper for Relabelled<T> {
    fn inner(&self) -> &dyn ExporterTimeline {
        &self.timeline
    }
}

/// A semaphore of the exporter. `value` is ignored for a binary one.
pub trait ExportedSemaphore: Send + Sync {
    /// Exports it as a new handle.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn export(&self) -> Verdict<SemaphoreHandle>;

    /// Exports it as an import request.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    fn import_request(&self) -> Verdict<SemaphoreImport>;

    /// Signals it from the exporter's side.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn signal(&self, value: u64) -> Verdict;

    /// Waits on the exporter's side; `false` after the timeout.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn wait(&self, value: u64, timeout: Duration) -> Verdict<bool>;

    /// A timeline semaphore for the library's `Timeline`; `None` for a binary one.
    fn as_timeline(&self) -> Option<Arc<dyn ExporterTimeline>> {
        None
    }
}

/// True if the wait succeeded, false if it timed out.
pub(crate) fn is_met(waited: gpu_interop::Result<()>) -> Verdict<bool> {
    match waited {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
        waited => Ok(waited.map(|()| true)?),
    }
}
