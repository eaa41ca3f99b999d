//! `conformance diff` of measurements: finds planted changes, and no difference between equal runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::Stop;
use gpu_interop_conformance_cli::{BenchReport, Limit, Measurement, NotMeasured, Ratio};
use serde_json::Value;

use super::{Tested, conformance, html, json, printed, text};

/// Measurements of the host backend.
fn measured(folder: &Path, count: usize) -> Tested<Vec<BenchReport>> {
    let path = folder.join("bench.json");
    let run = |_| {
        let filter = "{signal.*,wait.*,memory.64KiB,memory.1MiB}";
        printed(&["bench", "--backend", "host", "--quick", "--filter", filter, "--json", text(&path)?])?;
        Ok(serde_json::from_str(&std::fs::read_to_string(&path)?)?)
    };
    (0..count).map(run).collect()
}

fn written(folder: &Path, prefix: &str, reports: &[BenchReport]) -> Tested<Vec<String>> {
    let write = |(number, report): (usize, &BenchReport)| {
        let path = folder.join(format!("{prefix}-{number}.json"));
        std::fs::write(&path, serde_json::to_string(report)?)?;
        Ok(text(&path)?.to_owned())
    };
    reports.iter().enumerate().map(write).collect()
}

fn arguments<'a>(before: &'a [String], after: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let names = |paths: &'a [String]| paths.iter().map(String::as_str).collect::<Vec<_>>();
    [vec!["diff"], more.to_vec(), names(before), vec!["--"], names(after)].concat()
}

fn difference(folder: &Path, before: &[String], after: &[String]) -> Tested<Value> {
    let file = folder.join("difference.json");
    printed(&arguments(before, after, &["--json", text(&file)?]))?;
    json(&file)
}

/// The kinds and names of figures with a difference.
fn found(difference: &Value) -> BTreeSet<(String, String)> {
    let of = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let figures = difference["figures"].as_array().into_iter().flatten().filter(|figure| !figure["kind"].is_null());
    let title = |figure: &Value| format!("{} {}", of(&figure["name"]), of(&figure["variant"])).trim_end().to_owned();
    figures.map(|figure| (of(&figure["kind"]), title(figure))).collect()
}

/// A ratio with a tenth of a percent of noise.
fn ratio(name: &str, value: f64, limit: Option<Limit>) -> Ratio {
    let holds = limit.map(|limit| limit.admits(value));
    Ratio { name: name.into(), value, low: value * 0.999, high: value * 1.001, limit, holds }
}

fn scale(name: &str, variant: &str, factor: f64) -> impl Fn(&mut BenchReport) {
    move |report| {
        let wanted = |each: &&mut Measurement| each.name == name && each.variant == variant;
        for each in report.measurements.iter_mut().filter(wanted) {
            for value in [&mut each.median, &mut each.p10, &mut each.p90] {
                *value *= factor;
            }
        }
    }
}

/// Changes of all kinds; their kinds and figures.
fn plant(before: &mut [BenchReport], after: &mut [BenchReport]) -> BTreeSet<(String, String)> {
    let mut planted = BTreeSet::new();
    let mut expect = |kind: &str, figure: &str| {
        planted.insert((kind.to_owned(), figure.to_owned()));
    };
    for (name, variant, factor) in
        [("signal.1", "library", 30.0), ("memory.64KiB.map", "backend", 30.0), ("wait.8", "library", 1.0 / 30.0)]
    {
        after.iter_mut().for_each(scale(name, variant, factor));
        expect(if factor > 1.0 { "worse" } else { "better" }, &format!("{name} {variant}"));
    }
    let most = Some(Limit::AtMost(1.02));
    let least = Some(Limit::AtLeast(10.0));
    for (kind, name, old, new, limit) in [
        ("missed", "planted a/b", 1.01, 1.04, most),
        ("kept", "planted c/d", 1.04, 1.01, most),
        ("missed", "planted e/f", 10.1, 9.8, least),
        ("worse", "planted g/h", 900.0, 11.0, least),
        ("better", "planted i/j", 1.0, 0.001, most),
        ("changed", "planted k/l", 1.0, 90.0, None),
        ("", "planted m/n", 1.0195, 1.0205, most),
        ("", "planted o/p", 1.0, 1.001, None),
    ] {
        before.iter_mut().for_each(|report| report.ratios.push(ratio(name, old, limit)));
        after.iter_mut().for_each(|report| report.ratios.push(ratio(name, new, limit)));
        if !kind.is_empty() {
            expect(kind, name);
        }
    }
    for (kind, side) in [("missing", &mut *before), ("added", &mut *after)] {
        let name = format!("planted.{kind}");
        expect(kind, &format!("{name} library"));
        for report in side {
            let rate = Measurement { name: name.clone(), unit: "GB/s".into(), ..report.measurements[0].clone() };
            report.measurements.push(Measurement { variant: "library".into(), ..rate });
        }
    }
    // A rate: lower is worse.
    for (report, median) in before.iter_mut().map(|each| (each, 900.0)).chain(after.iter_mut().map(|each| (each, 9.0)))
    {
        let (name, variant, unit) = ("planted.rate".into(), "library".into(), "frames/s".into());
        let (p10, p90, samples) = (median * 0.99, median * 1.01, 20);
        let series = Vec::new();
        report.measurements.push(Measurement {
            name,
            variant,
            unit,
            median,
            p10,
            p90,
            samples,
            left_out: None,
            on_busy_cores: None,
            series,
        });
    }
    expect("worse", "planted.rate library");
    for report in after {
        let stop = Stop::failed("the word at byte 0 of a frame is 3 instead of 4".into());
        report.not_measured.push(NotMeasured { what: "frame.graphics.4K".into(), stop });
    }
    expect("failed", "frame.graphics.4K");
    planted
}

