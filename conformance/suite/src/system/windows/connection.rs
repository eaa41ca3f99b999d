//! A pipe between two processes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    DUPLICATE_CLOSE_SOURCE, DUPLICATE_SAME_ACCESS, DuplicateHandle, ERROR_BROKEN_PIPE, ERROR_PIPE_NOT_CONNECTED,
    INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_FIRST_PIPE_INSTANCE, PIPE_ACCESS_DUPLEX};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_MESSAGE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_MESSAGE, PIPE_WAIT, PeekNamedPipe,
    SetNamedPipeHandleState,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcess, PROCESS_DUP_HANDLE};

use crate::ensure;
use crate::outcome::Verdict;
use crate::system::{BorrowedOsHandle, MAX_HANDLES, OsHandle, Received};

/// Size of a pipe's buffer, bytes: larger than any message, so that senders do not block.
const BUFFER: u32 = 256 << 10;
/// Interval of polling for data.
const PAUSE: Duration = Duration::from_micros(500);
/// The header of a message: the sender's process, the number of handles, and their values there.
const HEADER: usize = 8 + 8 * MAX_HANDLES;

/// One end of a pipe that preserves message boundaries and carries handles.
///
/// The sender duplicates a handle in its own process, and the receiver fetches and closes the duplicate: both sides can
/// send, and need access rights to the other process only when they receive.
#[derive(Debug)]
pub struct Connection {
    pipe: File,
}

impl Connection {
    /// The end that a process was started with: its standard input.
    pub fn of_this_process() -> Verdict<Self> {
        Self::of(std::io::stdin().as_handle().try_clone_to_owned()?)
    }

    fn of(pipe: OwnedHandle) -> Verdict<Self> {
        let mode = PIPE_READMODE_MESSAGE;
        // SAFETY: the handle is a pipe's, and open; one pointer is valid for the call, the others are null.
        let set = unsafe {
            SetNamedPipeHandleState(pipe.as_raw_handle(), &raw const mode, std::ptr::null(), std::ptr::null())
        };
        if set == 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(Self { pipe: pipe.into() }) }
    }

    /// Both ends: this process's, and one for another's standard input.
    pub fn pair() -> Verdict<(Self, Stdio)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(r"\\.\pipe\gpu-interop-conformance-{}-{number}", std::process::id());
        let wide: Vec<u16> = name.encode_utf16().chain([0]).collect();
        let (open, mode) = (
            PIPE_ACCESS_DUPLEX | FILE_FLAG_FIRST_PIPE_INSTANCE,
            PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS,
        );
        // SAFETY: the name ends with a NUL and lives for the call; without attributes the handle is not inherited.
        let here = unsafe { CreateNamedPipeW(wide.as_ptr(), open, mode, 1, BUFFER, BUFFER, 0, std::ptr::null()) };
        if here == INVALID_HANDLE_VALUE {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: a new handle, owned by this caller.
        let here = unsafe { OwnedHandle::from_raw_handle(here) };
        let there = OpenOptions::new().read(true).write(true).open(name)?;
        Ok((Self::of(here)?, there.into()))
    }

    /// Sends a message with handles.
    pub fn send(&self, bytes: &[u8], handles: &[BorrowedOsHandle<'_>]) -> Verdict {
        ensure!(handles.len() <= MAX_HANDLES, "more than {MAX_HANDLES} handles in one message");
        let duplicates = handles.iter().map(|handle| handle.try_clone_to_owned()).collect::<Result<Vec<_>, _>>()?;
        let count = u32::try_from(duplicates.len()).unwrap_or(u32::MAX);
        let mut message = [std::process::id().to_le_bytes(), count.to_le_bytes()].concat();
        for duplicate in &duplicates {
            message.extend((duplicate.as_raw_handle().addr() as u64).to_le_bytes());
        }
        message.resize(HEADER, 0);
        message.extend(bytes);
        (&self.pipe).write_all(&message)?;
        // The receiver closes them.
        duplicates.into_iter().for_each(std::mem::forget);
        Ok(())
    }

    /// Receives the next message, of at most this many bytes. Handles are not inherited.
    pub fn receive(&self, most: usize) -> Verdict<Received> {
        let mut message = vec![0; HEADER + most];
        let received = match (&self.pipe).read(&mut message) {
            Err(error) if is_gone(&error) => return Ok(Received::Gone),
            received => received?,
        };
        if received == 0 {
            return Ok(Received::Gone);
        }
        ensure!(received >= HEADER, "the other process sent {received} bytes, less than a message");
        message.truncate(received);
        let body = message.split_off(HEADER);
        let word = |at: usize| message[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let count = word(4) as usize;
        ensure!(count <= MAX_HANDLES, "a message has {count} handles, more than {MAX_HANDLES}");
        let numbers =
            message[8..].chunks_exact(8).take(count).map(|part| part.try_into().map_or(0, u64::from_le_bytes));
        Ok(Received::Message(body, numbers.map(|number| fetch(word(0), number)).collect::<Verdict<_>>()?))
    }

    /// `true` if a message or the end of the connection can be received before the timeout.
    pub fn wait(&self, timeout: Duration) -> Verdict<bool> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut available = 0;
            let null = std::ptr::null_mut();
            // SAFETY: the handle is a pipe's, and open; one pointer is valid for the call, the others are null.
            let looked = unsafe {
                PeekNamedPipe(self.pipe.as_raw_handle(), null, 0, null.cast(), &raw mut available, null.cast())
            };
            if looked == 0 {
                let error = std::io::Error::last_os_error();
                return if is_gone(&error) { Ok(true) } else { Err(error.into()) };
            }
            if available > 0 {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    matches!(code, Some(ERROR_BROKEN_PIPE | ERROR_PIPE_NOT_CONNECTED))
}

/// Fetches a handle from another process.
fn fetch(process: u32, number: u64) -> Verdict<OsHandle> {
    // SAFETY: no pointers.
    let process = unsafe { OpenProcess(PROCESS_DUP_HANDLE, 0, process) };
    ensure!(!process.is_null(), "the process that sent a handle has ended");
    // SAFETY: a new handle, owned by this caller.
    let process = unsafe { OwnedHandle::from_raw_handle(process) };
    let mut handle = std::ptr::null_mut();
    let theirs = std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0));
    // SAFETY: the sender created the handle for this purpose, and gives up its ownership; the pointer is valid for the
    // call.
    let fetched = unsafe {
        DuplicateHandle(
            process.as_raw_handle(),
            theirs,
            GetCurrentProcess(),
            &raw mut handle,
            0,
            0,
            DUPLICATE_CLOSE_SOURCE | DUPLICATE_SAME_ACCESS,
        )
    };
    if fetched == 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: a new handle, owned by this caller.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
