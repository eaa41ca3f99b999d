//! Negative controls: the library or the campaign broken on purpose. Each must be detected.

use gpu_interop::Error;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::campaign::Defect;
use crate::child::LogEvent;
use crate::exercise::Record;
use crate::fault::Fault;

/// A defect that is planted together with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sabotage {
    /// An error is treated as success.
    Ignore,
    /// An error is replaced by another one.
    Replace,
    /// An error has another code.
    Recode,
    /// A descriptor is leaked.
    LeaveDescriptor,
    /// A mapping is leaked.
    LeaveMapping,
    /// An object is never freed.
    Forget,
    /// The process exits.
    Abort,
    /// The process dereferences an invalid pointer.
    Segfault,
    /// A thread panics.
    Panic,
    /// A wait does not end.
    Hang,
    /// Another context stays current.
    LeaveCurrent,
    /// The fault remains active afterwards.
    KeepFailing,
    /// Another handle than the given one is returned.
    SwapHandle,
    /// An unusable handle is returned.
    SpoilHandle,
    /// The function has no effect and returns success.
    DoNothing,
    /// The fault never occurs.
    Miss,
}

impl Sabotage {
    /// Each sabotage, with the defect that must be found.
    pub(crate) const ALL: [(Self, Defect); 16] = [
        (Self::Ignore, Defect::Hidden),
        (Self::Replace, Defect::Untyped),
        (Self::Recode, Defect::Untyped),
        (Self::LeaveDescriptor, Defect::Leak),
        (Self::LeaveMapping, Defect::Leak),
        (Self::Forget, Defect::Leak),
        (Self::Abort, Defect::Crash),
        (Self::Segfault, Defect::Crash),
        (Self::Panic, Defect::Crash),
        (Self::Hang, Defect::Hang),
        (Self::LeaveCurrent, Defect::Broken),
        (Self::KeepFailing, Defect::NotAgain),
        (Self::SwapHandle, Defect::Broken),
        (Self::SpoilHandle, Defect::Broken),
        (Self::DoNothing, Defect::Broken),
        (Self::Miss, Defect::NotMet),
    ];

    /// The function that fails.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::SwapHandle | Self::SpoilHandle => "cuImportExternalMemory",
            Self::DoNothing => "cuMemcpyDtoHAsync_v2",
            _ => "cuStreamCreate",
        }
    }

    /// The rule injected in place of a fault.
    pub(crate) fn rule(self, fault: &Fault) -> Option<String> {
        match self {
            Self::DoNothing => Some(format!("{}:*:null", fault.function)),
            _ => None,
        }
    }

    /// Alters the observations of an exercise.
    pub(crate) fn alter(self, record: &mut Record, logged: &mut Vec<LogEvent>) {
        let altered = match self {
            Self::Ignore => {
                record.errors.clear();
                logged.clear();
                None
            }
            Self::Replace => Some(Error::invalid("something", "it failed").with_backend("cuda")),
            Self::Recode => record.errors.first().map(|(_, error)| {
                let name = error.code().and_then(|code| code.name.clone());
                Error::new(error.kind(), error.operation(), error.message()).with_code(77, name).with_backend("cuda")
            }),
            Self::LeaveDescriptor => {
                std::mem::forget(rustix::fs::memfd_create("left", MemfdFlags::CLOEXEC).expect("a descriptor"));
                None
            }
            Self::LeaveMapping => {
                leave_mapping();
                None
            }
            _ => None,
        };
        if let (Some(error), Some((_, first))) = (altered, record.errors.first_mut()) {
            *first = error;
        }
    }
}

fn leave_mapping() {
    use rustix::mm::{MapFlags, ProtFlags};
    let file = rustix::fs::memfd_create("left", MemfdFlags::CLOEXEC).expect("a descriptor");
    rustix::fs::ftruncate(&file, 4096).expect("room");
    let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: a new mapping at an address chosen by the kernel.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, read, shared, &file, 0) }.expect("a mapping");
}
