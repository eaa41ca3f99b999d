//! A backend on `conformance/tests/support/c/recorder.c`, a mock driver that records every call with all of its arguments. Included
//! by the backends' tests, which have no `main` of the test harness: the process that calls the mock is the test program
//! again, because a driver's file is named by an environment variable.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_interop_core::Result;

use crate::compile::{CompiledLibrary, source};

const LOG: &str = "RECORDER_LOG";
const CONTROL: &str = "RECORDER_CONTROL";

// What the mock gives out; a different number for each type of handle.
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
/// What the mock rounds allocations up to, bytes.
pub const GRANULARITY: u64 = 65536;
/// The number of the device that is opened. Its ordinal is 1.
pub const DEVICE: i32 = 101;
pub const ORDINAL: usize = 1;

/// Compiles the mock with these switches, and runs this program with `argument` as its user. The process must end well.
pub fn run(variable: &str, switches: &[&str], argument: &str) {
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

/// Which vendor's names the record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Cuda,
    Hip,
}

/// A call as the record should have it: each vendor's symbol, and the arguments.
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
        $crate::recorded::recorder::Expected { cuda: $cuda, hip: $hip, arguments: format!($($arguments)+) }
    };
}

/// The record of this process's calls.
#[derive(Debug)]
pub struct Recorder {
    pub names: Names,
    log: PathBuf,
    control: PathBuf,
    /// Lines that were looked at.
    read: usize,
}

impl Recorder {
    pub fn new(names: Names) -> Self {
        let file = |variable| PathBuf::from(std::env::var_os(variable).expect("a process that `run` started"));
        Self { names, log: file(LOG), control: file(CONTROL), read: 0 }
    }

    /// Changes what calls answer, until the next change: `fail SYMBOL CODE`, `attribute NUMBER VALUE`.
    pub fn control(&self, lines: &str) {
        std::fs::write(&self.control, lines).expect("a file");
    }

    /// Every call since the last look.
    pub fn take(&mut self) -> Vec<String> {
        let text = read(&self.log);
        let lines: Vec<String> = text.lines().skip(self.read).map(str::to_owned).collect();
        self.read += lines.len();
        lines
    }

    /// The symbols of every call that was ever made.
    pub fn symbols(&self) -> std::collections::BTreeSet<String> {
        read(&self.log).lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }

    /// The vendor's one of two.
    pub fn pick<T>(&self, cuda: T, hip: T) -> T {
        match self.names {
            Names::Cuda => cuda,
            Names::Hip => hip,
        }
    }

    pub fn line(&self, expected: &Expected) -> String {
        format!("{} {}", self.pick(expected.cuda, expected.hip), expected.arguments)
    }

    /// The calls since the last look must be these alone.
    #[track_caller]
    pub fn exactly(&mut self, what: &str, expected: &[Expected]) {
        let expected: Vec<String> = expected.iter().map(|call| self.line(call)).collect();
        let found = self.take();
        assert!(found == expected, "{what}\nexpected: {expected:#?}\nfound: {found:#?}");
    }

    /// As [`Recorder::exactly`], with the device current around them, and nothing else changed: they only enqueue work.
    #[track_caller]
    pub fn enqueued(&mut self, what: &str, expected: &[Expected]) {
        let (enter, leave) = self.current();
        self.exactly(what, &[enter, expected.to_vec(), leave].concat());
    }

    /// As [`Recorder::enqueued`], with the thread's capture mode relaxed too (2), and restored (0).
    #[track_caller]
    pub fn entered(&mut self, what: &str, expected: &[Expected]) {
        let (enter, leave) = self.current();
        let mode = |mode: u32| {
            vec![call!("cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode", "{mode}")]
        };
        self.exactly(what, &[enter, mode(2), expected.to_vec(), mode(0), leave].concat());
    }

    /// Making the device current on a thread where another is, and undoing it.
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

    /// Lets one function answer each of these codes, and checks that every one of them is reported, by number, by the call
    /// that runs into it.
    #[track_caller]
    pub fn every_code<T: std::fmt::Debug>(&mut self, [cuda, hip]: [&str; 2], mut call: impl FnMut() -> Result<T>) {
        let symbol = self.pick(cuda, hip);
        for code in CODES {
            self.control(&format!("fail {symbol} {code}\n"));
            let error = call().expect_err(&format!("{symbol} answered {code}, which was taken for success"));
            let found = error.code().map(|code| code.value);
            assert_eq!(found, Some(code.into()), "{symbol} answered {code}: {error}");
            assert!(symbol.starts_with(error.operation()), "{symbol} answered {code}: {error}");
        }
        self.control("");
    }
}

/// Codes that functions answer: of every size, and those with a meaning of their own.
pub const CODES: [u32; 14] = [1, 2, 3, 4, 34, 100, 101, 201, 400, 700, 719, 801, 999, u32::MAX];

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Every symbol of these sources' tables of functions.
pub fn symbols_of(sources: &[&str], prefix: &str) -> std::collections::BTreeSet<String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let symbols = sources.iter().flat_map(|source| {
        // In a table a symbol is behind `= `, `, ` or `c"`; in comments and documentation it is in backticks.
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
