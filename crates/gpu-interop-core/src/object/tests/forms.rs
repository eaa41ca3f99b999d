//! Both forms of signals and waits, for tests that must hold for each: plain batches, and prepared ones.

use crate::error::Result;
use crate::handle::SemaphorePayload;
use crate::object::{ExternalSemaphore, SignalBatch, Stream, WaitBatch};

/// How an operation is passed to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Prepared,
}

impl Form {
    pub(super) const BOTH: [Self; 2] = [Self::Plain, Self::Prepared];

    /// Name of the operation in errors.
    pub(super) fn signal_name(self) -> &'static str {
        if self == Self::Plain { "Stream::signal" } else { "Stream::signal_prepared" }
    }

    /// As [`Form::signal_name`].
    pub(super) fn wait_name(self) -> &'static str {
        if self == Self::Plain { "Stream::wait" } else { "Stream::wait_prepared" }
    }

    /// Signals semaphores; the values of binary ones are unused.
    pub(super) fn signal(self, stream: &Stream, signals: &[(&ExternalSemaphore, u64)]) -> Result<()> {
        if self == Self::Plain {
            let plain = signals.iter().map(|(semaphore, value)| {
                if is_timeline(semaphore) { semaphore.signal_value(*value) } else { semaphore.signal() }
            });
            return stream.signal(&plain.collect::<Vec<_>>());
        }
        let mut batch = SignalBatch::new(signals.iter().map(|(semaphore, _)| *semaphore))?;
        timelines(signals).try_for_each(|(index, value)| batch.set(index, value))?;
        stream.signal_prepared(&mut batch)
    }

    /// Waits for semaphores, as [`Form::signal`].
    pub(super) fn wait(self, stream: &Stream, waits: &[(&ExternalSemaphore, u64)]) -> Result<()> {
        if self == Self::Plain {
            let plain =
                waits.iter().map(
                    |(semaphore, value)| {
                        if is_timeline(semaphore) { semaphore.wait_value(*value) } else { semaphore.wait() }
                    },
                );
            return stream.wait(&plain.collect::<Vec<_>>());
        }
        let mut batch = WaitBatch::new(waits.iter().map(|(semaphore, _)| *semaphore))?;
        timelines(waits).try_for_each(|(index, value)| batch.set(index, value))?;
        stream.wait_prepared(&batch)
    }
}

fn is_timeline(semaphore: &ExternalSemaphore) -> bool {
    semaphore.handle_kind().payload() == SemaphorePayload::Timeline
}

/// Index and value of each timeline.
fn timelines(operations: &[(&ExternalSemaphore, u64)]) -> impl Iterator<Item = (usize, u64)> {
    let timeline = |(index, (semaphore, value)): (usize, &(&ExternalSemaphore, u64))| {
        is_timeline(semaphore).then_some((index, *value))
    };
    operations.iter().enumerate().filter_map(timeline).collect::<Vec<_>>().into_iter()
}
