//! Tests with AMD's installed runtime, mostly on machines without an AMD GPU. Ignored, with the reason, if it is not
//! installed.
#![allow(clippy::panic, reason = "these are tests")]

use std::path::Path;

use gpu_interop_core::{Backend, Error, ErrorKind};
use gpu_interop_hip::HipBackend;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

fn main() {
    let trials = vec![
        Trial::ignorable_test("without_a_gpu_no_device_is_reported", without_a_gpu_no_device_is_reported),
        Trial::ignorable_test("with_a_gpu_devices_have_pci_addresses", with_a_gpu_devices_have_pci_addresses),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Returns whether the kernel's compute driver is present.
fn has_gpu() -> bool {
    Path::new("/dev/kfd").exists()
}

/// Loads the backend. The outer error means that no runtime is installed.
fn load() -> Result<Result<HipBackend, Error>, Completion> {
    match HipBackend::load() {
        Err(error) if error.kind() == ErrorKind::DriverNotFound => {
            Err(Completion::ignored_with("AMD's HIP runtime is not installed (Debian's package: libamdhip64-5)"))
        }
        loaded => Ok(loaded),
    }
}

fn without_a_gpu_no_device_is_reported() -> Result<Completion, Failed> {
    if has_gpu() {
        return Ok(Completion::ignored_with("this machine may have an AMD GPU: it has /dev/kfd"));
    }
    let error = match load() {
        Err(ignored) => return Ok(ignored),
        Ok(Ok(backend)) => panic!("loaded: {:?}", backend.info()),
        Ok(Err(error)) => error,
    };
    assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
    let code = error.code().map(|code| code.value);
    assert!(matches!(code, Some(100 | 101)), "{error}");
    let text = error.to_string();
    for part in ["hipInit", "driver: HIP ", "libamdhip64.so", "HIP_VISIBLE_DEVICES"] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    // A second load in the same process must fail in the same way.
    let again = HipBackend::load().err().map(|error| error.kind());
    assert_eq!(again, Some(ErrorKind::NoDevice));
    Ok(Completion::Completed)
}

fn with_a_gpu_devices_have_pci_addresses() -> Result<Completion, Failed> {
    if !has_gpu() {
        return Ok(Completion::ignored_with("this machine has no AMD GPU: it has no /dev/kfd"));
    }
    let backend = match load() {
        Err(ignored) => return Ok(ignored),
        Ok(loaded) => loaded?,
    };
    let devices = backend.devices()?;
    assert!(!devices.is_empty(), "a runtime that initialised has a device");
    for (ordinal, device) in devices.iter().enumerate() {
        assert!(device.pci.is_some(), "{device}");
        let device = backend.open(ordinal)?;
        assert!(device.architecture().is_some_and(|name| name.starts_with("gfx")), "{:?}", device.architecture());
    }
    Ok(Completion::Completed)
}
