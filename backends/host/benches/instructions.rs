//! Instructions that the safe objects add to a signal, a wait and an import, counted by Valgrind: unlike times they do not
//! depend on the machine's load. Exits with status 1 if a limit is exceeded. Linux on x86-64.
//!
//! The limits are a tenth above what Rust 1.95 compiles to, and 50 more: the stream's thread decides how often its queue is
//! empty, which changes a count by up to 30.
//!
//! A child process under `valgrind --tool=callgrind` counts the instructions of one call, by the safe objects and by the
//! backend directly. The difference is the safe objects' part: checks, the record of use, and the conversion of arguments.
//! An import is mapped, unmapped and destroyed in the same call.

use std::error::Error;
use std::process::{Command, ExitCode};

use gpu_interop_core::backend::{RawSignal, RawWait};
use gpu_interop_core::{
    Device, ExportableMemory, ExternalSemaphore, SemaphoreWait, SignalBatch, SignalParams, Stream, WaitBatch,
    WaitParams,
};
use gpu_interop_host::{HostBackend, HostSemaphore};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Calls of one measurement.
const CALLS: u64 = 200;

/// Size of the imported memory in bytes.
const SIZE: u64 = 4096;

/// Names of the measured calls, the number of semaphores, and the most instructions that the safe objects may add to one.
const LIMITS: [(&str, usize, u64); 13] = [
    ("import", 1, 2_000),
    ("signal", 1, 100),
    ("signal", 8, 600),
    ("signal", 64, 5_000),
    ("wait", 1, 100),
    ("wait", 8, 500),
    ("wait", 64, 3_800),
    ("signal_prepared", 1, 160),
    ("signal_prepared", 8, 400),
    ("signal_prepared", 64, 1_950),
    ("wait_prepared", 1, 130),
    ("wait_prepared", 8, 130),
    ("wait_prepared", 64, 140),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let result = match arguments.as_slice() {
        [call, count] => measure(call, count),
        _ => compare(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts every call in a child process, and compares with the limits.
fn compare() -> Result<bool> {
    let mut holds = true;
    println!("instructions    backend  safe objects  added  limit");
    for (call, count, limit) in LIMITS {
        let direct = counted(&format!("{}_direct", call.trim_end_matches("_prepared")), count)?;
        let safe = counted(call, count)?;
        let added = safe.saturating_sub(direct);
        println!("{:<15} {direct:>7}  {safe:>12}  {added:>5}  {limit:>5}", format!("{call} {count}"));
        holds &= added <= limit;
    }
    Ok(holds)
}

/// Instructions of one call, from Callgrind's output file.
fn counted(call: &str, count: usize) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no", "--toggle-collect=*measured*"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args([call, &count.to_string()]);
    let output = valgrind.output().map_err(|error| format!("valgrind: {error}; install the package valgrind"))?;
    if !output.status.success() {
        return Err(format!("{call}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = std::fs::read_to_string(&file)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).ok_or("Callgrind wrote no total")?;
    let total: u64 = total.trim().parse()?;
    if total == 0 { Err("Callgrind counted nothing".into()) } else { Ok(total / CALLS) }
}

/// The function in which Callgrind counts.
#[inline(never)]
fn measured(call: &mut dyn FnMut() -> gpu_interop_core::Result<()>) -> gpu_interop_core::Result<()> {
    call()
}

/// Makes the calls, in the child process.
fn measure(call: &str, count: &str) -> Result<bool> {
    let count: usize = count.parse()?;
    let device = Device::open(&HostBackend::new(), 0)?;
    let stream = device.create_stream()?;
    let exported: Vec<HostSemaphore> =
        (0..count).map(|_| HostSemaphore::timeline(0)).collect::<gpu_interop_core::Result<_>>()?;
    let mut imported: Vec<ExternalSemaphore> = Vec::new();
    for semaphore in &exported {
        imported.push(device.import_semaphore(semaphore.import_request()?)?);
    }
    let memory = device.allocate_exportable(SIZE)?;
    // As an application, prepared once.
    let mut prepared = (SignalBatch::new(imported.iter())?, WaitBatch::new(imported.iter())?);
    for value in 1..=CALLS {
        match call {
            "signal_prepared" => {
                let batch = &mut prepared.0;
                measured(&mut || {
                    (0..count).try_for_each(|index| batch.set(index, value))?;
                    stream.signal_prepared(batch)
                })?;
            }
            "wait_prepared" => measured(&mut || stream.wait_prepared(&prepared.1))?,
            "import" | "import_direct" => import(call, &device, &memory)?,
            _ => once(call, value, &device, &stream, &imported)?,
        }
        // Outside of the measured function.
        stream.synchronize()?;
        for semaphore in &exported {
            if call.starts_with("signal") && semaphore.value() != value {
                return Err(format!("a signal of {value} did not arrive").into());
            }
        }
    }
    Ok(true)
}

/// An import, mapped, unmapped and destroyed.
fn import(call: &str, device: &Device, memory: &ExportableMemory) -> Result<()> {
    let request = &mut Some(memory.import_request()?);
    if call == "import" {
        measured(&mut || {
            let Some(request) = request.take() else { return Ok(()) };
            let imported = device.import_memory(request)?;
            imported.map_buffer(..)?.close()?;
            imported.close()
        })?;
    } else {
        let raw = device.as_raw();
        measured(&mut || {
            let Some(request) = request.take() else { return Ok(()) };
            // SAFETY: the request is valid for this device. The buffer is the import's own, and both are freed once.
            unsafe {
                let imported = raw.import_memory(&request)?;
                let buffer = raw.map_buffer(imported, 0, SIZE)?;
                raw.free_buffer(imported, buffer)?;
                raw.destroy_memory(imported)
            }
        })?;
    }
    Ok(())
}

fn once(call: &str, value: u64, device: &Device, stream: &Stream, imported: &[ExternalSemaphore]) -> Result<()> {
    let raw = (device.as_raw(), stream.as_raw());
    match call {
        "signal" => {
            let signals: Vec<_> = imported.iter().map(|semaphore| semaphore.signal_value(value)).collect();
            measured(&mut || stream.signal(&signals))?;
        }
        "signal_direct" => {
            let signal = |semaphore: &ExternalSemaphore| RawSignal {
                semaphore: semaphore.as_raw(),
                params: SignalParams::Value(value),
            };
            let signals: Vec<_> = imported.iter().map(signal).collect();
            // SAFETY: semaphores and stream are live and of this device.
            measured(&mut || unsafe { raw.0.signal_semaphores(raw.1, &signals) })?;
        }
        "wait" => {
            let waits: Vec<SemaphoreWait<'_>> = imported.iter().map(|semaphore| semaphore.wait_value(0)).collect();
            measured(&mut || stream.wait(&waits))?;
        }
        "wait_direct" => {
            let wait =
                |semaphore: &ExternalSemaphore| RawWait { semaphore: semaphore.as_raw(), params: WaitParams::Value(0) };
            let waits: Vec<_> = imported.iter().map(wait).collect();
            // SAFETY: as above.
            measured(&mut || unsafe { raw.0.wait_semaphores(raw.1, &waits) })?;
        }
        other => return Err(format!("unknown call {other}").into()),
    }
    Ok(())
}
