//! What happens inside a scenario's process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gpu_interop::LoadAttempt;

use crate::backend_under_test::BackendUnderTest;
use crate::context::Context;
use crate::exporter::{self, ExporterName};
use crate::outcome::{Stop, Verdict};
use crate::report::{Environment, ExporterDetail, ExporterReport};
use crate::scenario::Scenario;

/// Opens device and exporter. Without success it is up to the scenarios to say why.
pub(crate) fn open(under_test: &Arc<BackendUnderTest>, exporter: Option<ExporterName>, seed: u32) -> Option<Context> {
    catch_unwind(AssertUnwindSafe(|| Context::open(under_test.clone(), exporter, seed).ok())).ok().flatten()
}

/// Runs one scenario here. A panic is a failure.
pub(crate) fn run(
    under_test: &Arc<BackendUnderTest>,
    scenario: &Scenario,
    exporter: Option<ExporterName>,
    seed: u32,
) -> Verdict {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let context = Context::open(under_test.clone(), exporter, seed)?;
        checked(context, scenario.run)
    }));
    ran.unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "without a message".into());
        Err(Stop::Failed(format!("panicked: {message}")))
    })
}

/// Runs `action`, lets the context go, and fails if the exporter's own checks complained: also of what was left behind.
pub(crate) fn checked(context: Context, action: impl FnOnce(&Context) -> Verdict) -> Verdict {
    let complaints = context.complaints();
    let verdict = action(&context);
    drop(context);
    verdict?;
    match complaints().as_slice() {
        [] => Ok(()),
        complaints => Err(Stop::Failed(format!("the exporter's own checks complained: {}", complaints.join(" | ")))),
    }
}

/// Looks at a backend, its device and the exporters.
pub(crate) fn discover(
    under_test: &BackendUnderTest,
    exporters: &[ExporterName],
    passed_over: Vec<LoadAttempt>,
) -> Verdict<Environment> {
    let backend = under_test.load()?;
    let devices = backend.devices()?;
    let device = gpu_interop::Device::open(&*backend, 0)?;
    let exporters = exporters
        .iter()
        .map(|name| match exporter::open(*name, under_test, &device) {
            Ok(opened) => ExporterReport {
                name: *name,
                available: Some(ExporterDetail { device: opened.identity().clone(), driver: opened.describe() }),
                stop: None,
            },
            Err(stop) => ExporterReport { name: *name, available: None, stop: Some(stop) },
        })
        .collect();
    Ok(Environment {
        backend: backend.info().clone(),
        device: device.identity().clone(),
        devices,
        capabilities: device.capabilities().clone(),
        exporters,
        passed_over,
    })
}
