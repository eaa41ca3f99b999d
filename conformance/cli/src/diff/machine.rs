//! Differences of the machines and options of two runs.

use std::collections::BTreeMap;

use gpu_interop_conformance::ExporterReport;
use serde_json::Value;

use super::report::Setting;
use crate::evidence::Host;
use crate::report::{Emulated, Report};

/// The properties that differ.
pub(super) fn differences(before: &Report, after: &Report) -> Vec<Setting> {
    // A report without the computer is compared in everything else.
    let with_host = before.host.is_some() && after.host.is_some();
    let (old, new) = (settings(before, with_host), settings(after, with_host));
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    let value = |all: &BTreeMap<String, String>, name: &String| all.get(name).cloned().unwrap_or_default();
    names
        .map(|name| Setting { what: name.clone(), before: value(&old, name), after: value(&new, name) })
        .filter(|setting| setting.before != setting.after)
        .collect()
}

/// The properties of a run, by name.
fn settings(report: &Report, with_host: bool) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
    add("backend", report.backend.name.clone());
    add("driver", report.backend.driver.clone());
    add("simulated", report.backend.simulated.to_string());
    add("emulated", report.emulated.as_ref().map(Emulated::to_string).unwrap_or_default());
    add("device", report.device.name.clone());
    add("program", format!("{} {}", report.tool.name, report.tool.version));
    add("seed", report.seed.to_string());
    add("repeat", report.repeat.to_string());
    add("cases", report.cases.as_ref().map(|list| format!("{} {}", list.name, list.sha256)).unwrap_or_default());
    add("stopped", report.stopped.as_ref().map(ToString::to_string).unwrap_or_default());
    if let Some(host) = report.host.as_ref().filter(|_| with_host) {
        of_host(host, &mut add);
    }
    for ExporterReport { name, available, stop } in &report.exporters {
        let state = match (available, stop) {
            (Some(detail), _) => format!("{} ({})", detail.driver, detail.device.name),
            (None, Some(stop)) => format!("not used: {}", stop.reason()),
            (None, None) => "not used".into(),
        };
        add(&format!("exporter {name}"), state);
    }
    if let Ok(capabilities) = serde_json::to_value(&report.capabilities) {
        flatten("capability ", &capabilities, &mut add);
    }
    all
}

/// The software of the computer, and the GPU's firmware and modes.
fn of_host(host: &Host, add: &mut impl FnMut(&str, String)) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let state = |value: Option<bool>| value.map(|on| on.to_string()).unwrap_or_default();
    add("os", host.os.clone());
    add("kernel", text(&host.kernel));
    add("distribution", text(&host.distribution));
    add("processor", text(&host.processor));
    add("container", text(&host.container));
    add("command", text(&host.command_sha256));
    for (kind, all) in [("module", &host.kernel_modules), ("package", &host.packages)] {
        for (name, version) in all {
            add(&format!("{kind} {name}"), version.clone());
        }
    }
    if let Some(gpu) = &host.gpu {
        add("GPU firmware", text(&gpu.firmware));
        add("GSP firmware", text(&gpu.gsp_firmware));
        add("ECC", state(gpu.ecc));
        add("MIG", state(gpu.mig));
        add("compute mode", text(&gpu.compute_mode));
        add("partition", text(&gpu.partition));
    }
}

/// The leaves of a JSON value by their paths. A capability is a leaf.
fn flatten(path: &str, value: &Value, add: &mut impl FnMut(&str, String)) {
    match value {
        Value::Object(fields) if fields.get("support").is_some_and(Value::is_string) => {
            let text = |field| fields.get(field).and_then(Value::as_str).unwrap_or_default();
            let detail = text("detail");
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            add(path, format!("{}{detail}", text("support")));
        }
        Value::Object(fields) => {
            for (name, inner) in fields {
                let separator = if path.ends_with(' ') { "" } else { "." };
                flatten(&format!("{path}{separator}{name}"), inner, add);
            }
        }
        Value::Null => {}
        Value::String(text) => add(path, text.clone()),
        other => add(path, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_whose_kind_or_text_changed_are_named() {
        let report = crate::report::example();
        assert_eq!(differences(&report, &report), []);
        let changed = |field: &str, value: &str| -> Vec<Setting> {
            let mut changed = serde_json::to_value(&report).expect("JSON");
            changed["capabilities"]["memory"]["dma_buf_fd"][field] = value.into();
            differences(&report, &serde_json::from_value(changed).expect("a report"))
        };
        for (field, value, after) in [
            ("support", "driver_too_old", "driver_too_old: the host backend"),
            ("detail", "another reason", "unsupported: another reason"),
        ] {
            let found = changed(field, value);
            let [only] = found.as_slice() else { panic!("{field}: {found:?}") };
            assert_eq!(only.what, "capability memory.dma_buf_fd");
            assert!(
                only.before.starts_with("unsupported: the host backend") && only.after.starts_with(after),
                "{only:?}"
            );
        }
    }
}
