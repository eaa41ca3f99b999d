//! The environment of sections: the device, and the record of their observations; and work that lasts until the test
//! ends it, or its time is over.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop::{
    Device, Error, ErrorKind, ExternalMemory, ExternalSemaphore, Feature, MappedBuffer, MemoryHandle, MemoryImport,
    Result, SemaphoreImport, Stream,
};
pub(super) use gpu_interop_test_support::request::{memory_request, semaphore_request};
use rustix::fs::MemfdFlags;

use crate::sabotage::Sabotage;
use crate::simulator::{Driver, Live, ObjectKind, Simulator, Vendor};

/// Size of imports, bytes.
pub(super) const SIZE: u64 = 4096;

pub(super) type Section = fn(&Bench<'_>) -> Result<()>;

/// An open device.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    pub(super) vendor: Vendor,
    driver: &'a Driver,
    simulator: &'a Simulator,
    sabotage: Option<Sabotage>,
    /// The fault strikes more than one call.
    pub(super) has_lasting_fault: bool,
    section: RefCell<Vec<Error>>,
    record: RefCell<Record>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        driver: &'a Driver,
        device: &'a Device,
        simulator: &'a Simulator,
        sabotage: Option<Sabotage>,
        has_lasting_fault: bool,
    ) -> Self {
        let (section, record) = (RefCell::default(), RefCell::default());
        Self { device, vendor: driver.vendor, driver, simulator, sabotage, has_lasting_fault, section, record }
    }

    /// Records an error that does not end the section.
    pub(super) fn note(&self, section: &'static str, error: Error) {
        self.record.borrow_mut().errors.push((section, error));
    }

    /// Records a violated guarantee.
    pub(super) fn wrong(&self, what: impl Into<String>) {
        self.record.borrow_mut().wrong.push(what.into());
    }

    /// Records a violated guarantee unless it holds.
    pub(super) fn check(&self, kept: bool, what: &str) {
        if !kept {
            self.wrong(what);
        }
    }

    /// Records facts reported by the driver.
    pub(super) fn fact(&self, name: &str, value: String) {
        self.record.borrow_mut().facts.insert(name.into(), value);
    }

    /// Ends a section: a failure that did not end it is its error as well.
    pub(super) fn end(&self, name: &'static str) {
        for error in self.section.take() {
            self.note(name, error);
        }
    }

    /// Adds the records.
    pub(super) fn into_record(self, record: &mut Record) {
        let own = self.record.into_inner();
        record.errors.extend(own.errors);
        record.facts.extend(own.facts);
        record.wrong.extend(own.wrong);
        record.kept = own.kept;
        record.returned = own.returned;
    }

    /// Records the result of `close`. After a failure the object stays alive in the driver, and the section continues.
    pub(super) fn closed(&self, kind: ObjectKind, closed: Result<()>) {
        if let Err(error) = closed {
            self.record.borrow_mut().kept.add(kind);
            self.section.borrow_mut().push(error);
        }
    }

    /// As [`Bench::closed`], for a graph, which consists of two objects: both remain if neither was tried.
    pub(super) fn closed_graph(&self, closed: Result<()>) {
        let tried = |error: &Error| crate::checks::remaining_after(error.operation()).contains(&ObjectKind::Graphs);
        if closed.as_ref().is_err_and(|error| !tried(error)) {
            self.record.borrow_mut().kept.add(ObjectKind::Graphs);
        }
        self.closed(ObjectKind::Graphs, closed);
    }

    /// As [`Bench::closed`], for exportable memory, which consists of two objects: the one of the failed call remains.
    pub(super) fn closed_allocation(&self, closed: Result<()>) {
        let Err(error) = closed else { return };
        if let Some(kind) = crate::checks::object_of_allocation(error.operation()) {
            self.record.borrow_mut().kept.add(kind);
        }
        self.section.borrow_mut().push(error);
    }

    /// Waits until all work has run, without a driver call.
    pub(super) fn settle(&self) {
        self.simulator.settle();
    }

    /// Leaves another context current.
    pub(crate) fn leave_current(&self) {
        self.simulator.leave_current();
    }

    /// Live objects of the driver.
    pub(super) fn live(&self) -> Live {
        self.simulator.live()
    }

    /// `true` if a feature is supported. An unsupported feature must be rejected before the driver is called, which
    /// `refused` tests.
    pub(super) fn has<T>(&self, feature: Feature, refused: impl FnOnce() -> Result<T>) -> bool {
        if self.driver.has(feature) {
            return true;
        }
        match refused() {
            Err(error) if error.kind() == ErrorKind::Unsupported && error.code().is_none() => {}
            Err(error) => self.wrong(format!("{feature} should be unsupported: {error}")),
            Ok(_) => self.wrong(format!("{feature} should be unsupported")),
        }
        false
    }

    /// Imports memory. A returned request is kept, and must be unchanged.
    pub(super) fn import(&self, request: MemoryImport) -> Result<ExternalMemory> {
        let file = request.handle().as_fd().map(inode);
        self.device.import_memory(request).map_err(|failure| {
            let (error, mut request) = failure.into_parts();
            match self.sabotage {
                Some(Sabotage::SwapHandle) => request = memory_request(MemoryHandle::OpaqueFd(self::file()), SIZE),
                Some(Sabotage::SpoilHandle) => {
                    rustix::fs::ftruncate(request.handle().as_fd().expect("a file"), 0).expect("a file")
                }
                _ => {}
            }
            self.check(request.handle().as_fd().map(inode) == file, "the memory's handle did not come back as it was");
            self.keep(&error, Returned::Memory(request));
            error
        })
    }

    /// As [`Bench::import`], for semaphores.
    pub(super) fn import_semaphore(&self, request: SemaphoreImport) -> Result<ExternalSemaphore> {
        let file = request.handle().as_fd().map(inode);
        self.device.import_semaphore(request).map_err(|failure| {
            let (error, request) = failure.into_parts();
            let same = request.handle().as_fd().map(inode) == file;
            self.check(same, "the semaphore's handle did not come back as it was");
            self.keep(&error, Returned::Semaphore(request));
            error
        })
    }

    /// Keeps a request that the driver rejected, for another import. A request that did not reach the driver is not
    /// repeated.
    fn keep(&self, error: &Error, request: Returned) {
        if error.kind() != ErrorKind::InvalidArgument {
            self.record.borrow_mut().returned.push(request);
        }
    }

    /// Imports new memory, and returns its file.
    pub(super) fn memory(&self) -> Result<(ExternalMemory, OwnedFd)> {
        let file = file();
        let handle = MemoryHandle::OpaqueFd(file.try_clone().expect("a descriptor"));
        Ok((self.import(memory_request(handle, SIZE))?, file))
    }

    /// Imports and maps new memory as a whole, and returns its file.
    pub(super) fn buffer(&self) -> Result<(MappedBuffer, OwnedFd)> {
        let (memory, file) = self.memory()?;
        Ok((memory.map_buffer(..)?, file))
    }
}

