//! Bad input to CUDA's driver (measured: 580.159.04) and to the library.
//!
//! Each row has two halves. The driver's behaviour without the library, in a separate process, is only recorded:
//! another version may behave better. The library must reject the same input with a typed error and leave the handle
//! usable, or, if the input cannot be recognised, continue with correct data.

pub(super) mod memory;
pub(super) mod semaphores;

use gpu_interop::{Error, MemoryImport, SemaphoreHandle};

use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::raw_cuda::{RawCall, RawOutcome, RawProcess};

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

    /// Makes `keep` recreate the kept objects after a crash of the process.
    fn replace_lost_process(&mut self, keep: impl FnOnce(&mut Self) -> Verdict<String>) -> Verdict {
        if self.raw.is_running() { Ok(()) } else { keep(self).map(drop) }
    }

    fn call(&mut self, call: &RawCall) -> Verdict<RawOutcome> {
        self.raw.call(call, None)
    }

    /// Records a row, and fails if the library's half failed.
    fn row(&self, call: &str, raw: impl Into<String>, library: Verdict<String>) -> Verdict {
        let text = match &library {
            Ok(text) => text.clone(),
            Err(stop) => format!("WRONG: {}", stop.reason()),
        };
        self.context.observe(call, raw, text);
        library.map(drop).map_err(|stop| stop.during(call))
    }

    /// Keeps the other process for the next scenario: its driver rejected or handled every call.
    fn hand_on(self) {
        self.raw.hand_on();
    }

    /// Ends the other process. An abnormal end is recorded: some damage shows only then.
    fn end(self) -> Verdict {
        if let Some(text) = self.raw.end()? {
            self.context.observe("the end of the process after these calls", text, "this process is intact");
        }
        Ok(())
    }
}

fn not_a_descriptor() -> Stop {
    Stop::unsupported("the exporter's handles are not descriptors".into())
}

/// The description of an error that came without a driver call.
fn before_the_driver(error: &Error) -> Verdict<String> {
    match error.code() {
        None => Ok(in_words(error)),
        Some(code) => {
            Err(Stop::failed(format!("the driver was called, and returned {code}: {error}")).with_error(error))
        }
    }
}

fn in_words(error: &Error) -> String {
    format!("{}: {}", error.kind(), error.message())
}
