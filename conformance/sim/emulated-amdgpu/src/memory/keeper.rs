//! Keeps files open without descriptors of the process.
//!
//! The kernel's objects have no descriptors, so those of the emulation's files must not be among the application's, which
//! counts them, and has a limit for them. The keeper's thread has a separate table of descriptors. It takes and returns files by
//! their names in `/proc`.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::abi::Result;
use crate::lock;
use crate::queue::spawn;

/// A request to the thread.
#[derive(Debug)]
enum Request {
    /// Opens the file with this name, and returns the descriptor's number in the thread's table.
    Keep(String, SyncSender<Result<i32>>),
    Close(i32),
}

#[derive(Debug)]
struct Thread {
    requests: Sender<Request>,
    /// The folder of the thread's descriptors.
    folder: String,
}

/// The keeper of a process. Its thread starts with the first file.
#[derive(Debug, Default)]
pub(crate) struct Keeper(Mutex<Option<Thread>>);

/// A kept file, closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    requests: Sender<Request>,
    folder: String,
    number: i32,
}

impl Keeper {
    /// Keeps the file of a descriptor, which may be closed afterwards.
    pub(crate) fn keep(&self, file: BorrowedFd<'_>) -> Result<Kept> {
        let mut thread = lock(&self.0);
        let thread = match &mut *thread {
            Some(thread) => thread,
            none => none.insert(Thread::start()?),
        };
        let (reply, number) = sync_channel(1);
        let process = rustix::process::getpid().as_raw_nonzero();
        let name = format!("/proc/{process}/fd/{}", file.as_raw_fd());
        thread.requests.send(Request::Keep(name, reply)).map_err(|_| Errno::IO)?;
        let number = number.recv().map_err(|_| Errno::IO)??;
        Ok(Kept { requests: thread.requests.clone(), folder: thread.folder.clone(), number })
    }
}

impl Thread {
    fn start() -> Result<Self> {
        let (requests, receiver) = channel();
        let (reply, started) = sync_channel(1);
        spawn("amdgpu-files".to_owned(), move || serve(&receiver, &reply))?;
        let folder = started.recv().map_err(|_| Errno::IO)??;
        Ok(Self { requests, folder })
    }
}

/// Serves requests with the thread's own table of descriptors.
fn serve(requests: &Receiver<Request>, started: &SyncSender<Result<String>>) {
    // SAFETY: the call concerns this thread only. It uses no descriptor that it did not open afterwards.
    let separate = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) };
    let process = rustix::process::getpid().as_raw_nonzero();
    let own = format!("/proc/{process}/task/{}/fd", rustix::thread::gettid().as_raw_nonzero());
    // The copies of the application's descriptors are closed, so that its files are closed when it closes them.
    let closed = separate.and_then(|()| close_all());
    if started.send(closed.map(|()| own)).is_err() {
        return;
    }
    let mut kept = std::collections::BTreeMap::new();
    while let Ok(request) = requests.recv() {
        match request {
            Request::Keep(name, reply) => {
                let opened = rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
                let number = opened.map(|file| {
                    let number = file.as_raw_fd();
                    kept.insert(number, file);
                    number
                });
                // The sender waits for it.
                _ = reply.send(number);
            }
            Request::Close(number) => drop(kept.remove(&number)),
        }
    }
}

/// Closes all descriptors of this thread's table.
fn close_all() -> Result<()> {
    // SAFETY: the table is this thread's own copy, and no object of this thread owns one of its descriptors.
    match unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) } {
        0 => Ok(()),
        _ => Err(Errno::IO),
    }
}

impl Kept {
    /// A new descriptor of the file.
    pub(crate) fn open(&self) -> Result<OwnedFd> {
        let name = format!("{}/{}", self.folder, self.number);
        rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Without the thread the file is closed already.
        _ = self.requests.send(Request::Close(self.number));
    }
}

#[cfg(test)]
mod tests {
    use rustix::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_outlives_its_descriptors() {
        let keeper = Keeper::default();
        let file = rustix::fs::memfd_create(c"kept", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::pwrite(&file, b"abc", 0).unwrap();
        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
        let kept = keeper.keep(file.as_fd()).unwrap();
        let number = file.as_raw_fd();
        drop(file);
        let links = || {
            let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect::<Vec<_>>()
        };
        let is_kept = |link: &std::path::PathBuf| link.to_string_lossy().starts_with("/memfd:kept");
        assert!(!links().iter().any(is_kept), "descriptor {number} is closed");
        let opened = kept.open().unwrap();
        let mut bytes = [0; 3];
        rustix::io::pread(&opened, &mut bytes, 0).unwrap();
        assert_eq!((rustix::fs::fstat(&opened).unwrap().st_ino, &bytes), (inode, b"abc"));
        let (folder, number) = (kept.folder.clone(), kept.number);
        drop(kept);
        let gone = || std::fs::metadata(format!("{folder}/{number}")).is_err();
        while !gone() {
            std::thread::yield_now();
        }
    }
}