/// A memory file of [`SIZE`] bytes.
pub(super) fn file() -> OwnedFd {
    let file = rustix::fs::memfd_create("fault campaign", MemfdFlags::CLOEXEC).expect("a memory file");
    rustix::fs::ftruncate(&file, SIZE).expect("room");
    file
}

/// The first bytes of a file, as the exporter sees them.
pub(super) fn seen<const N: usize>(file: impl AsFd, offset: u64) -> [u8; N] {
    let mut bytes = [0; N];
    assert_eq!(rustix::io::pread(file, &mut bytes[..], offset).expect("a memory file"), N);
    bytes
}

/// Identity of the file behind a descriptor.
fn inode(fd: BorrowedFd<'_>) -> (u64, u64) {
    let stat = rustix::fs::fstat(fd).unwrap_or_else(|error| panic!("the descriptor came back closed: {error}"));
    (stat.st_dev, stat.st_ino)
}

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

/// Blocks streams until it is opened or dropped, or for [`LIMIT`].
#[derive(Debug, Default)]
pub(super) struct Gate(Arc<(Mutex<State>, Condvar)>);

/// Four of these are less than the limit of an exercise.
const LIMIT: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
struct State {
    open: bool,
    /// The limit ended a wait.
    expired: bool,
}

impl Gate {
    /// Makes a stream wait.
    pub(super) fn hold(&self, stream: &Stream) -> Result<()> {
        let gate = self.0.clone();
        stream.launch_host_function(move || {
            let (state, changed) = &*gate;
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(state, LIMIT, |state| !state.open);
            let (mut state, limit) = waited.unwrap_or_else(PoisonError::into_inner);
            state.expired |= limit.timed_out();
        })
    }

    /// Releases the streams.
    pub(super) fn open(&self) {
        self.state().open = true;
        self.0.1.notify_all();
    }

    /// `true` if the limit ended a wait.
    pub(super) fn has_expired(&self) -> bool {
        self.state().expired
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
