//! A gate that blocks streams until the host opens it.

use std::time::Duration;

use gpu_interop::{MappedBuffer, Stream, WaitCondition};

use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Verdict, join};

/// A word in the exporter's memory that streams wait for. Needs `StreamMemoryOperations32`.
pub(crate) struct Gate {
    buffer: Box<dyn ExportedBuffer>,
    mapped: MappedBuffer,
}

impl Gate {
    /// A closed gate.
    pub(crate) fn new(context: &Context) -> Verdict<Self> {
        let (buffer, mapped) = context.zeroed(4096)?;
        Ok(Self { buffer, mapped })
    }

    /// Makes a stream wait until the gate is open.
    pub(crate) fn block(&self, stream: &Stream) -> Verdict {
        Ok(stream.wait_value_u32(self.mapped.slice(..4)?, 1, WaitCondition::Equal)?)
    }

    /// Closes the gate again, and makes a stream wait until it is open.
    pub(crate) fn close(&self, stream: &Stream) -> Verdict {
        self.buffer.write(0, &[0; 4])?;
        self.block(stream)
    }

    pub(crate) fn open(&self) -> Verdict {
        self.buffer.write(0, &1_u32.to_ne_bytes())
    }

    /// Calls `work`, which blocks until the gate is open, while another thread opens it after `delay`.
    pub(crate) fn open_during<T>(&self, delay: Duration, work: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| {
                std::thread::sleep(delay);
                self.open()
            });
            let result = work();
            join(opener)?;
            result
        })
    }
}
