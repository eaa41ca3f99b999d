//! The page contains all data of the reports, as text, and no other data.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use gpu_interop_conformance::{Observation, Outcome};
use gpu_interop_conformance_cli::{
    Attempt, Call, CallTrace, CaseList, CaseReport, Cause, JoinedShard, Report, Returned, Stopped,
};

use super::html::{self, Node};
use super::{Tested, committed, full_report, json, printed, report, text};

/// A file name that a browser would interpret as markup. Files of Windows cannot have these characters.
const HOSTILE_FILE: &str = if cfg!(windows) { "&lt;script' &amp;.json" } else { "<script>.json" };
/// Text that a browser must not interpret.
const HOSTILE: &str = "</style></pre><script>alert('1 & \"2\"')</script><img src=x onerror=alert(1)> ' \" &lt; ]]>";

/// The page of these reports, and the reports.
pub(super) fn page(reports: &[&Path]) -> Tested<(String, Node)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("all.html");
    let files: Vec<&str> = reports.iter().map(|path| text(path)).collect::<Tested<_>>()?;
    printed(&[&["merge", "--html", text(&file)?], files.as_slice()].concat())?;
    let page = std::fs::read_to_string(&file)?;
    let tree = html::parse(&page)?;
    Ok((page, tree))
}

fn written(folder: &Path, name: &str, report: &Report) -> Tested<std::path::PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, serde_json::to_string(report)?)?;
    Ok(path)
}

/// A committed report with one scenario of every outcome, each with all optional data.
fn eventful() -> Tested<Report> {
    let mut report = full_report()?;
    for (outcome, case) in Outcome::ALL.into_iter().zip(&mut report.results) {
        case.outcome = outcome;
        case.reason = Some(format!("the reason of {outcome}"));
        case.log = Some(format!("the log of {outcome}\nand its end"));
        case.left_out = vec![format!("left out of {outcome}")];
        case.calls = Some(trace(&format!("the function of {outcome}")));
        let attempt = |number: u64| Attempt {
            outcome: Outcome::Failed,
            reason: Some(format!("the reason of run {number} of {outcome}")),
            error: None,
            log: Some(format!("the log of run {number} of {outcome}")),
            calls: None,
            duration_us: number,
        };
        case.attempts = vec![attempt(1), attempt(2)];
        case.observed = vec![Observation {
            call: format!("the call of {outcome}"),
            raw: "what the driver did".into(),
            library: "what the library did".into(),
        }];
    }
    Ok(report)
}

/// A call that returned, and one that did not.
fn trace(function: &str) -> CallTrace {
    let call = |number, returned| {
        let (function, arguments) = (function.to_owned(), format!("{function}'s arguments"));
        Call { number, thread: 17, function, arguments, began_us: 3, returned }
    };
    let returned = Returned { code: 719, made: "0x7f00".into(), duration_ns: 1500 };
    CallTrace { left_out: 4, newest: vec![call(5, Some(returned)), call(6, None)] }
}

/// The entry of each scenario, by its id: its line, and its details.
fn entries(page: &Node) -> HashMap<&str, &Node> {
    fn id(node: &Node) -> Option<&str> {
        node.all().into_iter().find_map(|inner| inner.attribute("id")?.strip_prefix("scenario-"))
    }
    page.with_class("scenario").into_iter().filter_map(|node| Some((id(node)?, node))).collect()
}

/// Text of a report's result in the line of a scenario.
fn said(number: usize, case: &CaseReport) -> String {
    let exporter = case.exporter.map(|exporter| format!(" {exporter}")).unwrap_or_default();
    let sign = match case.outcome {
        Outcome::Passed => "✓",
        Outcome::Failed | Outcome::Crashed | Outcome::TimedOut => "✗",
        Outcome::UnexpectedPass => "!",
        Outcome::Flaky => "↻",
        Outcome::ExpectedFailure => "≈",
        Outcome::Unsupported => "–",
        Outcome::Skipped => "○",
    };
    format!("{number}{exporter} {sign} {}", case.outcome.name().replace('_', " "))
}