#[ignore = "measures, so it needs a quiet machine: cargo xtask slow measurements"]
#[test]
fn planted_changes_of_measurements_are_found_and_no_others() -> Tested {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let mut after = measured(folder, 6)?;
    let mut before = after.split_off(3);
    let planted = plant(&mut before, &mut after);
    assert_eq!(planted.len(), 13);
    let (before, after) = (written(folder, "before", &before)?, written(folder, "after", &after)?);
    assert_eq!(found(&difference(folder, &before, &after)?), planted);
    // One run on each side finds them, too, but for what the noise of a busy machine hides.
    let single = found(&difference(folder, &before[..1], &after[..1])?);
    assert!(single.is_subset(&planted), "{single:?}");
    let timed = |(kind, _): &(String, String)| ["worse", "better", "changed"].contains(&kind.as_str());
    assert!(planted.difference(&single).all(timed), "{single:?}");
    let again = found(&difference(folder, &before, &before)?);
    assert_eq!(again, BTreeSet::new());

    let page = folder.join("difference.html");
    let said = printed(&arguments(&before, &after, &["--html", text(&page)?]))?;
    let page = html::parse(&std::fs::read_to_string(&page)?)?;
    let rows: Vec<String> = page.with_class("change").iter().map(|row| row.text()).collect();
    for (kind, figure) in &planted {
        assert!(said.lines().any(|line| line.starts_with(&format!("{kind:<9} {figure}: "))), "{kind} {figure}: {said}");
        assert_eq!(rows.iter().filter(|row| row.starts_with(figure)).count(), 1, "{figure}");
    }
    assert!(said.contains("1.010 -> 1.040 (x 1.030), limit <= 1.02: kept by 3 of 3, then by 0 of 3"), "{said}");
    let status = |after: &[String], gate: &str| -> Tested<Option<i32>> {
        Ok(conformance(&arguments(&before, after, &["--gate", gate]))?.status.code())
    };
    for gate in ["failed", "missed", "missing", "worse", "changed", "kept", "better", "added"] {
        assert_eq!((status(&after, gate)?, status(&before, gate)?), (Some(1), Some(0)), "{gate}");
    }
    assert_eq!((status(&after, "missed,kept")?, status(&after, "slower")?), (Some(1), Some(2)));
    Ok(())
}

#[ignore = "measures, so it needs a quiet machine: cargo xtask slow measurements"]
#[test]
fn equal_measurements_do_not_differ() -> Tested {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let paths = written(folder, "equal", &measured(folder, 20)?)?;
    for (size, before) in [(2, 1), (4, 2), (6, 3)] {
        for runs in paths.windows(size) {
            let equal = difference(folder, &runs[..before], &runs[before..])?;
            assert_eq!(found(&equal), BTreeSet::new(), "{runs:?}: {}", equal["noise"]);
        }
    }
    Ok(())
}

#[test]
fn committed_measurements_are_compared_figure_by_figure() -> Tested {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let file = |name: &str| -> PathBuf { results.join(format!("cuda-580.159.04-{name}.json")) };
    let (bench, other) = (file("bench"), file("h100-bench"));
    let said = printed(&["diff", text(&bench)?, text(&bench)?])?;
    assert!(said.lines().any(|line| line.starts_with("unchanged signal.1 library: ")), "{said}");
    assert!(said.lines().all(|line| !line.starts_with("worse") && !line.starts_with("machine")), "{said}");
    let said = printed(&["diff", text(&bench)?, text(&other)?])?;
    assert!(said.contains("noise: limits only: the devices differ"), "{said}");
    // A report of a run is something else.
    let run = file("h100");
    for arguments in [["diff", text(&bench)?, text(&run)?], ["diff", text(&run)?, text(&bench)?]] {
        assert_eq!(conformance(&arguments)?.status.code(), Some(2), "{arguments:?}");
    }
    Ok(())
}
