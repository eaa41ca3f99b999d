//! Classification of NT handles by documented functions.

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

/// Type of object behind a handle. Used to reject handles that no GPU API exports.
///
/// No documented function identifies the other types, such as events and sections, without side effects, and the names
/// of object types are not a stable interface of Windows. The driver checks those.
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

/// Classifies a handle without reading from or signalling its object. A process or thread handle without query access
/// is [`NtKind::Other`].
pub(crate) fn classify(handle: &NtHandle) -> NtKind {
    classify_raw(handle.as_raw())
}

fn classify_raw(handle: *mut c_void) -> NtKind {
    let mut flags = 0;
    // SAFETY: the pointer is valid for the call, which fails for a number that is not an open handle.
    if unsafe { GetHandleInformation(handle, &raw mut flags) } == 0 {
        return NtKind::Closed;
    }
    // SAFETY: the handle is open. For an object that is not a file the result is FILE_TYPE_UNKNOWN.
    match unsafe { GetFileType(handle) } {
        FILE_TYPE_DISK if has_a_name(handle) => return NtKind::File,
        FILE_TYPE_PIPE => return NtKind::Pipe,
        FILE_TYPE_CHAR => return NtKind::CharDevice,
        _ => {}
    }
    // SAFETY: the handle is open. For an object of another type both return 0, which is no valid identifier.
    unsafe {
        match (GetProcessId(handle), GetThreadId(handle)) {
            (0, 0) => NtKind::Other,
            (0, _) => NtKind::Thread,
            _ => NtKind::Process,
        }
    }
}

/// `true` if a file has a name on disk, or had one until it was deleted. Windows reports that a section is not a file;
/// Wine reports the file type of its backing file, but no further information.
fn has_a_name(file: *mut c_void) -> bool {
    let size = u32::try_from(size_of::<FILE_STANDARD_INFO>()).unwrap_or(0);
    let mut information = MaybeUninit::<FILE_STANDARD_INFO>::zeroed();
    let pointer = information.as_mut_ptr();
    // SAFETY: the handle is open, and the pointer valid for the call, to as many bytes. They were all initialised; the
    // boolean is read as a byte, because a file system may use values other than 1 for true.
    unsafe {
        GetFileInformationByHandleEx(file, FileStandardInfo, pointer.cast(), size) != 0
            && ((*pointer).NumberOfLinks > 0 || (&raw const (*pointer).DeletePending).cast::<u8>().read() != 0)
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
        // SAFETY: a new handle that this function owns.
        unsafe { OwnedHandle::from_raw_handle(handle) }
    }

    /// A signalled event that one wait resets.
    fn event() -> OwnedHandle {
        // SAFETY: null pointers only: unnamed, not inherited.
        owned(unsafe { CreateEventW(std::ptr::null(), 0, 1, std::ptr::null()) })
    }

    fn kind(handle: impl Into<OwnedHandle>) -> NtKind {
        classify(&NtHandle::from(handle.into()))
    }

    #[test]
    fn files_pipes_and_devices_are_distinguished() {
        let program = std::env::current_exe().expect("a path");
        assert_eq!(kind(std::fs::File::open(program).expect("the program")), NtKind::File);
        assert_eq!(kind(std::fs::File::open("NUL").expect("the null device")), NtKind::CharDevice);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert_eq!([kind(reader), kind(writer)], [NtKind::Pipe; 2]);
    }

    #[test]
    fn an_open_deleted_file_is_a_file() {
        let path = std::env::temp_dir().join(format!("gpu-interop-deleted-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        std::fs::remove_file(&path).expect("deleted once it is closed");
        assert_eq!(kind(file), NtKind::File);
    }

    #[test]
    fn processes_and_threads_are_recognised() {
        // Pseudo handles of the current process and thread. SAFETY: no arguments.
        let pseudo = unsafe { [GetCurrentProcess(), GetCurrentThread()] };
        let real = pseudo.map(|handle| {
            // SAFETY: a pseudo handle, valid as long as this thread.
            let borrowed = unsafe { std::os::windows::io::BorrowedHandle::borrow_raw(handle) };
            kind(borrowed.try_clone_to_owned().expect("a duplicate"))
        });
        assert_eq!(real, [NtKind::Process, NtKind::Thread]);
        assert_ne!(classify_raw(pseudo[1]), NtKind::Other, "the pseudo handle of the current thread");
        assert_eq!(kind(std::thread::spawn(|| {})), NtKind::Thread);
    }

    /// Shared objects of Direct3D have these types.
    #[test]
    fn unidentifiable_objects_are_left_to_the_driver() {
        let null = std::ptr::null();
        // SAFETY: null pointers only: unnamed, not inherited; memory of the paging file.
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
        assert_eq!(waited, [0, 258], "classification must not wait for the event, which would reset it");
    }

    #[test]
    fn numbers_without_a_handle_are_closed() {
        // Beyond the numbers that a test opens; handle numbers are multiples of 4.
        for number in [0x00ff_fff0, 0x00ff_fff3] {
            assert_eq!(classify_raw(std::ptr::without_provenance_mut(number)), NtKind::Closed, "{number:#x}");
        }
    }
}
