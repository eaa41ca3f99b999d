//! The devices of the tests, and drops in host functions.

#[path = "../../../../crates/gpu-interop-vulkan/tests/common/layer.rs"]
mod layer;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{HeadlessContext, HeadlessOptions};
use gpu_interop::{Device, ErrorKind, Stream};

/// Vulkan, with validation if asked for and installed, and the compute device of the same GPU. `None`, with a printed
/// reason, without Vulkan.
pub(crate) fn open(validation: bool) -> Option<(HeadlessContext, Device)> {
    if validation {
        layer::alone_with_the_layer();
    }
    let validated = HeadlessContext::new(&HeadlessOptions::default().validation(validation));
    let opened = match validated {
        Err(error) if error.kind() == ErrorKind::Unsupported => HeadlessContext::new(&HeadlessOptions::default()),
        opened => opened,
    };
    match opened {
        Ok(context) => {
            let device = gpu_interop::device_for(context.identity()).expect("the same device");
            Some((context, device))
        }
        Err(error) if matches!(error.kind(), ErrorKind::DriverNotFound | ErrorKind::NoDevice) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("Vulkan is installed but fails: {error}"),
    }
}

/// Drops objects in a host function, which does not wait for their work.
#[allow(dead_code, reason = "a test uses a part of this module")]
pub(crate) fn drop_in_host_function(stream: &Stream, objects: impl Send + 'static, timeout: Duration) {
    let (report, taken) = channel();
    let function = move || {
        assert!(gpu_interop::in_host_function());
        let start = Instant::now();
        drop(objects);
        report.send(start.elapsed()).expect("a receiver");
    };
    stream.launch_host_function(function).expect("enqueued");
    let taken = taken.recv_timeout(timeout).expect("it was called");
    assert!(taken < Duration::from_millis(900), "the host function waited for {taken:?}");
    assert!(!gpu_interop::in_host_function());
    stream.synchronize_timeout(timeout).expect("the function ends");
}

/// Number of open descriptors of this process.
#[allow(dead_code, reason = "a test uses a part of this module")]
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
