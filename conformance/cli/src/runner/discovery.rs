//! Discovery of a machine by another process.

use std::time::Duration;

use gpu_interop_conformance::{ExporterName, Verdict, process};

use crate::report::Environment;

/// Time limit of discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// Discovers backend, devices and exporters in a child process: loading a driver may crash.
pub(crate) fn discover(backend: &str, device: usize, exporters: &[ExporterName]) -> Verdict<Environment> {
    let mut arguments: Vec<String> =
        ["discover", "--backend", backend, "--device", &device.to_string()].map(Into::into).into();
    for exporter in exporters {
        arguments.extend(["--exporter".into(), exporter.name().into()]);
    }
    process::ask(&format!("looking at backend {backend}"), &arguments, &[], DISCOVERY_LIMIT)
}
