//! A mock driver that records its calls, and expectations for the functions of both vendors.

pub mod calls;

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;

use gpu_interop_core::Result;
use libtest_mimic::{Arguments, Trial};

use crate::built::{CompiledLibrary, source};

const LOG: &str = "RECORDER_LOG";
const CONTROL: &str = "RECORDER_CONTROL";

// Handles of the mock: a different number for each type.
pub const STREAM: usize = 0x511;
pub const EVENT: usize = 0xe11;
pub const MEMORY: usize = 0x3e1;
pub const MIPMAPPED: usize = 0xa11;
pub const LEVEL: usize = 0xa12;
pub const SURFACE: usize = 0x5f1;
pub const TEXTURE: usize = 0x7e1;
pub const SEMAPHORE: usize = 0x5e1;
pub const MODULE: usize = 0x301;
pub const KERNEL: usize = 0x302;
pub const EXEC: usize = 0x902;
pub const NODE: usize = 0x903;
pub const MAPPED: u64 = 0x7000_0000;
pub const RESERVED: u64 = 0x5000_0000;
pub const PINNED: u64 = 0x6000_0000;
/// Allocation granularity of the mock in bytes.
pub const GRANULARITY: u64 = 65536;
/// Number of the opened device. Its ordinal is 1.
pub const DEVICE: i32 = 101;
pub const ORDINAL: usize = 1;

/// Compiles the mock with the given switches and runs this program with `argument` on it. Panics if the process fails.
fn run(variable: &str, switches: &[&str], argument: &str) {
    let library = CompiledLibrary::compile(&source("recorder.c"), switches);
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .arg(argument)
        .env(variable, library.library())
        .env(LOG, folder.path().join("log"))
        .env(CONTROL, folder.path().join("control"))
        .output()
        .expect("this program starts");
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
}

