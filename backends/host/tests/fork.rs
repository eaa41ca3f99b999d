//! Use of objects in a forked child process.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop_core::{Device, ErrorKind, Timeline, TimelineStrategy};
use gpu_interop_host::{HostBackend, HostSemaphore};

const LONG: Duration = Duration::from_secs(10);
/// Exit status of the child if all calls return errors.
const DONE: i32 = 7;

#[test]
fn a_forked_process_gets_errors_and_does_not_hang() {
    let device = Device::open(&HostBackend::new(), 0).expect("a device");
    let exporter = Arc::new(HostSemaphore::timeline(0).expect("a timeline"));
    let timeline = Timeline::with_strategy(&device, exporter.clone(), TimelineStrategy::HostBridge).expect("a bridge");
    let memory = device.allocate_exportable(4096).expect("memory");
    let mapped = device.import_memory(memory.import_request().expect("exports")).expect("imports");
    let mapped = mapped.map_buffer(..).expect("maps");
    let stream = device.create_stream().expect("a stream");
    // Starts the threads of a bridge and of a stream.
    stream.wait_timeline(&timeline, 1).expect("waits");
    stream.fill(&mapped, 1).expect("fills");
    // SAFETY: the child only makes the calls under test, and exits without unwinding or running other tests.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |result: gpu_interop_core::Result<()>| {
            result.is_err_and(|error| error.kind() == ErrorKind::System && error.message().contains("forked"))
        };
        let errors = [
            stream.synchronize(),
            stream.synchronize_timeout(LONG),
            stream.fill(&mapped, 3),
            stream.signal_timeline(&timeline, 2),
            timeline.value().map(drop),
            timeline.is_reached(1).map(drop),
            timeline.wait(1, LONG),
        ];
        let errors = errors.into_iter().all(refused);
        drop((stream, mapped, memory, timeline, device));
        // SAFETY: `_exit` has no preconditions.
        unsafe { libc::_exit(if errors { DONE } else { 1 }) };
    }
    let (start, mut status) = (Instant::now(), 0);
    // SAFETY: the pointer is valid for the call.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > LONG {
            // SAFETY: `child` is this test's child, not reaped yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the forked process hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == DONE, "it ended with {status:#x}");
    // The parent process continues.
    exporter.signal_value(1).expect("signals");
    stream.synchronize_timeout(LONG).expect("runs");
    let mut found = vec![0; 4096];
    stream.read(&mapped, &mut found).expect("reads");
    assert_eq!(found, [1; 4096]);
}
