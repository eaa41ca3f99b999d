//! Tries a backend on a fake or simulated driver, in a process of its own: the file of the driver is named by an
//! environment variable, and a driver is loaded once a process. The test program starts itself again, and then prints one
//! line a thing tried. Included by the backends' tests, which have no `main` of the test harness.
#![allow(dead_code, reason = "not every test uses everything")]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use gpu_interop_core::backend::Backend;
use gpu_interop_core::{
    Device, Feature, MemoryHandle, MemoryHandleKind, MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind,
    SemaphoreImport,
};
use libtest_mimic::{Arguments, Trial};
use rustix::fs::MemfdFlags;

/// The one argument of the process that tries a library.
const PROBE: &str = "probe-a-library";

/// Size of everything that is imported, bytes.
pub const SIZE: u64 = 4096;

/// The tests by name, each a function that panics if something does not hold.
#[macro_export]
macro_rules! tests {
    ($($test:ident),+ $(,)?) => { &[$((stringify!($test), $test as fn())),+] };
}

/// The program: the tests, or, in a process that [`probe_with`] started, `probe`.
pub fn main(probe: fn(), tests: &[(&'static str, fn())]) {
    if std::env::args().nth(1).is_some_and(|argument| argument == PROBE) {
        return probe();
    }
    let trial = |(name, test): &(&'static str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit();
}

/// Memory for one import.
pub fn file() -> OwnedFd {
    let fd = rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&fd, SIZE).expect("ftruncate");
    fd
}

/// Prints what became of something: its value's place is empty, an error has its kind and its text.
pub fn say<T>(what: &str, result: Result<T>) -> Option<T> {
    match &result {
        Ok(_) => println!("{what}|ok"),
        Err(error) => println!("{what}|{:?}|{error}", error.kind()),
    }
    result.ok()
}

/// A request for all of a [`file`].
pub fn memory_request(handle: MemoryHandle) -> MemoryImport {
    // SAFETY: the library in the driver's place takes any file of this size for memory.
    unsafe { MemoryImport::new(handle, SIZE) }
}

/// Tries what every driver has, and gives the device.
pub fn probe<B: Backend>(backend: Result<B>) -> Option<Device> {
    let backend = say("load", backend)?;
    println!("simulated|{}", backend.info().simulated);
    let device = say("open", Device::open(&backend, 0))?;
    println!("identity|{}", device.identity());
    println!("kind|{:?}", device.identity().kind);
    println!("architecture|{}", device.architecture().unwrap_or("unknown"));
    for feature in Feature::ALL {
        println!("feature|{feature}|{}", device.capabilities().feature(*feature));
    }
    println!("memory|{}", device.capabilities().memory(MemoryHandleKind::OpaqueFd));
    println!("semaphore|{}", device.capabilities().semaphore(SemaphoreHandleKind::OpaqueFd));
    let memory = device.import_memory(memory_request(MemoryHandle::OpaqueFd(file()))).map_err(|failure| {
        let (error, request) = failure.into_parts();
        let fd = request.handle().as_fd().expect("a descriptor");
        println!("came back|{}", rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size == 4096));
        error
    });
    if let Some(memory) = say("import memory", memory) {
        say("map", memory.map_buffer(0..SIZE));
    }
    // SAFETY: the library in the driver's place takes any file for a semaphore.
    let semaphore = unsafe { SemaphoreImport::new(SemaphoreHandle::OpaqueFd(file())) };
    let semaphore = device.import_semaphore(semaphore);
    say("import semaphore", semaphore.map_err(|failure| failure.into_parts().0));
    say("allocate", device.allocate_exportable(SIZE));
    say("stream", device.create_stream());
    Some(device)
}

/// What this program prints in a process of its own where `variable` names this library, with these variables. The process must
/// end well.
pub fn probe_with(variable: &str, library: &Path, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .arg(PROBE)
        .env(variable, library)
        .envs(variables.iter().copied())
        .output()
        .expect("this program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

/// Fails unless one line begins with `start` and contains each of `parts`.
pub fn assert_line(text: &str, start: &str, parts: &[&str]) {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(start)).collect();
    let [line] = lines[..] else { panic!("no single line `{start}`: {text}") };
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
}
