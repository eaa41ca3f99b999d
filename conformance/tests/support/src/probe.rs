//! Probes: processes that run a backend with a given library as its driver.
//!
//! An environment variable names the driver's file, and a process loads a driver once. The test program therefore
//! starts itself again, and that process prints one line per operation. Used by the backends' tests, which have their
//! own `main`.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_interop_core::backend::Backend;
use gpu_interop_core::{
    Device, Feature, MemoryHandle, MemoryHandleKind, MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind,
    SemaphoreImport,
};
use libtest_mimic::{Arguments, Trial};

use crate::{PartialLibrary, build, request, this_program};

/// Argument that starts the program as a probe.
const PROBE: &str = "probe-a-library";

/// Size of every import in bytes.
pub const SIZE: u64 = 4096;

/// Lists tests by name: functions that panic on failure.
#[macro_export]
macro_rules! tests {
    ($($test:ident),+ $(,)?) => { &[$((stringify!($test), $test as fn())),+] };
}

/// Runs the tests or, in a process of a [`Probe`], `probe`.
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

/// Creates memory for one import.
pub fn file() -> OwnedFd {
    request::anonymous_memory(SIZE)
}

/// Prints an operation with `ok`, or with the kind and the text of its error.
pub fn say<T>(what: &str, result: Result<T>) -> Option<T> {
    match &result {
        Ok(_) => println!("{what}|ok"),
        Err(error) => println!("{what}|{:?}|{error}", error.kind()),
    }
    result.ok()
}

/// Request for the whole memory of a [`file()`].
pub fn memory_request(handle: MemoryHandle) -> MemoryImport {
    request::memory_request(handle, SIZE)
}

/// Prints the facts and operations common to all drivers, and returns the device.
pub fn probe<B: Backend>(backend: Result<B>) -> Option<Device> {
    let backend = say("load", backend)?;
    println!("simulated|{}", backend.info().simulated);
    println!("driver|{}", backend.info().driver);
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
    // SAFETY: simulators import every file as a semaphore.
    let semaphore = unsafe { SemaphoreImport::new(SemaphoreHandle::OpaqueFd(file())) };
    let semaphore = device.import_semaphore(semaphore);
    say("import semaphore", semaphore.map_err(|failure| failure.into_parts().0));
    say("allocate", device.allocate_exportable(SIZE));
    say("stream", device.create_stream());
    Some(device)
}

/// Process of this program that loads one library as its driver.
#[derive(Debug)]
pub struct Probe {
    command: Command,
    variable: &'static str,
    library: PathBuf,
    /// Copy that must live until the process has ended.
    copy: Option<PartialLibrary>,
}

impl Probe {
    /// Creates a probe with a library, which the environment variable `variable` names.
    ///
    /// # Panics
    /// If the path of this program is unavailable.
    pub fn new(variable: &'static str, library: impl AsRef<Path>) -> Self {
        let mut command = this_program().expect("this program");
        command.arg(PROBE).env(variable, library.as_ref());
        Self { command, variable, library: library.as_ref().to_owned(), copy: None }
    }

    /// Creates a probe with a simulator of this workspace.
    ///
    /// # Panics
    /// If the simulator cannot be built.
    pub fn simulator(variable: &'static str, package: &str) -> Self {
        Self::new(variable, build(package).expect("a simulator"))
    }

    /// Hides functions of the library.
    ///
    /// # Panics
    /// If the library lacks a function of that name.
    pub fn without<'a>(mut self, functions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut copy = PartialLibrary::of(&self.library).expect("a copy");
        functions.into_iter().try_for_each(|function| copy.hide(function)).expect("functions of the library");
        self.command.env(self.variable, copy.path());
        Self { copy: Some(copy), ..self }
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets faults of the simulator in the syntax of `GPU_INTEROP_SIM_FAIL`.
    pub fn fail(self, faults: &str) -> Self {
        self.env("GPU_INTEROP_SIM_FAIL", faults)
    }

    /// Runs the process and returns its output.
    ///
    /// # Panics
    /// If the process fails.
    pub fn run(mut self) -> String {
        let output = self.command.output().expect("this program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
        text
    }
}

/// Fails unless exactly one line starts with `start`, and it contains each of `parts`.
pub fn assert_line(text: &str, start: &str, parts: &[&str]) {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(start)).collect();
    let [line] = lines[..] else { panic!("no single line `{start}`: {text}") };
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
}
