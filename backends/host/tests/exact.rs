//! Exact behaviour of the host backend: byte ranges, exported handles, and the end of waits.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use gpu_interop_core::{Device, ErrorKind, MappedBuffer, WaitCondition};
use gpu_interop_host::{HostBackend, HostSemaphore};

const LONG: Duration = Duration::from_secs(20);
const SIZE: u64 = 16384;

fn device() -> Device {
    Device::open(&HostBackend::new(), 0).expect("the CPU")
}

/// Path of the calling thread in `/proc` while it lives; empty on systems without one.
fn thread() -> PathBuf {
    #[cfg(target_os = "linux")]
    let path = format!("/proc/self/task/{}", rustix::thread::gettid().as_raw_nonzero()).into();
    #[cfg(not(target_os = "linux"))]
    let path = PathBuf::new();
    path
}

/// Maps an exportable allocation twice: as a whole and from `offset`.
fn mapped(device: &Device, offset: u64) -> (MappedBuffer, MappedBuffer) {
    let exported = device.allocate_exportable(SIZE).expect("memory");
    let request = || exported.import_request().expect("exports");
    let whole = device.import_memory(request()).expect("imports").map_buffer(0..SIZE).expect("maps");
    let part = device.import_memory(request()).expect("imports").map_buffer(offset..SIZE).expect("maps");
    (whole, part)
}

/// Each kind of operation writes its range and no byte around it, for all starts and ends within a page.
#[test]
fn operations_write_their_range_only() {
    let device = device();
    let stream = device.create_stream().expect("a stream");
    for offset in [0, 4, 4092, 4096, 8196] {
        let (whole, part) = mapped(&device, offset);
        let length = SIZE - offset;
        for (start, end) in [(0, 4), (4, 4096), (4096, length - 4), (0, length), (length - 4, length)] {
            let range = || part.slice(start..end).expect("a range");
            let check = |what: &str, expected: &dyn Fn(u64) -> u8| {
                let mut found = vec![0; usize::try_from(SIZE).expect("small")];
                stream.read(&whole, &mut found).expect("reads");
                for (at, byte) in (0..).zip(found) {
                    let inside = at >= offset + start && at < offset + end;
                    let wanted = if inside { expected(at - offset - start) } else { 0x11 };
                    assert_eq!(byte, wanted, "{what} of {start}..{end} from {offset} on: byte {at}");
                }
            };
            let clean = || stream.fill(&whole, 0x11).expect("fills");
            clean();
            stream.fill(range(), 0x22).expect("fills");
            check("a fill", &|_| 0x22);
            clean();
            stream.fill_u32(range(), 0x0403_0201).expect("fills");
            check("a fill of words", &|at| u32::to_ne_bytes(0x0403_0201)[usize::try_from(at % 4).expect("small")]);
            clean();
            let data: Vec<u8> = (start..end).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
            stream.write(range(), &data).expect("writes");
            check("a write", &|at| (start + at).to_le_bytes()[0] ^ 0x5a);
            let mut found = vec![0; data.len()];
            stream.read(range(), &mut found).expect("reads");
            assert!(found == data, "a read of {start}..{end} from {offset} on");
        }
    }
}

/// Child processes inherit no file descriptor, and an importer cannot shrink the memory.
#[test]
#[cfg(target_os = "linux")]
fn handles_are_not_inherited_and_memory_does_not_shrink() {
    use rustix::fs::{SealFlags, fcntl_get_seals, ftruncate};
    use rustix::io::{FdFlags, fcntl_getfd};

    let device = device();
    let exported = device.allocate_exportable(SIZE).expect("memory");
    let memory = exported.export().expect("exports");
    let semaphores = [HostSemaphore::binary().expect("creates"), HostSemaphore::timeline(0).expect("creates")];
    let handles = semaphores.each_ref().map(|semaphore| semaphore.export().expect("exports"));
    let fds = handles.iter().map(|handle| handle.as_fd()).chain([memory.as_fd()]);
    for fd in fds.map(|fd| fd.expect("a descriptor")) {
        assert!(fcntl_getfd(fd).expect("open").contains(FdFlags::CLOEXEC), "{fd:?} is inherited");
        assert!(fcntl_get_seals(fd).expect("a memfd").contains(SealFlags::SHRINK | SealFlags::GROW));
        ftruncate(fd, 0).expect_err("it is sealed");
    }
    // The backend's own file descriptors are not inherited either.
    for entry in std::fs::read_dir("/proc/self/fd").expect("a list").flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if !target.to_string_lossy().contains("memfd:gpu-interop") {
            continue;
        }
        let number = entry.file_name().to_string_lossy().into_owned();
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).map(str::trim).unwrap_or("02000000");
        let flags = u32::from_str_radix(flags, 8).expect("octal");
        assert!(flags & 0o2_000_000 != 0, "{} is inherited", target.display());
    }
}

