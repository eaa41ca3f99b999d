//! An example of another project's backend, with the suite.
//!
//! Its device is the processor: memory is a mapped memory file, and work is executed at once, so a stream is only a
//! name. It declares only that, and the suite omits the scenarios with further requirements. `cargo run -p third-party --
//! --backend third-party`.

#[cfg(target_os = "linux")]
mod processor;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::sync::Arc;

    use gpu_interop::Backend;
    use gpu_interop_conformance::{BackendUnderTest, Suite};
    use processor::{NAME, Processor};

    let backend = BackendUnderTest::new(NAME, || Ok(Arc::new(Processor::new()) as Arc<dyn Backend>));
    gpu_interop_conformance_cli::main(&Suite::standard().with_backend(backend))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("memory files are Linux's");
}
