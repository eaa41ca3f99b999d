//! What was measured of CUDA's driver (580.159.04) when it is called with bad input, and what the library makes of it.
//!
//! Each row has two halves. The driver alone, in a process of its own, is only recorded: another version may behave
//! better. The library, here, must refuse the same with a typed error and leave the handle usable, or, where no one can
//! tell, survive it with the right data.

mod descriptor;
mod dma_buf;
mod import;
mod mapping;
mod native;
mod semaphore;
mod sort;

use gpu_interop::{Error, MemoryImport, SemaphoreHandle};

use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::raw_cuda::{RawCall, RawOutcome, RawProcess};
use crate::scenario::Scenario;

/// Every scenario of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    [
        descriptor::SCENARIOS,
        import::SCENARIOS,
        mapping::SCENARIOS,
        native::SCENARIOS,
        sort::SCENARIOS,
        semaphore::SCENARIOS,
        dma_buf::SCENARIOS,
    ]
    .concat()
}

/// The rows of one scenario.
struct Rows<'a> {
    context: &'a Context,
    raw: RawProcess,
}

impl<'a> Rows<'a> {
    fn new(context: &'a Context) -> Verdict<Self> {
        Ok(Self { context, raw: RawProcess::new(context)? })
    }

    /// Calls the driver alone with a handle of the exporter.
    fn with_memory(&mut self, call: &RawCall, request: &MemoryImport) -> Verdict<String> {
        let fd = request.handle().as_fd().ok_or_else(not_a_descriptor)?;
        Ok(self.raw.call(call, Some(fd))?.text)
    }

    fn with_semaphore(&mut self, call: &RawCall, handle: &SemaphoreHandle) -> Verdict<String> {
        let fd = handle.as_fd().ok_or_else(not_a_descriptor)?;
        Ok(self.raw.call(call, Some(fd))?.text)
    }

    /// If a call has killed the process, lets `keep` give a new one what the old one kept.
    fn replace_lost_process(&mut self, keep: impl FnOnce(&mut Self) -> Verdict<String>) -> Verdict {
        if self.raw.is_running() { Ok(()) } else { keep(self).map(drop) }
    }

    fn call(&mut self, call: &RawCall) -> Verdict<RawOutcome> {
        self.raw.call(call, None)
    }

    /// Records a row, and fails if the library did not behave.
    fn row(&self, call: &str, raw: impl Into<String>, library: Verdict<String>) -> Verdict {
        let text = match &library {
            Ok(text) => text.clone(),
            Err(stop) => format!("NOT AS IT MUST BE: {}", stop.reason()),
        };
        self.context.observe(call, raw, text);
        library.map(drop).map_err(|stop| match stop {
            Stop::Failed(reason) => Stop::Failed(format!("{call}: {reason}")),
            other => other,
        })
    }

    /// Leaves the other process to the next scenario: nothing was done to it but what its driver refused or did right.
    fn hand_on(self) {
        self.raw.hand_on();
    }

    /// Ends the other process. How is recorded if it does not end well: some harm shows only then.
    fn end(self) -> Verdict {
        if let Some(text) = self.raw.end()? {
            self.context.observe("the end of the process after these calls", text, "this process goes on");
        }
        Ok(())
    }
}

fn not_a_descriptor() -> Stop {
    Stop::Unsupported("the exporter's handles are no descriptors".into())
}

/// A refusal in words, which must have come without asking the driver.
fn before_the_driver(error: &Error) -> Verdict<String> {
    match error.code() {
        None => Ok(in_words(error)),
        Some(code) => Err(Stop::Failed(format!("the driver was asked, and answered {code}: {error}"))),
    }
}

fn in_words(error: &Error) -> String {
    format!("{}: {}", error.kind(), error.message())
}
