//! Machines where cudarc would panic.

use gpu_interop::cudarc::context_for;
use gpu_interop::{DeviceIdentity, DeviceKind, ErrorKind};
use gpu_interop_test_support::{build, this_program};
use libtest_mimic::Failed;

use crate::machine::skip;

/// Argument of a process without a driver, or with one that cudarc does not find.
pub(crate) const CHILD: &str = "without-a-driver";

pub(crate) fn child() {
    // The simulator's device matches every CPU, a GPU's driver matches none.
    let error = context_for(&DeviceIdentity::new("llvmpipe", DeviceKind::Cpu)).expect_err("no driver");
    println!("{:?}: {error}", error.kind());
    {
        let host = gpu_interop::host::HostBackend::new();
        let host = gpu_interop::Device::open(&host, 0).expect("the CPU");
        let error = gpu_interop::cudarc::context_of(&host).expect_err("not CUDA");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        println!("host: {error}");
    }
}

/// Runs the child with a driver file, and returns what it printed.
fn with_library(file: &std::path::Path) -> Result<String, Failed> {
    let output = this_program()?.arg(CHILD).env("GPU_INTEROP_CUDA_LIBRARY", file).output()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if !output.status.success() || text.contains("panicked") {
        return Err(format!("{}: {text}", output.status).into());
    }
    Ok(text)
}

pub(crate) fn nothing_panics_without_a_driver() -> Result<(), Failed> {
    let text = with_library("/nonexistent/libcuda.so.1".as_ref())?;
    let wanted = ["DriverNotFound: ", "no CUDA driver was found", "/nonexistent/libcuda.so.1"];
    if wanted.iter().all(|part| text.contains(part)) { Ok(()) } else { Err(text.into()) }
}

/// This crate loads the simulator by its path. cudarc finds no driver by its names, or a GPU's.
pub(crate) fn another_library_is_rejected() -> Result<(), Failed> {
    let library = match build("gpu-interop-sim-cuda") {
        Ok(library) => library,
        Err(reason) => return skip("another_library_than_cudarcs_is_rejected", reason),
    };
    let text = with_library(&library)?;
    let absent = text.contains(&format!("{:?}: ", ErrorKind::DriverNotFound)) && text.contains("cudarc finds no");
    let other = text.contains(&format!("{:?}: ", ErrorKind::DeviceMismatch)) && text.contains("another");
    if (absent || other) && text.contains("sim_cuda") { Ok(()) } else { Err(text.into()) }
}
