//! Reports of a process: messages on stderr, counters, its emulated driver's name, and a report at its end.
//!
//! Messages are each written with one system call. Failures are always written, other messages by level
//! (`GPU_INTEROP_SIM_AMDGPU_LOG`): 1 objects, 2 packets and arguments, 3 everything.
//!
//! `GPU_INTEROP_SIM_AMDGPU_REPORT` names the file of the report, to which each process that has opened a device appends
//! one line of JSON. A process that ends by a signal writes no line. `left` has the objects that the process did not
//! free, `counters` the counted operations.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::fmt::{Arguments, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::emulation;
use crate::emulation::Emulation;
use crate::lock;

/// Objects left at exit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Left {
    buffer_objects: usize,
    mapped_buffer_objects: usize,
    imported_buffer_objects: usize,
    /// Mapped GPU address ranges, of all GPUs.
    mapped_ranges: usize,
    /// Bytes, by GPU.
    vram: Vec<u64>,
    gem_handles: usize,
    contexts: usize,
    syncobjs: usize,
    queues: usize,
    events: usize,
    /// Descriptors of the devices.
    descriptors: usize,
}

#[derive(Debug, Serialize)]
struct Totals {
    page_faults: u64,
    queue_errors: u64,
    resets: u64,
    /// Kernels whose fills and copies were compared, by name.
    checked_kernels: BTreeMap<String, u64>,
    unknown_ioctls: BTreeMap<String, u64>,
    kernels: BTreeMap<String, u64>,
    ioctls: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Report {
    process: i32,
    command: String,
    left: Left,
    counters: Totals,
}

fn left(emulation: &Emulation) -> Left {
    let buffers = emulation.memory.buffers();
    let count = |matches: fn(&crate::memory::Buffer) -> bool| buffers.iter().filter(|it| matches(it)).count();
    let (buffer_objects, mapped_buffer_objects, imported_buffer_objects) =
        (count(|_| true), count(|it| !it.mapped.is_empty()), count(|it| it.imported));
    drop(buffers);
    // Removes closed files and their handles.
    let descriptors = emulation.files.collect();
    let held = emulation.files.held();
    Left {
        buffer_objects,
        mapped_buffer_objects,
        imported_buffer_objects,
        mapped_ranges: emulation.memory.mapped(),
        vram: emulation.gpus.iter().map(|gpu| emulation.memory.vram_used(gpu.index)).collect(),
        queues: emulation.queues.len(),
        events: emulation.events.len(),
        gem_handles: held.objects,
        contexts: held.contexts,
        syncobjs: held.syncobjs,
        descriptors,
    }
}

/// Appends this process's line, once.
pub(crate) fn at_exit() {
    static WRITTEN: AtomicI32 = AtomicI32::new(0);
    let Some(emulation) = emulation::current() else { return };
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let Some(path) = &emulation.settings.report else { return };
    if WRITTEN.swap(process, Ordering::Relaxed) == process {
        return;
    }
    let counters = &emulation.counters;
    let totals = Totals {
        page_faults: counters.total("page_faults"),
        queue_errors: counters.total("queue_errors"),
        resets: counters.total("resets"),
        checked_kernels: counters.group("checked_kernels"),
        unknown_ioctls: counters.group("unknown_ioctls"),
        kernels: counters.group("kernels"),
        ioctls: counters.group("ioctls"),
    };
    let arguments = rustix::fs::open("/proc/self/cmdline", OFlags::RDONLY, Mode::empty()).ok().and_then(|file| {
        let mut bytes = [0; 512];
        let length = rustix::io::read(&file, &mut bytes).ok()?;
        Some(String::from_utf8_lossy(bytes.get(..length)?).trim_end_matches('\0').replace('\0', " "))
    });
    let report = Report { process, command: arguments.unwrap_or_default(), left: left(emulation), counters: totals };
    // A single write, so that lines of processes that end at the same time do not mix.
    let written = serde_json::to_string(&report).map_err(|_| rustix::io::Errno::IO).and_then(|line| {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        rustix::io::write(&file, (line + "\n").as_bytes())
    });
    if let Err(error) = written {
        failure(format_args!("the report cannot be written to {}: {error}", path.display()));
    }
}

/// Counts by name.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<&'static str, BTreeMap<String, u64>>>);

impl Counters {
    /// Adds one to a name's count within a group.
    pub(crate) fn add(&self, group: &'static str, name: &str) {
        let mut groups = lock(&self.0);
        let names = groups.entry(group).or_default();
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = names.insert(name.to_owned(), 1),
        }
    }

    pub(crate) fn group(&self, group: &str) -> BTreeMap<String, u64> {
        let groups = lock(&self.0);
        groups.get(group).cloned().unwrap_or_default()
    }

    /// The sum of a group's counts.
    pub(crate) fn total(&self, group: &str) -> u64 {
        self.group(group).values().sum()
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Sets the maximum level that [`say`] writes.
pub(crate) fn set_level(level: u8) {
    LEVEL.store(level, Ordering::Relaxed);
}

pub(crate) fn enabled(level: u8) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// Writes a message at any level.
pub(crate) fn failure(message: Arguments<'_>) {
    let mut line = String::with_capacity(160);
    let thread = rustix::thread::gettid().as_raw_nonzero();
    if writeln!(line, "[emulated-amdgpu {thread}] {message}").is_ok() {
        // SAFETY: descriptor 2 is only written to; if it is closed, the write fails without effect.
        let stderr = unsafe { rustix::fd::BorrowedFd::borrow_raw(2) };
        let _ = rustix::io::write(stderr, line.as_bytes());
    }
}

/// Writes a message at a level.
macro_rules! say {
    ($level:expr, $($argument:tt)*) => {
        if $crate::report::enabled($level) {
            $crate::report::failure(format_args!($($argument)*));
        }
    };
}
pub(crate) use say;

/// The name of this driver in reports.
const NAME: &CStr = c"gpu-interop-emulated-amdgpu";

/// The name of the emulated driver, a static string.
#[unsafe(no_mangle)]
pub extern "C" fn gpu_interop_emulated_driver() -> *const c_char {
    NAME.as_ptr()
}
