//! Test programs that start themselves again: as the suite, or as a process that loads a driver.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// Variables by which schedulers and users select devices, libraries, a backend or a strategy for a whole machine.
/// Simulators follow them like drivers.
const MACHINE_VARIABLES: [&str; 10] = [
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "GPU_INTEROP_BACKEND",
    "GPU_INTEROP_D3D_LIBRARY",
    "GPU_INTEROP_NVSCIBUF_LIBRARY",
    "GPU_INTEROP_NVSCISYNC_LIBRARY",
    "GPU_INTEROP_TIMELINE",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// Returns a command that starts this program without the machine's selections.
///
/// # Errors
/// If the path of this program is unavailable.
pub fn this_program() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let simulator_variables = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(b"GPU_INTEROP_SIM_"));
    for name in MACHINE_VARIABLES.into_iter().map(Into::into).chain(simulator_variables) {
        command.env_remove(name);
    }
    Ok(command)
}

/// Runs the test of this name in a separate process, because other tests open and close descriptors, load drivers or
/// make calls. Returns `true` in the separate process, which runs the test; `false` in this process, after it has
/// ended.
///
/// # Panics
/// If the test fails there, or does not exist.
pub fn in_own_process(name: &str) -> bool {
    const ALONE: &str = "GPU_INTEROP_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    let output = program.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().expect("started");
    let [text, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}{errors}", output.status);
    println!("{text}");
    false
}

/// Runs the tests of a program without Rust's test harness, as its arguments say. `threads` is the number of parallel
/// tests, unless the arguments name one.
pub fn run_tests(tests: Vec<Trial>, threads: Option<usize>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(threads);
    libtest_mimic::run(&arguments, tests).exit_code()
}
