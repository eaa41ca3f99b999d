//! `conformance site`: every page is valid, needs no network, and has the data of all reports.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, Duration, Utc};
use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{BenchReport, Report};

use super::html::{self, Node};
use super::{Tested, committed, conformance, full_report, json, printed, text};

const HOSTILE: &str = "</svg></td><script>alert(1)</script> & \" <";

fn write(folder: &Path, name: &str, value: &impl serde::Serialize) -> Tested {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().ok_or("a folder")?)?;
    Ok(std::fs::write(path, serde_json::to_string(value)?)?)
}

/// Ten nights, with a failure from the sixth on, and a case that fails in every third run of one build.
fn nights(folder: &Path) -> Tested<(Report, String, String)> {
    let mut report = full_report()?;
    let passed = |case: &&gpu_interop_conformance_cli::CaseReport| case.outcome == Outcome::Passed;
    let names: Vec<String> = report.results.iter().filter(passed).map(|case| case.name()).take(2).collect();
    let begin: DateTime<Utc> = "2026-03-01T02:00:00Z".parse()?;
    for night in 0..10_i32 {
        let mut run = report.clone();
        run.started = Some(begin + Duration::days(night.into()));
        run.build = Some(if night < 5 { "build-1".into() } else { format!("build-{}", night - 3) });
        for case in &mut run.results {
            let fails = case.name() == names[0] && night >= 5 || case.name() == names[1] && night < 5 && night % 3 == 1;
            if fails {
                case.outcome = if night == 4 { Outcome::Flaky } else { Outcome::Failed };
                case.reason = Some(HOSTILE.into());
            }
        }
        write(folder, &format!("night-{night}/cuda.json"), &run)?;
    }
    report.results.clear();
    Ok((report, names[0].clone(), names[1].clone()))
}

/// Every page of a site, parsed.
fn pages(site: &Path) -> Tested<Vec<(String, Node)>> {
    let mut pages = Vec::new();
    for entry in site.read_dir()? {
        let path = entry?.path();
        let source = std::fs::read_to_string(&path)?;
        let name = path.file_name().ok_or("a name")?.to_string_lossy().into_owned();
        let page = html::parse(&source).map_err(|error| format!("{name}: {error}"))?;
        assert_eq!(page.named("script").len(), 0, "{name}");
        // Nothing is loaded, and links lead to pages of the site.
        for (attribute, value) in page.all().into_iter().flat_map(Node::attributes) {
            let is_place = ["href", "src", "xlink:href"].contains(&attribute);
            assert!(!is_place || !value.contains(':'), "{name}: {attribute}={value}");
        }
        pages.push((name, page));
    }
    pages.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(pages)
}

#[test]
fn the_first_failing_build_and_the_rate_of_flakes_are_named() -> Tested {
    let (folder, site) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (_, failing, flaky) = nights(folder.path())?;
    write(folder.path(), "other.json", &serde_json::json!({"schema": 1}))?;
    let said = printed(&["site", text(folder.path())?, "--output", text(&site.path().join("new"))?])?;
    assert!(said.contains("index.html: 1 machine, 10 reports"), "{said}");
    let pages = pages(&site.path().join("new"))?;
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["index.html", "machine-1.html", "scenarios.html"]);
    let [(_, index), (_, machine), (_, scenarios)] = pages.as_slice() else { return Err("three pages".into()) };

    let row = machine.with_class("failing");
    let row = row.iter().find(|row| row.text().starts_with(&failing)).ok_or("the failing case")?;
    let cells: Vec<String> = row.children().map(Node::text).collect();
    assert_eq!(cells[1], "build-2 (2026-03-06 02:00 UTC)");
    assert_eq!(cells[2], "build-1 (2026-03-05 02:00 UTC)");
    assert_eq!(cells[3], format!("failed: {HOSTILE}"));
    let rates: Vec<String> = machine.with_class("unsteady").iter().map(|rate| rate.text()).collect();
    assert_eq!(rates, [format!("{flaky} 2 of 10 runs, 20 %")]);
    assert_eq!(machine.with_class("run").len(), 10);

    assert!(index.text().contains("other.json: this is not a report"));
    assert_eq!(index.with_class("machine").len(), 1);
    // One box a case, of its newest outcome.
    let newest = super::report(&folder.path().join("night-9/cuda.json"))?;
    let mut boxes = Vec::new();
    for group in machine.with_class("heat")[0].named("summary") {
        boxes.extend(
            group
                .named("rect")
                .into_iter()
                .map(|each| (each.text(), each.attribute("class").unwrap_or_default().to_owned())),
        );
    }
    let expected: Vec<(String, String)> = newest
        .results
        .iter()
        .map(|case| {
            (format!("{}: {}", case.name(), case.outcome.name().replace('_', " ")), case.outcome.name().to_owned())
        })
        .collect();
    assert_eq!(boxes.iter().collect::<BTreeSet<_>>(), expected.iter().collect::<BTreeSet<_>>());
    assert_eq!(boxes.len(), expected.len());
    assert!(boxes.contains(&(format!("{failing}: failed"), "failed".to_owned())), "{failing}");
    let strips = scenarios.with_class("case");
    let strip = strips.iter().find(|row| row.text().starts_with(&failing)).ok_or("the strip")?;
    let boxes: Vec<&str> = strip.named("rect").into_iter().filter_map(|each| each.attribute("class")).collect();
    assert_eq!(boxes, [["passed"; 5], ["failed"; 5]].concat());
    // Links lead to pages that exist.
    for (name, page) in &pages {
        for link in page.named("a").iter().filter_map(|link| link.attribute("href")) {
            assert!(names.contains(&link), "{name}: {link}");
        }
    }
    Ok(())
}

