//! The devices of the tests.

use gpu_interop::vulkan::{HeadlessContext, HeadlessOptions};
use gpu_interop::{Device, ErrorKind};

/// Vulkan, with validation if asked for and installed, and the compute device of the same GPU. `None`, with a printed
/// reason, without Vulkan.
pub(crate) fn open(validation: bool) -> Option<(HeadlessContext, Device)> {
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

/// Number of open descriptors of this process.
#[allow(dead_code, reason = "a test uses a part of this module")]
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
