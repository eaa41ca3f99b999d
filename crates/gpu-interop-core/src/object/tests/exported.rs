//! Exportable memory, memory of the application, and ranges of mappings.

use std::sync::Arc;

use super::recorder::Call;
use super::{SIZE, assert_invalid, mapped, open};
use crate::backend::DevicePtr;
#[cfg(target_os = "linux")]
use crate::callback::without_driver_calls;
use crate::handle::{MemoryHandle, SemaphoreHandle};
use crate::import::{MemoryImport, SemaphoreImport};

#[cfg(unix)]
pub(super) use descriptors::*;
#[cfg(windows)]
pub(super) use handles::*;

/// Builds a request, which only the recorder imports.
pub(super) fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: the recorder logs the request; it calls no driver and maps nothing.
    unsafe { MemoryImport::new(handle, size) }
}

/// Builds a request with the dedicated flag.
pub(super) fn with_dedicated(request: MemoryImport, dedicated: bool) -> MemoryImport {
    // SAFETY: as in `memory_request`.
    unsafe { request.dedicated(dedicated) }
}

/// Builds a request, which only the recorder imports.
pub(super) fn semaphore_request(handle: SemaphoreHandle) -> SemaphoreImport {
    // SAFETY: as in `memory_request`.
    unsafe { SemaphoreImport::new(handle) }
}

#[cfg(unix)]
mod descriptors {
    use std::os::fd::OwnedFd;

    use rustix::fs::MemfdFlags;

    use crate::handle::{MemoryHandle, SemaphoreHandle, SemaphoreHandleKind};

    /// The kind of [`timeline`].
    pub(in super::super) const TIMELINE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineFd;

    /// A descriptor that resembles exported memory. `/proc/self/fd` shows its name. Sparse, with the maximum file
    /// length: any import size fits.
    pub(in super::super) fn memfd(name: &str) -> OwnedFd {
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).expect("memfd");
        rustix::fs::ftruncate(&fd, i64::MAX.unsigned_abs()).expect("ftruncate");
        fd
    }

    pub(in super::super) fn memory(name: &str) -> MemoryHandle {
        MemoryHandle::OpaqueFd(memfd(name))
    }

    pub(in super::super) fn binary(name: &str) -> SemaphoreHandle {
        SemaphoreHandle::OpaqueFd(memfd(name))
    }

    pub(in super::super) fn timeline(name: &str) -> SemaphoreHandle {
        SemaphoreHandle::TimelineFd(memfd(name))
    }
}

