//! The committed schemas are those of this version, and old and new reports are valid.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Tested, committed, conformance, full_report, json, printed, text};

/// Arguments of `conformance schema`, the files with its output, and the versions.
const FORMS: [(&str, &str, u32); 5] = [
    ("run", "report.schema.json", 2),
    ("bench", "bench.schema.json", 1),
    ("merge", "merged.schema.json", 2),
    ("diff", "diff.schema.json", 1),
    ("bench-diff", "bench-diff.schema.json", 1),
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema").join(name)
}

/// The reasons why a report is invalid; empty if it is valid.
fn complaints(schema: &str, report: &Value) -> Tested<Vec<String>> {
    let validator = jsonschema::draft202012::new(&json(&file(schema))?)?;
    Ok(validator.iter_errors(report).map(|error| format!("{}: {error}", error.instance_path())).collect())
}

#[test]
fn the_committed_schemas_are_the_present_ones() -> Tested {
    for (form, name, version) in FORMS {
        let present = printed(&["schema", form])?;
        let renew = format!("conformance schema {form} > conformance/schema/{name}");
        let committed = std::fs::read_to_string(file(name)).unwrap_or_default();
        assert!(committed == present, "conformance/schema/{name} is not of this version; renew it: {renew}");
        let schema: Value = serde_json::from_str(&present)?;
        jsonschema::draft202012::meta::validate(&schema).map_err(|error| format!("{form}: {error}"))?;
        assert_eq!(schema["$id"], format!("urn:gpu-interop:conformance:{form}:{version}"));
    }
    assert_eq!(printed(&["schema"])?, printed(&["schema", "run"])?);
    Ok(())
}

#[test]
fn committed_reports_fit() -> Tested {
    for (benches, schema) in [(false, "report.schema.json"), (true, "bench.schema.json")] {
        for path in committed(benches)? {
            assert_eq!(complaints(schema, &json(&path)?)?, Vec::<String>::new(), "{}", path.display());
        }
    }
    Ok(())
}

#[test]
fn new_reports_fit() -> Tested {
    let folder = tempfile::tempdir()?;
    let [run, bench, merged] = ["run.json", "bench.json", "merged.json"].map(|name| folder.path().join(name));
    printed(&["run", "--backend", "host", "--filter", "{identity.*,memory.fill}", "--json", text(&run)?])?;
    let mut parts = vec![(&run, "report.schema.json")];
    // Benchmarks exist only on Linux.
    if cfg!(unix) {
        printed(&["bench", "--backend", "host", "--quick", "--filter", "{context,signal.1}", "--json", text(&bench)?])?;
        parts.push((&bench, "bench.schema.json"));
    }
    let sources: Vec<&str> = parts.iter().map(|(path, _)| text(path)).collect::<Tested<_>>()?;
    printed(&[&["merge"], &sources[..], &["--json", text(&merged)?]].concat())?;
    for (path, schema) in parts.into_iter().chain([(&merged, "merged.schema.json")]) {
        assert_eq!(complaints(schema, &json(path)?)?, Vec::<String>::new(), "{schema}");
    }
    assert!(json(&run)?["started"].as_str().is_some_and(|time| time.ends_with('Z')), "when it began");
    Ok(())
}

/// A change of one case is a change of one line.
#[test]
fn a_case_or_a_ratio_has_a_line_of_its_own() -> Tested {
    let folder = tempfile::tempdir()?;
    let [run, merged] = ["run.json", "merged.json"].map(|name| folder.path().join(name));
    printed(&["run", "--backend", "host", "--filter", "identity.*", "--json", text(&run)?])?;
    printed(&["merge", text(&run)?, text(&run)?, "--json", text(&merged)?])?;
    let both =
        json(&merged)?["reports"].as_array().map(|both| both.iter().map(|each| each["report"].clone()).collect());
    let mut files = vec![(run.clone(), vec![json(&run)?]), (merged, both.ok_or("reports")?)];
    for path in [committed(false)?, committed(true)?].concat() {
        let report = json(&path)?;
        files.push((path, vec![report]));
    }
    for (path, reports) in files {
        let lists = reports.iter().flat_map(|report| ["results", "ratios"].map(|list| report[list].as_array()));
        let expected: Vec<&Value> = lists.flatten().flatten().collect();
        let text = std::fs::read_to_string(&path)?;
        let lines = text.lines().filter_map(|line| serde_json::from_str(line.trim().trim_end_matches(',')).ok());
        let lines: Vec<Value> = lines.filter(|line| expected.contains(&line)).collect();
        assert!(!expected.is_empty(), "{}", path.display());
        assert_eq!(lines.len(), expected.len(), "{}", path.display());
    }
    Ok(())
}

#[test]
fn what_is_no_report_does_not_fit() -> Tested {
    let good = serde_json::to_value(full_report()?)?;
    let spoilt = |pointer: &str, value: Value| -> Tested<Vec<String>> {
        let mut report = good.clone();
        *report.pointer_mut(pointer).ok_or_else(|| format!("no {pointer}"))? = value;
        complaints("report.schema.json", &report)
    };
    for (pointer, value) in [
        ("/schema", 3.into()),
        ("/schema", 0.into()),
        ("/seed", (-1).into()),
        ("/backend/simulated", "no".into()),
        ("/device/pci", 7.into()),
        ("/results/0/outcome", "fine".into()),
        ("/results/0/exporter", "directx".into()),
        ("/capabilities/features/kernels", "native".into()),
        ("/exporters/0/name", Value::Null),
    ] {
        assert!(!spoilt(pointer, value.clone())?.is_empty(), "{pointer} = {value} is accepted");
    }
    for field in ["schema", "backend", "device", "results", "summary"] {
        let mut report = good.clone();
        report.as_object_mut().ok_or("an object")?.remove(field);
        assert!(!complaints("report.schema.json", &report)?.is_empty(), "a report without {field} is accepted");
    }
    Ok(())
}

#[test]
fn a_schema_of_something_else_is_refused() -> Tested {
    assert_eq!(conformance(&["schema", "doctor"])?.status.code(), Some(2));
    Ok(())
}
