//! Every path of the crate on a fake driver that tracks names, descriptors and calls.
// Helper functions of the tests.
#![allow(clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

mod driver;
#[cfg(unix)]
mod fd;
mod shared;
mod state;
#[cfg(windows)]
mod win32;

use gpu_interop_core::handle::HandleType;
use gpu_interop_core::{DeviceIdentity, ErrorKind, MemoryHandleKind, Result, SemaphoreHandleKind, Support, Uuid};
use gpu_interop_gl::{Extension, GlInterop};

/// Resets the driver to these extensions and creates a [`GlInterop`].
fn interop(extensions: &[&str]) -> GlInterop {
    driver::start(extensions);
    try_interop().expect("a context")
}

fn try_interop() -> Result<GlInterop> {
    // SAFETY: the fake driver is current unless a test changes that, and these are its functions.
    unsafe { GlInterop::new(driver::address) }
}

#[test]
fn requirements_of_the_context_are_checked_first() {
    driver::start(&driver::ALL);
    driver::with(|state| state.current = false);
    let error = try_interop().expect_err("no context");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("current"), "{error}");

    driver::start(&driver::ALL);
    driver::with(|state| state.version = "2.1.2 fake".into());
    assert_eq!(try_interop().expect_err("too old").kind(), ErrorKind::DriverTooOld);

    driver::start(&driver::ALL);
    driver::with(|state| state.flags = 8);
    assert_eq!(try_interop().expect_err("no errors").kind(), ErrorKind::Unsupported);

    driver::start(&driver::ALL);
    driver::with(|state| state.missing = vec!["glGetStringi"]);
    let error = try_interop().expect_err("a function is missing");
    assert_eq!(error.kind(), ErrorKind::SymbolMissing);
    assert!(error.to_string().contains("glGetStringi"), "{error}");

    // Without a current context, the loaders of wgl and GLFW find nothing.
    // SAFETY: no function is found, so none is called.
    let error = unsafe { GlInterop::new(|_| std::ptr::null()) }.expect_err("nothing is found");
    assert_eq!(error.kind(), ErrorKind::SymbolMissing);
    assert!(error.message().contains("make the context current first"), "{error}");

    driver::start(&driver::ALL);
    driver::with(|state| state.pending = vec![0x0500, 0x0502]);
    try_interop().expect("pending errors of the application are cleared");
    driver::with(|state| state.pending = vec![0x0507; 1000]);
    let error = try_interop().expect_err("the context is lost");
    assert_eq!((error.kind(), error.code().map(|code| code.value)), (ErrorKind::Driver, Some(0x0507)));
}

#[test]
fn missing_extensions_are_named() {
    let (memory, semaphore) = if cfg!(unix) {
        (MemoryHandleKind::OpaqueFd, SemaphoreHandleKind::TimelineFd)
    } else {
        (MemoryHandleKind::OpaqueWin32, SemaphoreHandleKind::TimelineWin32)
    };
    let platform = if cfg!(unix) {
        ["GL_EXT_memory_object_fd", "GL_EXT_semaphore_fd"]
    } else {
        ["GL_EXT_memory_object_win32", "GL_EXT_semaphore_win32"]
    };
    let all = interop(&driver::ALL);
    assert_eq!(all.extensions(), Extension::ALL);
    assert_eq!((all.memory_support(memory), all.semaphore_support(semaphore)), (Support::Native, Support::Native));
    let needed = ["GL_EXT_memory_object", platform[0], "GL_EXT_semaphore", platform[1], "GL_NV_timeline_semaphore"];
    for missing in needed {
        let extensions: Vec<_> = driver::ALL.into_iter().filter(|name| *name != missing).collect();
        let gl = interop(&extensions);
        let is_memory = missing.contains("memory");
        let (unsupported, other) = match is_memory {
            true => (gl.memory_support(memory), gl.semaphore_support(semaphore)),
            false => (gl.semaphore_support(semaphore), gl.memory_support(memory)),
        };
        assert!(
            matches!(&unsupported, Support::Unsupported(reason) if reason.contains(missing)),
            "{missing}: {unsupported}"
        );
        assert_eq!(other, Support::Native, "without {missing}");
    }
    // Only timelines need NVIDIA's extension.
    let gl = interop(&driver::ALL[..7]);
    let binary = if cfg!(unix) { SemaphoreHandleKind::OpaqueFd } else { SemaphoreHandleKind::OpaqueWin32 };
    assert_eq!(gl.semaphore_support(binary), Support::Native);
}

#[test]
fn missing_functions_of_listed_extensions_are_named() {
    let symbol = if cfg!(unix) { "glImportMemoryFdEXT" } else { "glImportMemoryWin32NameEXT" };
    let kind = if cfg!(unix) { MemoryHandleKind::OpaqueFd } else { MemoryHandleKind::OpaqueWin32 };
    driver::start(&driver::ALL);
    driver::with(|state| state.missing = vec![symbol]);
    let gl = try_interop().expect("a context");
    let support = gl.memory_support(kind);
    assert!(matches!(&support, Support::SymbolMissing(reason) if reason.contains(symbol)), "{support}");
}

#[test]
fn handles_of_other_platforms_are_unsupported() {
    let gl = interop(&driver::ALL);
    for kind in MemoryHandleKind::ALL {
        let supported = gl.memory_support(*kind).is_supported();
        let importable = matches!(kind.handle_type(), HandleType::Win32 | HandleType::Kmt) || kind.is_opaque();
        assert_eq!(supported, kind.handle_type().is_current() && importable, "{kind}");
    }
    for kind in SemaphoreHandleKind::ALL {
        use SemaphoreHandleKind as K;
        let supported = gl.semaphore_support(*kind).is_supported();
        let importable_nowhere =
            [K::NvSciSync, K::D3d11Fence, K::D3d11KeyedMutex, K::D3d11KeyedMutexKmt].contains(kind);
        assert_eq!(supported, kind.handle_type().is_current() && !importable_nowhere, "{kind}");
    }
}

#[test]
fn devices_are_compared_by_all_uuids_of_the_context() {
    driver::start(&driver::ALL);
    driver::with(|state| state.uuids = vec![[1; 16], [2; 16]]);
    let gl = try_interop().expect("a context");
    let device = |byte| DeviceIdentity::default().with_uuid(Uuid::from_bytes([byte; 16]));
    assert_eq!(gl.devices().iter().map(|found| found.uuid).collect::<Vec<_>>(), [device(1).uuid, device(2).uuid]);
    assert_eq!(gl.driver_uuid(), Uuid::from_bytes([2; 16]));
    assert_eq!(gl.identity().luid.map(|luid| (luid.bytes, luid.node_mask)), Some(([9; 8], 1)));
    gl.check_exporter(&device(1)).expect("the first");
    gl.check_exporter(&device(2)).expect("the second");
    let error = gl.check_exporter(&device(3)).expect_err("another");
    assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
    assert_eq!(error.mismatch().map(|both| &both.exporter), Some(&device(3)));
}
