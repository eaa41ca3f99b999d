//! Descriptors, sockets and signals.

mod connection;

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use gpu_interop::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::{BorrowedOsHandle, OsHandle, ResourceSnapshot};
use crate::outcome::{Stop, Verdict};

pub use connection::Connection;

/// The handle kinds of this system's exporters.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueFd;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueFd;
/// The kind of exported timeline semaphores on this system.
pub const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineFd;

/// The package of Vulkan's CPU driver, for the end of a message.
pub(crate) const VULKAN_ON_CPU: &str = " (Debian, for the CPU: mesa-vulkan-drivers)";
/// The package of Vulkan's validation layer.
pub const VULKAN_CHECKS: &str = "Debian: vulkan-validationlayers";

pub(crate) fn memory(handle: OsHandle) -> MemoryHandle {
    MemoryHandle::OpaqueFd(handle)
}

pub(crate) fn binary_semaphore(handle: OsHandle) -> SemaphoreHandle {
    SemaphoreHandle::OpaqueFd(handle)
}

pub(crate) fn timeline_semaphore(handle: OsHandle) -> SemaphoreHandle {
    SemaphoreHandle::TimelineFd(handle)
}

/// The handle of exported memory, if it can be sent.
pub(crate) fn of_memory(handle: &MemoryHandle) -> Option<BorrowedOsHandle<'_>> {
    handle.as_fd()
}

/// The handle of an exported semaphore, if it can be sent.
pub(crate) fn of_semaphore(handle: &SemaphoreHandle) -> Option<BorrowedOsHandle<'_>> {
    handle.as_fd()
}

/// The handle of an exported semaphore; `None` for another kind.
pub(crate) fn into_semaphore(handle: SemaphoreHandle) -> Option<OsHandle> {
    handle.into_fd().ok()
}

/// Borrows a file's handle.
pub fn borrow(file: &File) -> BorrowedOsHandle<'_> {
    file.as_fd()
}

pub(crate) fn borrow_handle(handle: &OsHandle) -> BorrowedOsHandle<'_> {
    handle.as_fd()
}

/// A duplicate of this process's standard input.
pub(crate) fn standard_input() -> std::io::Result<OsHandle> {
    std::io::stdin().as_fd().try_clone_to_owned()
}

/// A nameless file, deleted with its last handle.
pub fn nameless_file(name: &str) -> Verdict<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

/// Reads from `offset` on, all of `bytes`.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Writes all of `bytes` from `offset` on.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// The system's id of this thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Counts the resources of this process.
pub(crate) fn resources() -> Verdict<ResourceSnapshot> {
    let mappings = std::fs::read_to_string("/proc/self/maps")?.lines().count();
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let resident = pages * rustix::param::page_size() as u64;
    Ok(ResourceSnapshot { descriptors: open_descriptors()?, mappings, resident })
}

/// Counts the open descriptors of this process.
pub(crate) fn open_descriptors() -> Verdict<usize> {
    // The iterator itself holds one descriptor while it counts.
    Ok(std::fs::read_dir("/proc/self/fd")?.count().saturating_sub(1))
}

/// The number of threads of this process.
pub(crate) fn threads() -> Verdict<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Memory that is available without swapping, bytes.
pub(crate) fn available_memory() -> Verdict<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let kilobytes = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kilobytes.unwrap_or(0) * 1024)
}

/// The limit of open descriptors.
pub(crate) fn handle_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit of open descriptors of this process and its children to the maximum.
pub fn raise_handle_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open descriptors stays as it is");
    }
}

/// The number of open descriptors in a child process.
pub(crate) fn handles_in_a_program() -> Verdict<usize> {
    let mut command = Command::new("ls");
    let output = command.arg("/proc/self/fd").stdin(std::process::Stdio::null()).output()?;
    let count = String::from_utf8_lossy(&output.stdout).lines().count();
    crate::ensure!(output.status.success() && count > 0, "`ls` failed: {}", output.status);
    Ok(count)
}

/// Starts a program that Ctrl-C in a terminal does not reach.
pub fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Ends this process when the one that started it ends in any way.
pub(crate) fn die_with(parent: Option<&str>) -> Verdict {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before. Its id is compared, instead of 1: in a container the suite itself may have the
    // id 1.
    let actual = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
    match parent {
        Some(expected) if actual.as_deref() != Some(expected) => {
            Err(Stop::failed("the process that started this one has ended".into()))
        }
        _ => Ok(()),
    }
}

/// True until a process has ended; does not reap it.
pub(crate) fn is_running(child: &Child) -> bool {
    let Ok(id) = i32::try_from(child.id()) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let id = Pid::from_raw(id).map(WaitId::Pid);
    id.is_some_and(|id| matches!(rustix::process::waitid(id, options), Ok(None)))
}

/// Describes an abnormal end of a process, with the signal's name.
pub fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => {
            let name = match Signal::from_named_raw(number) {
                // The headers abbreviate the name, `Signal` does not.
                Some(Signal::ABORT) => " (SIGABRT)".into(),
                // `Signal::SEGV`, in the form of the headers.
                Some(signal) => {
                    format!(" (SIG{})", format!("{signal:?}").trim_matches('"').trim_start_matches("Signal::"))
                }
                None => String::new(),
            };
            format!("its process was killed by signal {number}{name}")
        }
        None => format!("its process ended without a result: {status}"),
    }
}

/// Creates temporary files that become files readable by all users.
pub fn readable_file() -> tempfile::Builder<'static, 'static> {
    let mut file = tempfile::Builder::new();
    file.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    file
}