/// A test: its name, the switches of the mock, and the function that runs in a process with that mock.
pub type RecordedTest = (&'static str, &'static [&'static str], fn());

/// The tests' `main`: runs each of them in a process of its own.
pub fn main(variable: &'static str, tests: &'static [RecordedTest]) {
    let first = std::env::args().nth(1).unwrap_or_default();
    if let Some((_, _, calls)) = tests.iter().find(|(name, ..)| first.strip_prefix("calls:") == Some(name)) {
        return calls();
    }
    let trial = |(name, switches, _): &'static RecordedTest| {
        Trial::test(*name, move || {
            run(variable, switches, &format!("calls:{name}"));
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit();
}

/// Vendor whose names the record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Cuda,
    Hip,
}

/// Expected call: each vendor's symbol, and the arguments.
#[derive(Debug, Clone)]
pub struct Expected {
    pub cuda: &'static str,
    pub hip: &'static str,
    pub arguments: String,
}

/// `call!("cuX", "hipX", "arguments {}", ...)`.
#[macro_export]
macro_rules! call {
    ($cuda:literal, $hip:literal, $($arguments:tt)+) => {
        $crate::recorded::Expected { cuda: $cuda, hip: $hip, arguments: format!($($arguments)+) }
    };
}

/// Record of this process's calls.
#[derive(Debug)]
pub struct Recorder {
    pub names: Names,
    log: PathBuf,
    control: PathBuf,
    /// Number of lines already read.
    read: usize,
}

impl Recorder {
    pub fn new(names: Names) -> Self {
        let file = |variable| PathBuf::from(std::env::var_os(variable).expect("a process that `run` started"));
        Self { names, log: file(LOG), control: file(CONTROL), read: 0 }
    }

    /// Sets the mock's results until the next call of this method: `fail SYMBOL CODE`, `attribute NUMBER VALUE`.
    pub fn control(&self, lines: &str) {
        std::fs::write(&self.control, lines).expect("a file");
    }

    /// Returns the calls since the last `take`.
    pub fn take(&mut self) -> Vec<String> {
        let text = read(&self.log);
        let lines: Vec<String> = text.lines().skip(self.read).map(str::to_owned).collect();
        self.read += lines.len();
        lines
    }

    /// Returns the symbols of all calls so far.
    fn symbols(&self) -> std::collections::BTreeSet<String> {
        read(&self.log).lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }

    /// Fails if a function of the tables in `sys.rs` or of the driver crate was neither called so far nor is listed.
    pub fn every_function(&self, sys: &str, not_recorded: &[&str]) {
        let functions = include_str!("../../../../../crates/gpu-interop-driver/src/functions.rs");
        let (called, known) = (self.symbols(), symbols_of(&[sys, functions], self.pick("cu", "hip")));
        assert!(known.len() > 60, "{known:?}");
        // CUDA's tables have unversioned names of versioned functions.
        let versioned = |name: &str| self.names == Names::Cuda && called.contains(&format!("{name}_v2"));
        let missing: Vec<_> = known
            .iter()
            .filter(|name| !called.contains(*name) && !versioned(name) && !not_recorded.contains(&name.as_str()))
            .collect();
        assert!(missing.is_empty(), "no expectation has {missing:?}");
    }

    /// Fails unless the calls since the last `take` contain each of these lines once.
    #[track_caller]
    pub fn once(&mut self, lines: &[String]) {
        let found = self.take();
        for line in lines {
            assert_eq!(found.iter().filter(|found| *found == line).count(), 1, "{line}: {found:#?}");
        }
    }

    /// Selects the value of this record's vendor.
    pub fn pick<T>(&self, cuda: T, hip: T) -> T {
        match self.names {
            Names::Cuda => cuda,
            Names::Hip => hip,
        }
    }

    pub fn line(&self, expected: &Expected) -> String {
        format!("{} {}", self.pick(expected.cuda, expected.hip), expected.arguments)
    }

    /// Fails unless the calls since the last `take` are exactly these.
    #[track_caller]
    pub fn exactly(&mut self, what: &str, expected: &[Expected]) {
        let expected: Vec<String> = expected.iter().map(|call| self.line(call)).collect();
        let found = self.take();
        assert!(found == expected, "{what}\nexpected: {expected:#?}\nfound: {found:#?}");
    }

    /// Counterpart of [`Recorder::exactly`] for functions that only enqueue work: expects calls around them that make
    /// the device current.
    #[track_caller]
    pub fn enqueued(&mut self, what: &str, expected: &[Expected]) {
        let (enter, leave) = self.current();
        self.exactly(what, &[enter, expected.to_vec(), leave].concat());
    }

    /// Counterpart of [`Recorder::enqueued`] for a signal or a wait on a stream that is no default stream, behind
    /// barriers that only enqueue work. NVIDIA's driver needs no current context for it.
    #[track_caller]
    pub fn ordered(&mut self, what: &str, barriers: &[Expected], call: Expected) {
        let ((enter, leave), barriers) = (self.current(), barriers.to_vec());
        match self.names {
            Names::Cuda if barriers.is_empty() => self.exactly(what, &[call]),
            Names::Cuda => self.exactly(what, &[enter, barriers, leave, vec![call]].concat()),
            Names::Hip => self.enqueued(what, &[barriers, vec![call]].concat()),
        }
    }

    /// Counterpart of [`Recorder::enqueued`] for other functions: also expects the capture mode to be relaxed (2) and
    /// restored (0).
    #[track_caller]
    pub fn entered(&mut self, what: &str, expected: &[Expected]) {
        let (enter, leave) = self.current();
        let mode = |mode: u32| {
            vec![call!("cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode", "{mode}")]
        };
        self.exactly(what, &[enter, mode(2), expected.to_vec(), mode(0), leave].concat());
    }

    /// Calls that make the device current on a thread with another current device, and those that restore it.
    fn current(&self) -> (Vec<Expected>, Vec<Expected>) {
        let enter = vec![
            call!("cuCtxGetCurrent", "hipGetDevice", "()"),
            match self.names {
                Names::Cuda => call!("cuCtxPushCurrent_v2", "", "0xc1"),
                Names::Hip => call!("", "hipSetDevice", "{DEVICE}"),
            },
        ];
        let leave = match self.names {
            Names::Cuda => call!("cuCtxPopCurrent_v2", "", "()"),
            Names::Hip => call!("", "hipSetDevice", "0"),
        };
        (enter, vec![leave])
    }

    /// Makes one function return each of [`CODES`], and checks that `call` reports each code by number.
    #[track_caller]
    pub fn every_code<T: std::fmt::Debug>(&mut self, [cuda, hip]: [&str; 2], mut call: impl FnMut() -> Result<T>) {
        let symbol = self.pick(cuda, hip);
        for code in CODES {
            self.control(&format!("fail {symbol} {code}\n"));
            let error = call().expect_err(&format!("{symbol} returned {code}, which counted as success"));
            let found = error.code().map(|code| code.value);
            assert_eq!(found, Some(code.into()), "{symbol} returned {code}: {error}");
            assert!(symbol.starts_with(error.operation()), "{symbol} returned {code}: {error}");
        }
        self.control("");
    }
}

/// Status codes to test: those with a specific meaning, and others up to the maximum.
pub const CODES: [u32; 14] = [1, 2, 3, 4, 34, 100, 101, 201, 400, 700, 719, 801, 999, u32::MAX];

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Returns the symbols in the function tables of these sources.
fn symbols_of(sources: &[&str], prefix: &str) -> std::collections::BTreeSet<String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let symbols = sources.iter().flat_map(|source| {
        // In a table a symbol follows `= `, `, ` or `c"`; in comments and documentation it is in backticks.
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let table = code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        let words: Vec<String> = table.split(|c| !is_name(c)).map(str::to_owned).collect();
        words
    });
    let named = |word: &String| {
        word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    symbols.filter(named).collect()
}

pub const SIZE: u64 = 4096;

pub fn pointer(address: usize) -> NonNull<c_void> {
    NonNull::new(std::ptr::without_provenance_mut(address)).expect("not null")
}
