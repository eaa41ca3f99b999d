//! Malformed calls of CUDA's driver without the library, which show the behaviour of the driver alone.
//!
//! They run in a separate process, because some of them crash it. The process is this program, which loads the same
//! file as the backend under test, makes one call per message and returns the driver's behaviour.
//!
//! All its unsafe code is in this module. The layouts are those of NVIDIA's headers, from `cudarc`, not this project's
//! own.

mod serve;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use gpu_interop::sync::lock;

use serde::{Deserialize, Serialize};

pub(crate) use serve::serve;

use crate::backend_under_test::DriverApi;
use crate::context::Context;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::peer::{Incoming, Peer};
use crate::process::{self, Request};
use crate::system::describe;

/// The time limit of a call; a slower one counts as hanging.
const LIMIT: Duration = Duration::from_secs(8);

/// A process that calls the driver of the backend under test without the library. It is restarted after a crash.
#[derive(Debug)]
pub(crate) struct RawProcess {
    library: PathBuf,
    device: usize,
    peer: Option<Peer>,
}

/// An undamaged process, kept for the next scenario, because starting a GPU's driver takes longer than all calls of a
/// scenario.
static HANDED_ON: Mutex<Option<RawProcess>> = Mutex::new(None);

#[derive(Debug)]
pub(crate) struct RawOutcome {
    /// A description: accepted, a code with its name, or the end of the process.
    pub(crate) text: String,
    /// The descriptor that the call created, if any.
    pub(crate) fd: Option<OwnedFd>,
}

impl RawProcess {
    /// Creates the process object for the driver of the backend under test. The process starts with the first call.
    ///
    /// # Errors
    /// [`Stop::unsupported`] unless the backend is CUDA's.
    pub(crate) fn new(context: &Context) -> Verdict<Self> {
        let backend = context.device().backend();
        match &backend.library {
            Some(library) if context.driver_api()? == DriverApi::Cuda => {
                let (library, device) = (library.clone(), context.ordinal());
                let handed_on = lock(&HANDED_ON).take();
                let same = |process: &Self| process.library == library && process.device == device;
                // The process ends by itself after a while.
                let answers = |process: &Self| process.peer.as_ref().is_some_and(Peer::is_running);
                let peer = handed_on.filter(same).filter(answers).and_then(|process| process.peer);
                Ok(Self { library, device, peer })
            }
            _ => Err(Stop::unsupported(format!(
                "raw calls are those of CUDA's driver; the backend {} does not use it",
                backend.name
            ))),
        }
    }

    /// Makes one call, in the process of the previous call if it still runs. A crash is a result, not an error.
    ///
    /// # Errors
    /// If the process cannot be started, or load the driver.
    pub(crate) fn call(&mut self, call: &RawCall, fd: Option<BorrowedFd<'_>>) -> Verdict<RawOutcome> {
        let peer = match self.peer.take() {
            Some(peer) => peer,
            None => self.start()?,
        };
        let text = serde_json::to_string(call)?;
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        // It may have crashed since the last call.
        if peer.channel().send(&text, 0, &fds).is_err() {
            return ended(peer, "died after the call before: ");
        }
        match peer.channel().next(LIMIT)? {
            Incoming::Message(message, fds) => {
                self.peer = Some(peer);
                Ok(RawOutcome { text: message.what, fd: fds.into_iter().next() })
            }
            Incoming::Gone => ended(peer, ""),
            Incoming::Nothing => Ok(RawOutcome { text: format!("did not return within {LIMIT:?}"), fd: None }),
        }
    }

    /// True if the process of the last call still runs, with the objects that calls have kept.
    pub(crate) fn is_running(&self) -> bool {
        self.peer.is_some()
    }

    fn start(&self) -> Verdict<Peer> {
        let device = i32::try_from(self.device)?;
        let request = Request::RawCuda { library: self.library.clone(), device };
        let peer = Peer::start(&request, process::one_queue().as_slice())?;
        peer.channel().receive("ready")?;
        Ok(peer)
    }

    /// Keeps the process for the next scenario. Its driver must be undamaged.
    pub(crate) fn hand_on(self) {
        *lock(&HANDED_ON) = Some(self);
    }

    /// Ends the process, and describes an abnormal end: some damage is detected only then.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub(crate) fn end(self) -> Verdict<Option<String>> {
        let Some(peer) = self.peer else { return Ok(None) };
        Ok(match peer.finish(WAIT_TIMEOUT)? {
            Some(status) if status.success() => None,
            Some(status) => Some(describe(status)),
            None => Some("it did not end".into()),
        })
    }
}

fn ended(peer: Peer, prefix: &str) -> Verdict<RawOutcome> {
    let text = match peer.finish(LIMIT)? {
        Some(status) => format!("{prefix}{}", describe(status)),
        None => format!("{prefix}its process hangs"),
    };
    Ok(RawOutcome { text, fd: None })
}

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`, and the semaphores' one of the same name.
pub(crate) const OPAQUE_FD: u32 = 1;
/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32`.
pub(crate) const OPAQUE_WIN32: u32 = 2;
/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD`.
pub(crate) const DMA_BUF_FD: u32 = 9;
/// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD`.
pub(crate) const TIMELINE_FD: u32 = 9;

/// One call, or several that belong together. Kinds are the numbers of the driver's headers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum RawCall {
    /// Imports the descriptor as memory and ends the import.
    ImportMemory { kind: u32, size: u64, flags: u32 },
    /// Imports an invalid descriptor number as memory.
    ImportNumber { number: i32 },
    /// Imports the descriptor as a semaphore and ends the import.
    ImportSemaphore { kind: u32 },
    /// Imports the descriptor as memory, for the calls after this one.
    KeepMemory { size: u64 },
    /// Maps a range of the kept memory, and frees the mapping.
    MapBuffer { offset: u64, size: u64, flags: u32 },
    /// Maps the kept memory as RGBA8 texels, 256 x 128.
    MapMipmappedArray { levels: u32 },
    /// Destroys the kept memory while it is mapped, then uses and frees the mapping.
    DestroyWhileMapped,
    /// Destroys the kept memory twice.
    DestroyTwice,
    /// Imports the descriptor as a semaphore, for the calls after this one.
    KeepSemaphore { kind: u32 },
    /// Signals the kept semaphore and waits for the signal.
    Signal { value: u64, batch: Batch },
    /// Waits for the kept semaphore, which must be signalled already.
    Wait { value: u64, batch: Batch },
    /// Allocates memory and exports it as a dma-buf, whose descriptor is returned.
    ExportDmaBuf,
    /// Imports the descriptor, which must fail, lets another file reuse its number if it is free, and closes the
    /// number, as an application does that follows the documentation.
    CloseAfterFailure,
}

/// Form of a batch of signals or waits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Batch {
    /// One semaphore and its parameters.
    One,
    /// A count of 0.
    Empty,
    /// One semaphore, and NULL for its parameters.
    NullParams,
    /// NULL instead of the semaphore.
    NullSemaphore,
}