/// Every scenario of the reports is on the page exactly once, with its outcome and all its text.
fn check_scenarios(page: &Node, reports: &[Report]) -> Tested {
    let entries = entries(page);
    let mut expected = 0;
    for (number, report) in (1..).zip(reports) {
        for case in &report.results {
            let entry = entries.get(case.id.as_str()).ok_or_else(|| format!("{} is not on the page", case.id))?;
            let chips: Vec<String> = entry.with_class("chip").iter().map(|chip| chip.text()).collect();
            let said = said(number, case);
            assert_eq!(
                chips.iter().filter(|chip| chip.starts_with(&said)).count(),
                1,
                "{}: {said}: {chips:?}",
                case.id
            );
            // The part that phones show.
            let is_short = |chip: &&Node| {
                chip.named("b").iter().any(|part| {
                    said.starts_with(&part.text()) && part.text().len() + 1 + case.outcome.name().len() == said.len()
                })
            };
            assert_eq!(entry.with_class("chip").into_iter().filter(is_short).count(), 1, "{}: {said}", case.id);
            let text = entry.text();
            let observed = case.observed.iter().flat_map(|row| [&row.call, &row.raw, &row.library]);
            let runs = case.attempts.iter().flat_map(|attempt| attempt.reason.iter().chain(&attempt.log));
            for what in runs.chain(&case.reason).chain(&case.log).chain(&case.left_out).chain(observed) {
                assert!(text.contains(what.as_str()), "{}: `{what}` is not in {text}", case.id);
            }
            for call in case.calls.iter().flat_map(|calls| &calls.newest) {
                let line = format!("{}({})", call.function, call.arguments);
                let end =
                    call.returned.as_ref().map_or(" DID NOT RETURN".into(), |returned| format!(" = {}", returned.code));
                assert!(text.contains(&(line + &end)), "{}: {call:?} is not in {text}", case.id);
            }
            let traces = entry.with_class("calls");
            assert!(
                case.calls.is_none() || traces.iter().all(|trace| trace.attribute("open").is_none()),
                "{}",
                case.id
            );
            assert_eq!(traces.is_empty(), reports.iter().all(|report| !has_calls(report, &case.id)), "{}", case.id);
            expected += 1;
        }
    }
    let chips: usize = page.with_class("scenario").iter().map(|entry| entry.with_class("chip").len()).sum();
    assert_eq!(chips, expected);
    Ok(())
}

/// `true` if a scenario has driver calls in a report.
fn has_calls(report: &Report, id: &str) -> bool {
    report.results.iter().any(|case| case.id == id && case.calls.is_some())
}

fn number(node: &Node, attribute: &str) -> Tested<usize> {
    Ok(node.attribute(attribute).ok_or("no number")?.parse()?)
}

fn check_matrix(page: &Node, reports: &[Report]) -> Tested {
    let table = page.with_class("matrix").into_iter().next().ok_or("no matrix")?;
    let rows: Vec<Vec<&Node>> = table.named("tr").iter().map(|row| row.children().collect()).collect();
    let groups: BTreeSet<&str> =
        reports.iter().flat_map(|report| &report.results).filter_map(|case| case.id.split('.').next()).collect();
    assert_eq!(rows.len(), groups.len() + 1);
    for row in rows.iter().skip(1) {
        let group = row[0].text();
        assert!(groups.contains(group.as_str()), "{group}");
        for (cell, report) in row[1..].iter().zip(reports) {
            let of_group: Vec<&CaseReport> =
                report.results.iter().filter(|case| case.id.split('.').next() == Some(&group)).collect();
            let text = cell.text();
            assert_eq!(text == "absent", of_group.is_empty(), "{group}: {text}");
            let mut end = 0;
            for part in cell.named("rect") {
                assert_eq!(number(part, "x")?, end, "{group}: parts of a bar follow each other");
                end += number(part, "width")?;
            }
            // The parts of the bar are proportional to the counts.
            assert_eq!(end, of_group.len(), "{group}");
            for outcome in Outcome::ALL {
                let count = of_group.iter().filter(|case| case.outcome == outcome).count();
                let words = format!(" {count} {}", outcome.name().replace('_', " "));
                assert_eq!(text.contains(&words), count > 0, "{group}: {text}");
                let part = cell.named("rect").into_iter().find(|part| part.has_class(outcome.name()));
                assert_eq!(part.map_or(Ok(0), |part| number(part, "width"))?, count, "{group}: {outcome}");
                // The whole cell has the colour of a failure, and of no other outcome.
                assert!(!cell.has_class(outcome.name()) || outcome.is_failure() && count > 0, "{group}: {outcome}");
            }
            let fails = of_group.iter().any(|case| case.outcome.is_failure());
            assert_eq!(cell.attribute("class").is_some_and(|class| class != "absent"), fails, "{group}");
        }
        assert_eq!(row.len(), reports.len() + 1);
    }
    Ok(())
}

