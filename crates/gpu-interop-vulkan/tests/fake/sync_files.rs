//! Semaphores whose payload passes as sync files.

use std::os::fd::{AsRawFd, OwnedFd};

use ash::vk;
use gpu_interop_core::ErrorKind;
use gpu_interop_vulkan::{HeadlessContext, ImportedSemaphore, OwnedSemaphore, SemaphoreOp, SyncFileSemaphore};

use crate::assert_calls;
use crate::driver::{Settings, calls, change, context, lend, start};

/// A file that the library takes for a sync file: only the kernel knows.
fn sync_file() -> OwnedFd {
    rustix::pipe::pipe().expect("a pipe").0
}

fn op(semaphore: &OwnedSemaphore) -> SemaphoreOp<'_> {
    SemaphoreOp { semaphore, value: 0 }
}

fn signal(context: &HeadlessContext, semaphore: &OwnedSemaphore) {
    drop(context.submit(&[], &[op(semaphore)], |_| Ok(())).expect("submitted"));
}

#[test]
fn exports_take_a_submitted_signal() {
    let interop = start(Settings::default());
    let context = context(&interop);
    calls();
    let done = SyncFileSemaphore::new(&interop).expect("a semaphore");
    assert_calls(&[
        // VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT.
        "vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{type 0x10}",
        "vkCreateSemaphore 9{flags 0x0} 1000077000{types 0x10}",
    ]);
    // SAFETY: the fake driver only records the calls; nothing waits.
    let export = || unsafe { done.export() };
    assert_eq!(export().expect_err("no signal").kind(), ErrorKind::InvalidArgument);
    assert_calls(&[]);
    signal(&context, done.semaphore());
    calls();
    // A failed export takes nothing.
    change(|settings| settings.export_semaphore = vk::Result::ERROR_TOO_MANY_OBJECTS);
    assert_eq!(export().expect_err("the driver's").kind(), ErrorKind::Driver);
    change(|settings| settings.export_semaphore = vk::Result::SUCCESS);
    let file = export().expect("exported").expect("a sync file");
    assert!(rustix::io::fcntl_getfd(&file).expect("open").contains(rustix::io::FdFlags::CLOEXEC));
    assert_calls(&["vkGetSemaphoreFdKHR 1000079001{semaphore 0xe1, type 0x10}"; 2]);
    // It was reset.
    assert_eq!(export().expect_err("taken").kind(), ErrorKind::InvalidArgument);
    signal(&context, done.semaphore());
    change(|settings| settings.signalled = true);
    assert!(export().expect("exported").is_none(), "signalled before the export");
    // A wait takes the signal, too.
    signal(&context, done.semaphore());
    drop(context.submit(&[op(done.semaphore())], &[], |_| Ok(())).expect("submitted"));
    assert_eq!(export().expect_err("waited").kind(), ErrorKind::InvalidArgument);
}

#[test]
fn imports_are_temporary_and_waited_for_once() {
    let interop = start(Settings::default());
    let context = context(&interop);
    calls();
    let file = sync_file();
    lend(&file);
    let imported = ImportedSemaphore::from_sync_file(&interop, Some(file)).expect("a semaphore");
    let signalled = ImportedSemaphore::from_sync_file(&interop, None).expect("a semaphore");
    assert_calls(&[
        "vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{type 0x10}",
        "vkCreateSemaphore 9{flags 0x0}",
        // VK_SEMAPHORE_IMPORT_TEMPORARY_BIT.
        "vkImportSemaphoreFdKHR 1000079000{semaphore 0xe1, flags 0x1, type 0x10, a duplicate of the file, closed on exec}",
        "vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{type 0x10}",
        "vkCreateSemaphore 9{flags 0x0}",
        "vkImportSemaphoreFdKHR 1000079000{semaphore 0xe2, flags 0x1, type 0x10, no descriptor}",
    ]);
    let waits = [op(imported.semaphore()), op(signalled.semaphore())];
    drop(context.submit(&waits, &[], |_| Ok(())).expect("submitted"));
    let error = context.submit(&waits[..1], &[], |_| Ok(())).map(drop).expect_err("one payload");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn devices_without_sync_files_are_unsupported() {
    let interop = start(Settings { semaphores: 0, ..Settings::default() });
    let features = interop.sync_file_features().expect("a query");
    assert!(!features.exportable && !features.importable);
    assert_eq!(SyncFileSemaphore::new(&interop).expect_err("not exported").kind(), ErrorKind::Unsupported);
    let file = sync_file();
    let number = file.as_raw_fd();
    let (error, file) = ImportedSemaphore::from_sync_file(&interop, Some(file)).expect_err("not imported").into_parts();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("poll"), "{error}");
    assert_eq!(file.map(|file| file.as_raw_fd()), Some(number));
    calls();
    let other: OwnedFd = std::fs::File::open("/proc/self/exe").expect("open").into();
    let (error, file) = ImportedSemaphore::from_sync_file(&interop, Some(other)).expect_err("a file").into_parts();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("a regular file, not a sync file") && file.is_some(), "{error}");
    assert_calls(&[]);
}

/// The fake driver lists no extension for the numbers of DRM devices.
#[cfg(target_os = "linux")]
#[test]
fn devices_without_a_render_node_are_unsupported() {
    let interop = start(Settings::default());
    let error = gpu_interop_vulkan::DrmDevice::of(&interop).expect_err("no render node");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("by its path"), "{error}");
}