#[test]
fn each_signal_of_a_binary_semaphore_ends_one_wait() {
    let device = device();
    let semaphore = HostSemaphore::binary().expect("creates");
    let imported = device.import_semaphore(semaphore.import_request().expect("exports")).expect("imports");
    let stream = device.create_stream().expect("a stream");
    for _ in 0..3 {
        semaphore.signal().expect("signals");
        stream.wait(&[imported.wait()]).expect("enqueues");
        stream.synchronize_timeout(LONG).expect("one signal, one wait");
        let error = semaphore.wait(Duration::from_millis(20)).expect_err("the signal was consumed");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    semaphore.signal().expect("signals");
    assert_eq!(semaphore.signal().expect_err("signalled already").kind(), ErrorKind::InvalidArgument);
}

#[test]
fn waits_for_a_timeline_end_at_their_value_and_not_before() {
    let semaphore = HostSemaphore::timeline(5).expect("creates");
    for value in [0, 4, 5] {
        semaphore.wait_value(value, Duration::ZERO).expect("reached");
    }
    for value in [6, u64::MAX] {
        let error = semaphore.wait_value(value, Duration::from_millis(10)).expect_err("not reached");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{value}");
    }
}

/// Closing a device ends waits for words and semaphores, and its streams' threads.
#[test]
fn closing_a_device_ends_its_streams() {
    for what in ["a word", "a binary semaphore", "a timeline"] {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let device = device();
            let (buffer, _) = mapped(&device, 0);
            let stream = device.create_stream().expect("a stream");
            let [binary, timeline] =
                [HostSemaphore::binary().expect("creates"), HostSemaphore::timeline(0).expect("creates")];
            let [one, other] = [&binary, &timeline].map(|semaphore| {
                device.import_semaphore(semaphore.import_request().expect("exports")).expect("imports")
            });
            let (running, worker) = mpsc::channel();
            stream.launch_host_function(move || running.send(thread()).expect("it is received")).expect("enqueues");
            match what {
                "a word" => stream
                    .wait_value_u64(buffer.slice(..8).expect("a word"), 7, WaitCondition::Equal)
                    .expect("enqueues"),
                "a binary semaphore" => stream.wait(&[one.wait()]).expect("enqueues"),
                _ => stream.wait(&[other.wait_value(1)]).expect("enqueues"),
            }
            let thread = worker.recv_timeout(LONG).expect("the stream runs");
            drop((stream, one, other, buffer, device));
            sender.send(thread).expect("the test waits");
        });
        let thread =
            receiver.recv_timeout(LONG).unwrap_or_else(|_| panic!("a wait for {what} blocks closing the device"));
        let start = Instant::now();
        while thread.exists() {
            assert!(start.elapsed() < LONG, "a wait for {what} keeps the stream's thread alive");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_synchronisation_returns_after_the_work() {
    let device = device();
    let stream = Arc::new(device.create_stream().expect("a stream"));
    let ran = Arc::new(AtomicU32::new(0));
    for round in 1..=100 {
        let counter = ran.clone();
        stream
            .launch_host_function(move || {
                std::thread::sleep(Duration::from_micros(200));
                counter.fetch_add(1, Ordering::SeqCst);
            })
            .expect("enqueues");
        let (sender, receiver) = mpsc::channel();
        let there = stream.clone();
        std::thread::spawn(move || sender.send(there.synchronize().map(drop)).expect("the test waits"));
        receiver.recv_timeout(LONG).expect("the synchronisation returns").expect("no failure");
        assert_eq!(ran.load(Ordering::SeqCst), round);
    }
}

/// Of several failures only the first is reported, once.
#[test]
fn the_first_failure_is_reported() {
    let device = device();
    let [binary, timeline] = [HostSemaphore::binary().expect("creates"), HostSemaphore::timeline(0).expect("creates")];
    let [one, other] = [&binary, &timeline]
        .map(|semaphore| device.import_semaphore(semaphore.import_request().expect("exports")).expect("imports"));
    let stream = device.create_stream().expect("a stream");
    binary.signal().expect("signals");
    timeline.signal_value(9).expect("signals");
    for first_is_binary in [true, false] {
        let (gate, open) = mpsc::channel::<()>();
        stream.launch_host_function(move || open.recv().expect("it is opened")).expect("enqueues");
        let value = if first_is_binary { 3 } else { 4 };
        let mut signals = [one.signal(), other.signal_value(value)];
        if !first_is_binary {
            signals.reverse();
        }
        for signal in signals {
            stream.signal(&[signal]).expect("enqueues");
        }
        gate.send(()).expect("the stream waits");
        let error = stream.synchronize_timeout(LONG).expect_err("both fail").to_string();
        assert_eq!(error.contains("already signalled"), first_is_binary, "{error}");
        stream.synchronize_timeout(LONG).expect("reported once");
    }
}