#[test]
fn every_scenario_of_the_committed_reports_is_there() -> Tested {
    let (runs, benches) = (committed(false)?, committed(true)?);
    let files: Vec<&Path> = runs.iter().chain(&benches).map(|path| path.as_path()).collect();
    let (text, page) = page(&files)?;
    let (mut entries, mut points) = (0, 0);
    for path in &files {
        let report = json(path)?;
        let list = |name: &str| report[name].as_array().map_or(&[][..], Vec::as_slice);
        entries += ["results", "measurements", "ratios"].map(|name| list(name).len()).iter().sum::<usize>();
        points += list("measurements").iter().filter_map(|each| each["series"].as_array()).map(Vec::len).sum::<usize>();
    }
    let (bytes, most) = (text.len(), entries * 200 + points * 24);
    assert!(bytes < most, "{bytes} bytes of {entries} results and measurements with {points} points of plots");
    let reports: Vec<Report> = runs.iter().map(|path| report(path)).collect::<Tested<_>>()?;
    check_scenarios(&page, &reports)?;
    check_matrix(&page, &reports)?;
    // The machines of the runs.
    let cards = page.with_class("card");
    assert_eq!(cards.len(), reports.len());
    for (card, report) in cards.iter().zip(&reports) {
        let text = card.text();
        for what in [&report.backend.name, &report.backend.driver, &report.device.name] {
            assert!(text.contains(what.as_str()), "{what} is not in {text}");
        }
        let seeds = match report.repeat.get() {
            1 => format!("seed {}", report.seed),
            count => format!("{count} times each, seeds {} and on", report.seed),
        };
        assert!(text.contains(&seeds), "{text}");
        assert_eq!(text.contains("SIMULATED"), report.backend.simulated, "{text}");
        assert!(!text.contains("shard") && !text.contains("continued") && !text.contains("stopped"), "{text}");
        for exporter in report.exporters.iter().filter_map(|exporter| exporter.available.as_ref()) {
            assert!(text.contains(&exporter.driver), "{text}");
        }
    }
    assert!(page.named("title")[0].text().contains("some SIMULATED"));
    Ok(())
}

#[test]
fn every_outcome_shows_with_its_reason_and_log() -> Tested {
    let folder = tempfile::tempdir()?;
    let reports = [eventful()?, full_report()?];
    let files = [written(folder.path(), "a.json", &reports[0])?, written(folder.path(), "b.json", &reports[1])?];
    let (_, page) = page(&files.each_ref().map(|path| path.as_path()))?;
    check_scenarios(&page, &reports)?;
    check_matrix(&page, &reports)?;
    // Failures are listed at the top and expanded below, and no other cases are.
    let told: Vec<String> = page.with_class("failures")[0].named("li").iter().map(|line| line.text()).collect();
    let failed: Vec<&CaseReport> = reports[0].results.iter().filter(|case| case.outcome.is_failure()).collect();
    assert_eq!(told.len(), failed.len());
    // One case per exporter, behind one entry.
    let ids: BTreeSet<&str> = failed.iter().map(|case| case.id.as_str()).collect();
    for (line, case) in told.iter().zip(failed) {
        assert!(line.contains(&case.id) && line.contains(&format!("the reason of {}", case.outcome)), "{line}");
        assert!(entries(&page)[case.id.as_str()].attribute("open").is_some(), "{}", case.id);
    }
    let open = page.with_class("scenario").iter().filter(|entry| entry.attribute("open").is_some()).count();
    assert_eq!(open, ids.len());
    assert!(page.named("title")[0].text().contains("1 of 2 reports have failures"));
    Ok(())
}