#[cfg(windows)]
mod handles {
    use std::os::windows::io::{FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::Memory::{CreateFileMappingW, PAGE_READWRITE};

    use crate::handle::{MemoryHandle, SemaphoreHandle, SemaphoreHandleKind, Win32Object};

    /// The kind of [`timeline`].
    pub(in super::super) const TIMELINE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

    /// A file mapping of one page. The name is unused.
    pub(in super::super) fn section() -> OwnedHandle {
        let null = std::ptr::null();
        // SAFETY: null pointers only: unnamed, not inherited.
        let handle = unsafe { CreateFileMappingW(INVALID_HANDLE_VALUE, null, PAGE_READWRITE, 0, 4096, null.cast()) };
        assert!(!handle.is_null(), "{}", std::io::Error::last_os_error());
        // SAFETY: a new handle that this function owns.
        unsafe { OwnedHandle::from_raw_handle(handle) }
    }

    fn object() -> Win32Object {
        Win32Object::Handle(section().into())
    }

    pub(in super::super) fn memory(_name: &str) -> MemoryHandle {
        MemoryHandle::OpaqueWin32(object())
    }

    pub(in super::super) fn binary(_name: &str) -> SemaphoreHandle {
        SemaphoreHandle::OpaqueWin32(object())
    }

    pub(in super::super) fn timeline(_name: &str) -> SemaphoreHandle {
        SemaphoreHandle::TimelineWin32(object())
    }
}

#[test]
fn the_owner_lives_until_the_work_has_completed() {
    let (recorder, device) = open();
    let (stream, owner) = (device.create_stream().expect("stream"), Arc::new(()));
    recorder.hold(stream.as_raw());
    let (mapped, lent) = (mapped(&device), mapped(&device));
    // SAFETY: the recorder accesses no memory.
    let borrow = || unsafe { device.borrow_memory(lent.as_raw(), 64, owner.clone()) }.expect("a range");
    let (borrowed, again) = (borrow(), borrow());
    assert_eq!((borrowed.as_raw(), borrowed.size()), (lent.as_raw(), 64));
    stream.copy(mapped.slice(..16).expect("a range"), borrowed.slice(48..).expect("a range")).expect("copy");
    let copy = Call::Copy { stream: stream.as_raw(), dst: mapped.as_raw(), src: lent.as_raw().offset(48), size: 16 };
    assert_eq!(recorder.calls().last(), Some(&copy));
    drop((borrowed, again));
    assert_eq!(Arc::strong_count(&owner), 2, "one unused, one in use by the copy");
    recorder.finish(stream.as_raw());
    device.collect();
    assert_eq!(Arc::strong_count(&owner), 1);
    assert!(!recorder.calls().iter().any(|call| matches!(call, Call::FreeBuffer(_))), "the owner frees the memory");
}

#[test]
fn ranges_that_are_no_memory_are_rejected() {
    let (recorder, device) = open();
    let owner = Arc::new(());
    for (ptr, size) in [(DevicePtr::new(0), 64), (DevicePtr::new(64), 0), (DevicePtr::new(64), u64::MAX)] {
        // SAFETY: as above.
        let borrow = || unsafe { device.borrow_memory(ptr, size, owner.clone()) };
        assert_invalid(&recorder, "Device::borrow_memory", &["address space", &format!("size: {size}")], borrow);
    }
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn the_owner_of_a_range_lives_until_its_work_has_completed() {
    let (recorder, device) = open();
    let (stream, other) = (device.create_stream().expect("stream"), device.create_stream().expect("stream"));
    let mapping = Arc::new(mapped(&device));
    let (busy_owner, idle_owner) = (Arc::new(()), Arc::new(()));
    let busy = mapping.range_with_owner(256..512, busy_owner.clone()).expect("a range");
    let idle = mapping.range_with_owner(1024.., idle_owner.clone()).expect("a range");
    assert_eq!((busy.as_raw(), busy.offset(), busy.size()), (mapping.as_raw().offset(256), 256, 256));
    assert_eq!(idle.size(), SIZE - 1024);
    recorder.hold(stream.as_raw());
    stream.fill(busy.slice(16..32).expect("a part"), 7).expect("fill");
    let fill = Call::FillU8 { stream: stream.as_raw(), dst: mapping.as_raw().offset(272), value: 7, size: 16 };
    assert_eq!(recorder.calls().last(), Some(&fill));
    other.fill(&idle, 8).expect("fill");
    drop((busy, idle));
    assert_eq!(Arc::strong_count(&idle_owner), 1, "work on another range of the mapping does not delay it");
    assert_eq!(Arc::strong_count(&busy_owner), 2, "its fill is pending");
    // The mapping is used by the fill as well.
    drop(mapping);
    let freed = || recorder.calls().iter().any(|call| matches!(call, Call::FreeBuffer(_)));
    assert!(!freed());
    recorder.finish(stream.as_raw());
    device.collect();
    assert_eq!(Arc::strong_count(&busy_owner), 1);
    assert!(freed());
}

/// The child process cannot start threads: their default stack is larger than the address space.
#[test]
#[cfg(target_os = "linux")]
fn a_device_closed_in_a_host_function_without_threads_leaks_its_owners() {
    const CHILD: &str = "GPU_INTEROP_TEST_WITHOUT_THREADS";
    let name = "object::tests::exported::a_device_closed_in_a_host_function_without_threads_leaks_its_owners";
    if std::env::var_os(CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
        child
            .args([name, "--exact", "--test-threads=1"])
            .env(CHILD, "1")
            .env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let output = child.output().expect("a process");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    std::thread::Builder::new().spawn(|| ()).expect_err("no thread can start");
    let (recorder, device) = open();
    recorder.expect_leaks();
    let stream = device.create_stream().expect("stream");
    let mapping = Arc::new(mapped(&device));
    let owner = Arc::new(());
    let range = mapping.range_with_owner(.., owner.clone()).expect("a range");
    recorder.hold(stream.as_raw());
    stream.fill(&range, 7).expect("fill");
    without_driver_calls(|| drop((range, mapping, stream, device)));
    assert_eq!(Arc::strong_count(&owner), 2, "the fill is pending");
}

#[test]
fn a_range_keeps_its_mapping() {
    let (recorder, device) = open();
    let mapping = Arc::new(mapped(&device));
    let range = mapping.range_with_owner(.., Arc::new(())).expect("a range");
    drop(mapping);
    assert!(!recorder.calls().iter().any(|call| matches!(call, Call::FreeBuffer(_))));
    drop(range);
    assert!(recorder.calls().iter().any(|call| matches!(call, Call::FreeBuffer(_))));
}

/// Copies between overlapping ranges are detected as those between slices of one mapping.
#[test]
fn ranges_overlap_like_slices() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let mapping = Arc::new(mapped(&device));
    let range = |at: std::ops::Range<u64>| mapping.range_with_owner(at, Arc::new(())).expect("a range");
    let (one, two) = (range(0..512), range(256..768));
    assert_invalid(&recorder, "Stream::copy", &["overlap"], || stream.copy(&one, &two));
}

#[test]
fn ranges_outside_the_mapping_are_rejected() {
    let (recorder, device) = open();
    let (mapping, owner) = (Arc::new(mapped(&device)), Arc::new(()));
    for range in [0..0, 0..SIZE + 1, SIZE..SIZE + 1] {
        let outside = || mapping.range_with_owner(range.clone(), owner.clone());
        assert_invalid(&recorder, "MappedBuffer::range_with_owner", &["size"], outside);
    }
    assert_eq!(Arc::strong_count(&owner), 1);
}
