//! The report at the end of a process: `GPU_INTEROP_SIM_AMDGPU_REPORT` names a file, to which each process that has
//! opened a device appends one line of JSON.
//!
//! A process that ends by a signal writes no line. `left` has the objects that the process did not free, `counters` the
//! counted operations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::emulation::{self, Emulation};
use crate::log;

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
    unknown_kernels: BTreeMap<String, u64>,
    unknown_ioctls: BTreeMap<String, u64>,
    kernels: BTreeMap<String, u64>,
    ioctls: BTreeMap<String, u64>,
}

/// A line of the report.
#[derive(Debug, Serialize)]
struct Report {
    process: i32,
    command: String,
    left: Left,
    counters: Totals,
}

fn left(emulation: &Emulation) -> Left {
    let buffers = emulation.memory.buffers();
    let count = |matches: fn(&crate::memory::buffer::Buffer) -> bool| buffers.iter().filter(|it| matches(it)).count();
    let (buffer_objects, mapped_buffer_objects, imported_buffer_objects) =
        (count(|_| true), count(|it| !it.mapped.is_empty()), count(|it| it.imported));
    drop(buffers);
    // Removes closed files and their handles.
    let descriptors = emulation.files.collect();
    Left {
        buffer_objects,
        mapped_buffer_objects,
        imported_buffer_objects,
        mapped_ranges: emulation.memory.mapped(),
        vram: emulation.gpus.iter().map(|gpu| emulation.memory.vram_used(gpu.index)).collect(),
        queues: emulation.queues.len(),
        events: emulation.events.len(),
        gem_handles: emulation.files.handles(),
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
        unknown_kernels: counters.group("unknown_kernels"),
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
        log::failure(format_args!("the report cannot be written to {}: {error}", path.display()));
    }
}