/// Of two devices of one kind and one of another.
#[test]
fn differences_between_devices_of_one_kind_come_first() -> Tested {
    let folder = tempfile::tempdir()?;
    let one = full_report()?;
    let (mut same, mut other) = (one.clone(), one.clone());
    same.results[3].outcome = Outcome::Flaky;
    other.device.name = "another".into();
    other.results[4].outcome = Outcome::Flaky;
    let files = [("a", &one), ("b", &same), ("c", &other)]
        .map(|(name, report)| written(folder.path(), name, report))
        .into_iter()
        .collect::<Tested<Vec<_>>>()?;
    let (_, page) = page(&files.iter().map(|path| path.as_path()).collect::<Vec<_>>())?;
    let sections = page.named("section");
    assert_eq!(sections[0].attribute("aria-labelledby"), Some("differences"));
    let differing: Vec<String> = sections[0].named("code").iter().map(|code| code.text()).collect();
    assert_eq!(differing, [one.results[3].id.clone()]);
    let chips: Vec<String> = sections[0].with_class("chip").iter().map(|chip| chip.text()).collect();
    assert!(chips.len() == 2 && chips[0].starts_with('1') && chips[1].contains("flaky"), "{chips:?}");
    Ok(())
}

#[test]
fn a_card_says_which_cases_ran_and_how_the_run_ended() -> Tested {
    let folder = tempfile::tempdir()?;
    let mut report = full_report()?;
    report.cases = Some(CaseList { name: "core-1".into(), sha256: "ab".repeat(32) });
    report.stopped = Some(Stopped { cause: Cause::GpuLost, reason: "the GPU is lost after a.b".into() });
    report.resumed = vec![chrono::DateTime::UNIX_EPOCH];
    let device = report.device.clone();
    report.shards = vec![JoinedShard { index: 7, device, started: None, duration_us: 1 }];
    let (_, page) = page(&[&written(folder.path(), "a.json", &report)?])?;
    let card = page.with_class("card")[0].text();
    for what in ["core-1, SHA-256 abab", "the GPU is lost after a.b", "1970-01-01 00:00:00 UTC", "7: "] {
        assert!(card.contains(what), "{what} is not in {card}");
    }
    Ok(())
}

#[test]
fn nothing_in_a_report_is_more_than_text() -> Tested {
    let folder = tempfile::tempdir()?;
    let mut report = eventful()?;
    report.device.name = HOSTILE.into();
    report.backend.name = HOSTILE.into();
    report.backend.driver = HOSTILE.into();
    report.backend.library = Some(HOSTILE.into());
    report.tool.name = HOSTILE.into();
    for exporter in report.exporters.iter_mut().filter_map(|exporter| exporter.available.as_mut()) {
        exporter.driver = HOSTILE.into();
        exporter.device.name = HOSTILE.into();
    }
    for (number, case) in report.results.iter_mut().enumerate().take(8) {
        case.id = format!("{HOSTILE}.{number}");
        case.reason = Some(HOSTILE.into());
        case.log = Some(HOSTILE.into());
        case.left_out = vec![HOSTILE.into()];
        case.calls = Some(trace(HOSTILE));
        case.observed = vec![Observation { call: HOSTILE.into(), raw: HOSTILE.into(), library: HOSTILE.into() }];
    }
    let mut bench = json(&committed(true)?[0])?;
    for pointer in [
        "/device/name",
        "/backend/name",
        "/backend/driver",
        "/exporter/driver",
        "/ratios/0/name",
        "/measurements/0/name",
        "/measurements/0/variant",
        "/measurements/0/unit",
        "/not_measured/0/what",
        "/not_measured/0/reason",
    ] {
        *bench.pointer_mut(pointer).ok_or(pointer)? = HOSTILE.into();
    }
    let hostile_bench = folder.path().join("bench.json");
    std::fs::write(&hostile_bench, serde_json::to_string(&bench)?)?;
    let file = written(folder.path(), HOSTILE_FILE, &report)?;
    let (_, page) = page(&[&file, &hostile_bench])?;
    check_scenarios(&page, &[report])?;
    check_own(&page)?;
    // All occurrences.
    assert!(page.text().matches(HOSTILE).count() > 40, "{}", page.text().matches(HOSTILE).count());
    assert!(page.text().contains(HOSTILE_FILE));
    Ok(())
}