#[test]
fn committed_reports_are_a_site_with_trends() -> Tested {
    let (folder, site) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (mut expected, mut several) = (BTreeSet::new(), BTreeSet::new());
    for benches in [false, true] {
        for path in committed(benches)? {
            std::fs::copy(&path, folder.path().join(path.file_name().ok_or("a name")?))?;
            if benches {
                let mut bench: BenchReport = serde_json::from_value(json(&path)?)?;
                expected.extend(bench.measurements.iter().map(|each| format!("{} {}", each.name, each.variant)));
                // One machine measures twice.
                if several.is_empty() {
                    several.clone_from(&expected);
                    bench.started = bench.started.map(|time| time - Duration::days(1));
                    write(folder.path(), "again/bench.json", &bench)?;
                }
            }
        }
    }
    printed(&["site", text(folder.path())?, "--output", text(site.path())?])?;
    let pages = pages(site.path())?;
    let trends: Vec<String> =
        pages.iter().flat_map(|(_, page)| page.named("figcaption")).map(|caption| caption.text()).collect();
    for name in &several {
        assert!(trends.iter().any(|caption| caption.starts_with(name)), "{name}");
    }
    // A single value is no trend.
    let is_trend = |page: &Node| !page.with_class("trends").is_empty();
    assert_eq!(pages.iter().filter(|(_, page)| is_trend(page)).count(), 1);
    let bars = pages.iter().flat_map(|(_, page)| page.with_class("bars"));
    let measured: BTreeSet<String> = bars
        .flat_map(|bars| {
            let name = bars.named("h4")[0].text();
            bars.with_class("plot")
                .iter()
                .map(|plot| format!("{name} {}", plot.children().next().map(Node::text).unwrap_or_default()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(measured.intersection(&expected).count(), expected.len());
    let machines: Vec<&Node> = pages.iter().flat_map(|(_, page)| page.with_class("machine")).collect();
    assert!(machines.len() > 5);
    for cell in machines.iter().flat_map(|row| row.children()) {
        assert!(!cell.text().is_empty(), "an empty cell");
    }
    for (name, page) in &pages {
        let is_empty = |section: &&Node| section.children().count() < 2;
        assert_eq!(page.named("section").iter().filter(|section| is_empty(section)).count(), 0, "{name}");
    }
    // Numbers in plots are numbers.
    for (name, page) in &pages {
        for line in page.named("polyline") {
            let points = line.attribute("points").unwrap_or_default();
            let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
            assert!(points.split([' ', ',']).all(is_number), "{name}: {points}");
        }
    }
    // The same again.
    let before: Vec<String> = pages.iter().map(|(_, page)| page.text()).collect();
    printed(&["site", text(folder.path())?, "--output", text(site.path())?])?;
    let again: Vec<String> = self::pages(site.path())?.iter().map(|(_, page)| page.text()).collect();
    assert_eq!(before, again);
    Ok(())
}

#[test]
fn a_folder_without_reports_makes_no_site() -> Tested {
    let (folder, site) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let output = site.path().join("new");
    assert_eq!(conformance(&["site", text(folder.path())?, "--output", text(&output)?])?.status.code(), Some(2));
    assert!(!output.exists());
    assert_eq!(conformance(&["site", "/nonexistent", "--output", text(&output)?])?.status.code(), Some(2));
    Ok(())
}
