//! Observations of an exercise.

use std::collections::BTreeMap;

use gpu_interop::{Device, Error, MemoryImport, Result, SemaphoreImport};

use crate::simulator::Live;

/// Observations of an exercise.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Every error, with the section that it ended.
    pub(crate) errors: Vec<(&'static str, Error)>,
    /// Properties of the backend and its device.
    pub(crate) facts: BTreeMap<String, String>,
    /// Violated guarantees.
    pub(crate) wrong: Vec<String>,
    /// `true` if the current context or device of the thread has changed.
    pub(crate) moved: bool,
    /// Objects that `close` reported as not freed.
    pub(crate) kept: Live,
    /// Requests returned by failed imports.
    pub(crate) returned: Vec<Returned>,
}

#[derive(Debug)]
pub(crate) enum Returned {
    Memory(MemoryImport),
    Semaphore(SemaphoreImport),
}

impl Returned {
    /// Imports the same once more.
    pub(crate) fn import(self, device: &Device) -> Result<()> {
        match self {
            Self::Memory(request) => device.import_memory(request)?.close(),
            Self::Semaphore(request) => device.import_semaphore(request)?.close(),
        }
    }
}
