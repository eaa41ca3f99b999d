//! The tests, and the process that forks.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use gpu_interop::{BackendChoice, BackendName, Device, Result, select};
use gpu_interop_test_support::probe::{self, Probe, assert_line, file, memory_request, say};
use gpu_interop_test_support::tests;

/// What the parent does before the fork: nothing, lists the devices, or opens one.
const BEFORE: &str = "TEST_BEFORE_FORK";
const BACKENDS: [(&str, &str, &str); 2] = [
    ("cuda", "GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda"),
    ("hip", "GPU_INTEROP_HIP_LIBRARY", "gpu-interop-sim-hip"),
];

pub(crate) fn main() {
    let tests = tests![
        a_child_of_a_process_that_listed_devices_gets_no_cpu,
        a_child_of_a_process_that_opened_a_device_gets_errors,
        a_child_of_a_process_without_a_driver_works,
    ];
    probe::main(forking, tests);
}

fn run(before: &str, check: impl Fn(&str, &str)) {
    for (backend, variable, package) in BACKENDS {
        let other = BACKENDS.iter().find(|(name, ..)| *name != backend).expect("another").1;
        let probe = Probe::simulator(variable, package).env(other, "/nonexistent").env("GPU_INTEROP_BACKEND", "");
        check(backend, &probe.env(BEFORE, before).run());
    }
}

const PARTS: [&str; 3] = ["before this process was forked", "`spawn`", "fork before the first use"];

fn a_child_of_a_process_that_listed_devices_gets_no_cpu() {
    run("list", |backend, text| {
        assert_line(text, "child auto|System|", &PARTS);
        assert_line(text, "child named|System|", &PARTS);
        assert_line(text, "child auto|System|", &[&format!("backend: {backend}")]);
        assert_line(text, "parent afterwards|", &[&format!("ok {backend}")]);
    });
}

fn a_child_of_a_process_that_opened_a_device_gets_errors() {
    run("open", |_, text| {
        let calls = ["auto", "named", "devices", "open", "import", "stream", "allocate", "fill", "synchronise", "idle"];
        for call in calls {
            assert_line(text, &format!("child {call}|System|"), &PARTS);
        }
    });
}

fn a_child_of_a_process_without_a_driver_works() {
    run("nothing", |backend, text| {
        assert_line(text, "child auto|ok", &[]);
        assert_line(text, "child selected|", &[backend]);
    });
}

/// The process: prints one line per call of its child.
fn forking() {
    let before = std::env::var(BEFORE).expect("a test");
    let selected = || select(BackendChoice::Auto).expect("a simulator");
    let opened = match before.as_str() {
        "list" => {
            selected();
            None
        }
        "open" => {
            let backend = selected().backend;
            let device = Device::open(&*backend, 0).expect("a device");
            let stream = device.create_stream().expect("a stream");
            let memory = device.allocate_exportable(4096).expect("memory");
            Some((backend, device, stream, memory))
        }
        _ => None,
    };
    // SAFETY: the child makes the calls under test only, and exits without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        if let Some(selection) = say("child auto", select(BackendChoice::Auto)) {
            println!("child selected|{}", selection.backend.info().name);
        }
        let name = if std::env::var("GPU_INTEROP_CUDA_LIBRARY").is_ok_and(|file| file != "/nonexistent") {
            BackendName::Cuda
        } else {
            BackendName::Hip
        };
        say("child named", select(BackendChoice::Named(name)));
        if let Some((backend, device, stream, memory)) = &opened {
            let bytes = || -> Result<()> { stream.fill(memory.slice(..16)?, 1) };
            say("child devices", backend.devices());
            say("child open", Device::open(&**backend, 0));
            let request = memory_request(gpu_interop::MemoryHandle::OpaqueFd(file()));
            say("child import", device.import_memory(request).map_err(|failure| failure.into_parts().0));
            say("child stream", device.create_stream());
            say("child allocate", device.allocate_exportable(4096));
            say("child fill", bytes());
            say("child synchronise", stream.synchronize());
            say("child idle", stream.is_idle());
        }
        // SAFETY: `_exit` has no preconditions. Standard output is flushed at the end of each line or not at all.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(0)
        };
    }
    let mut status = 0;
    // SAFETY: the pointer is valid for the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
    let again = select(BackendChoice::Auto).map(|selection| selection.backend.info().name.clone());
    println!("parent afterwards|{}", again.map_or_else(|error| error.to_string(), |name| format!("ok {name}")));
}
