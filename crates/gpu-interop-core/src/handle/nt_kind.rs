//! What an NT handle refers to, as far as documented functions tell.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;

use windows_sys::Win32::Foundation::GetHandleInformation;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_STANDARD_INFO, FILE_TYPE_CHAR, FILE_TYPE_DISK, FILE_TYPE_PIPE, FileStandardInfo, GetFileInformationByHandleEx,
    GetFileType,
};
use windows_sys::Win32::System::Threading::{GetProcessId, GetThreadId};

use super::NtHandle;

/// What a handle refers to. Only used to refuse handles that no GPU API ever exports.
///
/// What else there is, events and sections among it, no documented function tells without changing something, and the
/// names of object types are no interface that Microsoft keeps: those are left to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NtKind {
    /// The number is not an open handle.
    Closed,
    /// A file or directory.
    File,
    /// A pipe or socket.
    Pipe,
    /// A console, printer or other character device.
    CharDevice,
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// Anything else.
    Other,
}

impl fmt::Display for NtKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "not an open handle",
            Self::File => "a file on disk",
            Self::Pipe => "a pipe or socket",
            Self::CharDevice => "a character device such as a console",
            Self::Process => "a process",
            Self::Thread => "a thread",
            Self::Other => "an unknown kind of object",
        })
    }
}

/// Classifies a handle. Reads nothing and signals nothing; a process or thread whose handle may not even
/// be asked for a number is [`NtKind::Other`].
pub(crate) fn classify(handle: &NtHandle) -> NtKind {
    classify_raw(handle.as_raw())
}

fn classify_raw(handle: *mut c_void) -> NtKind {
    let mut flags = 0;
    // SAFETY: the pointer is valid for the call, which fails for a number that is no open handle.
    if unsafe { GetHandleInformation(handle, &raw mut flags) } == 0 {
        return NtKind::Closed;
    }
    // SAFETY: the handle is open. Of an object that is no file, the answer is FILE_TYPE_UNKNOWN.
    match unsafe { GetFileType(handle) } {
        FILE_TYPE_DISK if has_a_name(handle) => return NtKind::File,
        FILE_TYPE_PIPE => return NtKind::Pipe,
        FILE_TYPE_CHAR => return NtKind::CharDevice,
        _ => {}
    }
    // SAFETY: the handle is open. Of an object of another sort, both answer 0, which is nobody's number.
    unsafe {
        match (GetProcessId(handle), GetThreadId(handle)) {
            (0, 0) => NtKind::Other,
            (0, _) => NtKind::Thread,
            _ => NtKind::Process,
        }
    }
}

/// Whether a file has a name on some disk, or had one until it was deleted. Windows says that a section is no file. Wine says
/// that it is the file behind it, but not more of it than that.
fn has_a_name(file: *mut c_void) -> bool {
    let size = u32::try_from(size_of::<FILE_STANDARD_INFO>()).unwrap_or(0);
    let mut information = MaybeUninit::<FILE_STANDARD_INFO>::zeroed();
    let told = information.as_mut_ptr();
    // SAFETY: the handle is open, and the pointer valid for the call, to as many bytes. They were all written before; that a
    // file system calls nothing but 1 true is not relied on.
    unsafe {
        GetFileInformationByHandleEx(file, FileStandardInfo, told.cast(), size) != 0
            && ((*told).NumberOfLinks > 0 || (&raw const (*told).DeletePending).cast::<u8>().read() != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::Memory::{CreateFileMappingW, PAGE_READWRITE};
    use windows_sys::Win32::System::Threading::{
        CreateEventW, CreateMutexW, CreateSemaphoreW, GetCurrentProcess, GetCurrentThread, WaitForSingleObject,
    };

    use super::*;

    fn owned(handle: *mut c_void) -> OwnedHandle {
        assert!(!handle.is_null(), "{}", std::io::Error::last_os_error());
        // SAFETY: a new handle, this caller's.
        unsafe { OwnedHandle::from_raw_handle(handle) }
    }

    /// An event that is set, and that one wait resets.
    fn event() -> OwnedHandle {
        // SAFETY: no pointer but null: nameless, not inherited.
        owned(unsafe { CreateEventW(std::ptr::null(), 0, 1, std::ptr::null()) })
    }

    fn kind(handle: impl Into<OwnedHandle>) -> NtKind {
        classify(&NtHandle::from(handle.into()))
    }

    #[test]
    fn files_pipes_and_devices_are_told_apart() {
        let program = std::env::current_exe().expect("a path");
        assert_eq!(kind(std::fs::File::open(program).expect("the program")), NtKind::File);
        assert_eq!(kind(std::fs::File::open("NUL").expect("the null device")), NtKind::CharDevice);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert_eq!([kind(reader), kind(writer)], [NtKind::Pipe; 2]);
    }

    #[test]
    fn a_file_that_is_deleted_while_it_is_open_is_one() {
        let path = std::env::temp_dir().join(format!("gpu-interop-deleted-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        std::fs::remove_file(&path).expect("deleted once it is closed");
        assert_eq!(kind(file), NtKind::File);
    }

    #[test]
    fn processes_and_threads_are_told() {
        // What stands for the current ones: numbers without an object of their own.
        // SAFETY: no arguments.
        let pseudo = unsafe { [GetCurrentProcess(), GetCurrentThread()] };
        let real = pseudo.map(|handle| {
            // SAFETY: a number that stands for what exists as long as this thread.
            let borrowed = unsafe { std::os::windows::io::BorrowedHandle::borrow_raw(handle) };
            kind(borrowed.try_clone_to_owned().expect("a duplicate"))
        });
        assert_eq!(real, [NtKind::Process, NtKind::Thread]);
        assert_ne!(classify_raw(pseudo[1]), NtKind::Other, "the current thread, as a number without a handle");
        assert_eq!(kind(std::thread::spawn(|| {})), NtKind::Thread);
    }

    /// Shared objects of Direct3D look like these.
    #[test]
    fn what_no_documented_function_tells_is_left_to_drivers() {
        let null = std::ptr::null();
        // SAFETY: no pointer but null: nameless, not inherited; memory of the paging file.
        let section = unsafe { CreateFileMappingW(INVALID_HANDLE_VALUE, null, PAGE_READWRITE, 0, 4096, null.cast()) };
        assert_eq!(kind(owned(section)), NtKind::Other);
        // SAFETY: as above.
        assert_eq!(kind(owned(unsafe { CreateMutexW(null, 0, null.cast()) })), NtKind::Other);
        // SAFETY: as above.
        assert_eq!(kind(owned(unsafe { CreateSemaphoreW(null, 1, 1, null.cast()) })), NtKind::Other);
        let event = event();
        assert_eq!(classify_raw(event.as_raw_handle()), NtKind::Other);
        // SAFETY: the handle is open.
        let waited = unsafe { [(); 2].map(|()| WaitForSingleObject(event.as_raw_handle(), 0)) };
        assert_eq!(waited, [0, 258], "nobody waited for the event in between, which would have reset it");
    }

    #[test]
    fn numbers_that_are_no_handle_are_told() {
        // Far beyond what a test opens, and no multiple of 4, which numbers are.
        for number in [0x00ff_fff0, 0x00ff_fff3] {
            assert_eq!(classify_raw(std::ptr::without_provenance_mut(number)), NtKind::Closed, "{number:#x}");
        }
    }
}
