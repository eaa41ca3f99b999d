//! The `conformance` command: the suite with the backends of this project.

use std::process::ExitCode;

use gpu_interop_conformance::Suite;

fn main() -> ExitCode {
    gpu_interop_conformance_cli::main(&Suite::standard())
}