/// No scripts and no external resources; links lead to places of this page.
pub(super) fn check_own(page: &Node) -> Tested {
    const KNOWN: [&str; 46] = [
        "",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "footer",
        "section",
        "article",
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "dl",
        "dt",
        "dd",
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "div",
        "span",
        "strong",
        "b",
        "small",
        "code",
        "pre",
        "a",
        "svg",
        "line",
        "rect",
        "text",
        "circle",
        "polyline",
        "figure",
        "figcaption",
    ];
    let ids: Vec<&str> = page.all().iter().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id twice");
    for node in page.all() {
        assert!(KNOWN.contains(&node.name.as_str()), "<{}>", node.name);
        for (name, value) in node.attributes() {
            assert!(!name.starts_with("on") && name != "src" && name != "style", "{name}=\"{value}\"");
            assert!(!value.contains("http:") && !value.contains("https:"), "{name}=\"{value}\"");
            if name == "href" {
                let place = value.strip_prefix('#').ok_or_else(|| format!("a link to {value}"))?;
                assert!(ids.contains(&place), "a link to {place}");
            }
            if name.starts_with("aria-labelledby") {
                assert!(ids.contains(&value), "{value} labels something");
            }
        }
    }
    assert_eq!(page.named("style").len(), 1);
    let style = page.named("style")[0].text();
    assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
    Ok(())
}

#[test]
fn the_page_stands_alone_and_fits_phones_and_nights() -> Tested {
    let (runs, benches) = (committed(false)?, committed(true)?);
    let files: Vec<&Path> = runs.iter().chain(&benches).map(|path| path.as_path()).collect();
    let (_, page) = page(&files)?;
    check_own(&page)?;
    let viewport = page.named("meta").into_iter().find(|meta| meta.attribute("name") == Some("viewport"));
    assert_eq!(viewport.and_then(|meta| meta.attribute("content")), Some("width=device-width, initial-scale=1"));
    let style = page.named("style")[0].text();
    assert!(style.contains("prefers-color-scheme: dark") && style.contains("overflow-x: auto"));
    // Every colour of an outcome is defined for the light and the dark theme.
    let (day, night) = style.split_once("prefers-color-scheme: dark").ok_or("no night")?;
    let night = night.split_once("}\n}").ok_or("no end")?.0;
    let names = |part: &str| -> BTreeSet<String> {
        part.split(['{', ';', ' ', '\n']).filter(|each| each.starts_with("--")).map(|each| each.to_owned()).collect()
    };
    assert_eq!(names(day), names(night));
    for outcome in Outcome::ALL {
        assert!(style.contains(&format!(".{outcome}")), "{outcome} has no colour");
    }
    Ok(())
}

#[test]
fn a_run_writes_its_own_page() -> Tested {
    let folder = tempfile::tempdir()?;
    let [page, data] = ["run.html", "run.json"].map(|name| folder.path().join(name));
    let (page_path, data_path) = (text(&page)?, text(&data)?);
    printed(&[
        "run",
        "--backend",
        "host",
        "--filter",
        "{identity.*,memory.fill}",
        "--html",
        page_path,
        "--json",
        data_path,
    ])?;
    let (text, report) = (std::fs::read_to_string(&page)?, report(&data)?);
    let page = html::parse(&text)?;
    check_own(&page)?;
    check_scenarios(&page, std::slice::from_ref(&report))?;
    let began = report.started.ok_or("no date")?.format("%Y-%m-%d %H:%M:%S UTC").to_string();
    assert!(page.with_class("card")[0].text().contains(&began), "{began}");
    Ok(())
}
