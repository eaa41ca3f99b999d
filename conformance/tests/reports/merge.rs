//! `conformance merge` keeps all data, and fails only if requested.

use std::path::Path;

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{BenchReport, Emulated, Merged};
use serde_json::Value;

use super::{Tested, committed, conformance, full_report, html, json, printed, report, text};

fn write(folder: &Path, name: &str, value: &Value) -> Tested<String> {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().ok_or("a folder")?)?;
    std::fs::write(&path, serde_json::to_string(value)?)?;
    Ok(text(&path)?.to_owned())
}

/// A committed report in which every scenario has this outcome.
fn all_ended(outcome: Outcome) -> Tested<Value> {
    let mut report = full_report()?;
    for case in &mut report.results {
        case.outcome = outcome;
    }
    Ok(serde_json::to_value(report)?)
}

/// The exit status, and the messages on standard error.
fn merge(arguments: &[&str]) -> Tested<(Option<i32>, String)> {
    let output = conformance(&[&["merge"], arguments].concat())?;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

#[test]
fn every_report_is_kept_as_it_was() -> Tested {
    let folder = tempfile::tempdir()?;
    let (runs, benches) = (committed(false)?, committed(true)?);
    let merged = folder.path().join("merged.json");
    let files: Vec<&str> = runs.iter().chain(&benches).map(|path| text(path)).collect::<Tested<_>>()?;
    let said = printed(&[&["merge", "--json", text(&merged)?], files.as_slice()].concat())?;
    let all: Merged = serde_json::from_value(json(&merged)?)?;
    assert_eq!((all.reports.len(), all.benches.len()), (runs.len(), benches.len()));
    for (kept, path) in all.reports.iter().zip(&runs) {
        assert_eq!(kept.report, report(path)?);
        assert_eq!(Some(kept.source.as_str()), path.file_name().and_then(|name| name.to_str()));
        assert!(said.contains(&format!("{}: {}", kept.source, kept.report.backend.name)), "{said}");
    }
    for (kept, path) in all.benches.iter().zip(&benches) {
        assert_eq!(kept.report, serde_json::from_value::<BenchReport>(json(path)?)?);
    }
    // A merged report can be merged again.
    let again = folder.path().join("again.json");
    printed(&["merge", text(&merged)?, "--json", text(&again)?])?;
    assert_eq!(json(&again)?, json(&merged)?);
    Ok(())
}

#[test]
fn emulated_runs_are_marked_everywhere() -> Tested {
    let folder = tempfile::tempdir()?;
    let mut report = full_report()?;
    report.backend.simulated = false;
    let line = "EMULATED: AMD's HIP runtime 5.2.3 on an emulated kernel driver; no AMD GPU";
    let emulated =
        Emulated { kernel_driver: "d".into(), runtime: Some("5.2.21153".into()), release: Some("5.2.3".into()) };
    assert_eq!(emulated.to_string(), line);
    for emulated in [None, Some(emulated)] {
        report.emulated = emulated;
        let is_emulated = report.emulated.is_some();
        let file = write(folder.path(), "hip.json", &serde_json::to_value(&report)?)?;
        let merged = folder.path().join("all.html");
        let said = printed(&["merge", &file, "--html", text(&merged)?])?;
        assert_eq!(said.contains(" EMULATED, "), is_emulated, "{said}");
        let page = std::fs::read_to_string(&merged)?;
        let page = html::parse(&page)?;
        let card = page.with_class("card")[0].text();
        assert_eq!(
            (card.contains(line), card.matches("EMULATED").count()),
            (is_emulated, 2 * usize::from(is_emulated))
        );
        assert_eq!(page.named("title")[0].text().contains("some EMULATED"), is_emulated);
    }
    Ok(())
}

#[test]
fn failures_count_only_with_fail() -> Tested {
    let folder = tempfile::tempdir()?;
    let good = write(folder.path(), "good/cuda.json", &all_ended(Outcome::Passed)?)?;
    let skipped = write(folder.path(), "skipped/cuda.json", &all_ended(Outcome::Skipped)?)?;
    assert_eq!(merge(&[&good, "--fail"])?.0, Some(0));
    for outcome in Outcome::ALL.into_iter().filter(|outcome| outcome.is_failure()) {
        let bad = write(folder.path(), "bad/cuda.json", &all_ended(outcome)?)?;
        assert_eq!(merge(&[&good, &bad])?.0, Some(0), "{outcome}");
        // A failure takes precedence over a machine where nothing ran.
        assert_eq!(merge(&[&skipped, &bad, &good, "--fail"])?.0, Some(1), "{outcome}");
    }
    let (status, said) = merge(&[&good, &skipped, "--fail"])?;
    assert_eq!(status, Some(2));
    let place = Path::new("skipped").join("cuda.json");
    assert!(said.contains(&format!("{}: nothing ran", place.display())), "{said}");
    assert_eq!(merge(&[&good, &skipped])?.0, Some(0));
    Ok(())
}

#[test]
fn what_is_no_report_is_refused_by_name() -> Tested {
    let folder = tempfile::tempdir()?;
    let good = write(folder.path(), "good.json", &all_ended(Outcome::Passed)?)?;
    let mut newer = all_ended(Outcome::Passed)?;
    newer["schema"] = 99.into();
    let mut damaged = all_ended(Outcome::Passed)?;
    damaged["results"][3]["outcome"] = "fine".into();
    let of_its_version = format!("this is not a report of version {}: unknown variant `fine`", damaged["schema"]);
    for (name, value, reason) in [
        ("newer.json", newer, "a report of version 99; this command reads version 2"),
        ("damaged.json", damaged, of_its_version.as_str()),
        ("other.json", serde_json::json!({"schema": 1}), "this is not a report"),
    ] {
        let bad = write(folder.path(), name, &value)?;
        let (status, said) = merge(&[&good, &bad])?;
        assert_eq!(status, Some(2), "{name}");
        assert!(said.contains(name) && said.contains(reason), "{said}");
    }
    // The rest is there, and the missing file is reported.
    let [page, all] = ["all.html", "all.json"].map(|name| folder.path().join(name));
    let [missing, bad] = ["missing.json", "newer.json"].map(|name| folder.path().join(name));
    let files = [text(&missing)?, &good, text(&bad)?, "--html", text(&page)?, "--json", text(&all)?];
    let (status, said) = merge(&files)?;
    assert!(status == Some(2) && said.contains("missing or incomplete: missing.json, newer.json"), "{said}");
    let merged: Merged = serde_json::from_value(json(&all)?)?;
    assert_eq!((merged.reports.len(), merged.not_read.len()), (1, 2));
    let page = html::parse(&std::fs::read_to_string(&page)?)?;
    let title = page.named("title")[0].text();
    assert!(title.ends_with("; 2 missing or incomplete"), "{title}");
    for missing in &merged.not_read {
        assert!(page.text().contains(&format!("{}: {}", missing.source, missing.reason)), "{missing:?}");
    }
    // Merged again, each is named with the file that did not have it.
    let again = folder.path().join("again.json");
    merge(&[text(&all)?, &good, "--json", text(&again)?])?;
    let merged: Merged = serde_json::from_value(json(&again)?)?;
    let sources: Vec<&str> = merged.not_read.iter().map(|missing| missing.source.as_str()).collect();
    assert_eq!(sources, ["all.json: missing.json", "all.json: newer.json"]);
    // A page without reports is an error.
    std::fs::remove_file(&all)?;
    assert_eq!(merge(&[text(&missing)?, "--json", text(&all)?])?.0, Some(2));
    assert!(!all.exists());
    std::fs::write(folder.path().join("half.json"), "{\"schema\": 1,")?;
    let half = folder.path().join("half.json");
    let (status, said) = merge(&[text(&half)?])?;
    assert!(status == Some(2) && said.contains("half.json: this is not JSON"), "{said}");
    assert_eq!(merge(&[&good, "--json", "/nonexistent/all.json"])?.0, Some(2));
    assert_eq!(merge(&[])?.0, Some(2), "nothing to merge");
    Ok(())
}
