//! Tests of the safe objects on a backend that records and checks every call.

mod capability;
mod device;
mod exported;
#[cfg(all(target_os = "linux", not(miri)))]
mod forked;
mod graph;
mod host_function;
mod image;
#[cfg(unix)]
mod import;
#[cfg(windows)]
mod import_win32;
mod lifetime;
mod lifetime_busy;
mod lifetime_external_waits;
mod lifetime_race;
mod map;
mod nv_sci;
#[cfg(unix)]
mod ownership;
#[cfg(windows)]
mod ownership_win32;
mod prepared_batch;
mod recorder;
#[cfg(unix)]
mod request_checks;
mod semaphore;
mod stream;
mod timeline;

use std::sync::Arc;

#[cfg(unix)]
use self::exported::memfd;
use self::exported::{memory_request, semaphore_request};
use self::recorder::{Recorder, gpu};
use super::{Device, ExternalMemory, ExternalSemaphore, MappedBuffer};
use crate::backend::BackendInfo;
use crate::error::{Error, ErrorKind};
use crate::import::MemoryImport;

const SIZE: u64 = 0x1_0000;

/// A device with all capabilities.
fn open() -> (Arc<Recorder>, Device) {
    open_on(Recorder::new(gpu(1)))
}

fn open_on(recorder: Recorder) -> (Arc<Recorder>, Device) {
    let recorder = Arc::new(recorder);
    let info = BackendInfo { name: "recorder".into(), driver: "none".into(), library: None, simulated: true };
    (recorder.clone(), Device::from_backend_device(info, recorder))
}

fn opaque(size: u64) -> MemoryImport {
    memory_request(exported::memory("memory"), size)
}

fn import(device: &Device) -> ExternalMemory {
    device.import_memory(opaque(SIZE)).expect("import")
}

fn mapped(device: &Device) -> MappedBuffer {
    import(device).map_buffer(..).expect("map")
}

fn binary(device: &Device) -> ExternalSemaphore {
    device.import_semaphore(semaphore_request(exported::binary("binary"))).expect("import")
}

fn timeline(device: &Device) -> ExternalSemaphore {
    device.import_semaphore(semaphore_request(exported::timeline("timeline"))).expect("import")
}

/// Asserts that an error is of `kind`, names `operation`, backend and device, and contains each of `words`.
#[track_caller]
fn assert_error(error: &Error, kind: ErrorKind, operation: &str, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert_eq!(error.operation(), operation, "{text}");
    assert_eq!(error.backend(), Some("recorder"), "{text}");
    assert!(error.device().is_some_and(|device| text.contains(device) && device.contains("card")), "{text}");
    for word in words.iter().chain([&operation]) {
        assert!(text.contains(word), "`{word}` is missing: {text}");
    }
}

/// Asserts that `work` fails with an invalid argument, without a call of the backend.
#[track_caller]
fn assert_invalid<T>(
    recorder: &Recorder,
    operation: &str,
    words: &[&str],
    work: impl FnOnce() -> crate::error::Result<T>,
) {
    let before = recorder.calls().len();
    match work() {
        Ok(_) => panic!("{operation} accepted an invalid request"),
        Err(error) => assert_error(&error, ErrorKind::InvalidArgument, operation, words),
    }
    assert_eq!(recorder.calls()[before..], [], "an invalid request reached the backend");
}
