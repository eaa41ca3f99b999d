//! Failures of an earlier run: as a baseline, and as a file of expectations.

use std::path::Path;

use gpu_interop_conformance::Outcome;

use super::{Tested, conformance, json, printed, report, simulated, text};

/// A fault of every fill.
const FAULT: (&str, &str) = ("GPU_INTEROP_SIM_FAIL", "cuMemsetD8Async:1+:1");
/// A fault of every read beside it.
const MORE: (&str, &str) = ("GPU_INTEROP_SIM_FAIL", "cuMemsetD8Async:1+:1,cuMemcpyDtoHAsync_v2:1+:1");

#[test]
fn known_failures_do_not_fail_and_new_ones_do() -> Tested {
    let folder = tempfile::tempdir()?;
    let [baseline, run, junit] = ["baseline.json", "run.json", "run.xml"].map(|name| folder.path().join(name));
    let known = simulated::reported(&baseline, &[FAULT], &[])?;
    let count = |report: &gpu_interop_conformance_cli::Report| {
        report.results.iter().filter(|case| case.outcome.is_failure()).count()
    };
    assert!(count(&known) > 0);
    let options = ["--baseline", text(&baseline)?, "--junit", text(&junit)?];
    let again = |variables: &[(&str, &str)]| simulated::run(&run, variables, &options);

    let output = again(&[FAULT])?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!(": {} known failures", count(&known))), "{said}");
    assert_eq!(count(&report(&run)?), count(&known), "the report has the outcomes as they are");
    let xml = std::fs::read_to_string(&junit)?;
    assert!(xml.contains("failures=\"0\"") && xml.contains("as in the baseline"), "{xml}");

    let output = again(&[])?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("{} fixed, 0 known failures", count(&known))), "{said}");

    let output = again(&[MORE])?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(1), "{said}");
    let new = count(&report(&run)?) - count(&known);
    assert!(new > 0 && said.contains(&format!("{new} new, ")), "{said}");
    Ok(())
}

#[test]
fn a_baseline_that_is_no_report_stops_the_run_before_it_begins() -> Tested {
    let output = conformance(&["run", "--backend", "host", "--baseline", "/nonexistent.json"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    Ok(())
}

#[test]
fn the_failures_of_a_report_become_expectations() -> Tested {
    let folder = tempfile::tempdir()?;
    let [run, file] = ["run.json", "expected.toml"].map(|name| folder.path().join(name));
    let failed = simulated::reported(&run, &[FAULT], &[])?;
    printed(&["expectations", "from", text(&run)?, "--output", text(&file)?])?;
    let toml = std::fs::read_to_string(&file)?;
    assert_eq!(printed(&["expectations", "from", text(&run)?])?, toml);

    let options = ["--expectations", text(&file)?];
    let output = simulated::run(&run, &[FAULT], &options)?;
    let said = String::from_utf8(output.stderr)?;
    assert!(output.status.code() == Some(2) && said.contains("every expectation needs a reason"), "{said}");

    std::fs::write(&file, toml.replace("reason = \"\"", "reason = \"a planted fault\""))?;
    let output = simulated::run(&run, &[FAULT], &options)?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{said}");
    for (case, before) in report(&run)?.results.iter().zip(&failed.results) {
        let expected = if before.outcome.is_failure() { Outcome::ExpectedFailure } else { before.outcome };
        assert_eq!(case.outcome, expected, "{}", case.name());
    }
    // Without the fault every entry is stale.
    assert_eq!(simulated::run(&run, &[], &options)?.status.code(), Some(1));
    let stale = printed(&["expectations", "from", text(&run)?])?;
    assert!(stale.contains("passed: remove its entry") && !stale.contains("[["), "{stale}");
    Ok(())
}

/// An entry of `[[unsupported]]` keeps its cases from running, and no others.
#[test]
fn what_is_declared_unsupported_does_not_run() -> Tested {
    let folder = tempfile::tempdir()?;
    let [run, file] = ["run.json", "unsupported.toml"].map(|name| folder.path().join(name));
    std::fs::write(&file, "[[unsupported]]\nscenario = 'identity.json'\nreason = 'a limit'\n")?;
    for (declared, outcome, reason) in [(false, Outcome::Passed, None), (true, Outcome::Unsupported, Some("a limit"))] {
        let expectations = ["--expectations", text(&file)?];
        let filter = ["--filter", "identity.{json,stable}"];
        let more = if declared { [filter, expectations].concat() } else { filter.to_vec() };
        let report = simulated::reported(&run, &[], &more)?;
        let found = report.results.iter().map(|case| (case.id.as_str(), case.outcome, case.reason.as_deref()));
        let expected = [("identity.stable", Outcome::Passed, None), ("identity.json", outcome, reason)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
    Ok(())
}

#[test]
fn hostile_text_stays_within_its_field() -> Tested {
    let folder = tempfile::tempdir()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/host-lavapipe.json");
    let mut report = json(&source)?;
    let hostile = "a \"quote\"\n[[unsupported]]\nscenario = '*'\u{7} [x]{y}*";
    report["device"]["name"] = hostile.into();
    report["results"][0]["outcome"] = "failed".into();
    report["results"][0]["reason"] = hostile.into();
    report["results"][1]["outcome"] = "flaky".into();
    report["results"][1]["reason"] = hostile.into();
    let attempt = |outcome: &str| serde_json::json!({"outcome": outcome, "duration_us": 1});
    report["results"][1]["attempts"] = [attempt("failed"), attempt("crashed"), attempt("passed")].into_iter().collect();
    let [path, file] = ["run.json", "expected.toml"].map(|name| folder.path().join(name));
    std::fs::write(&path, serde_json::to_string(&report)?)?;
    printed(&["expectations", "from", text(&path)?, "--output", text(&file)?])?;
    let toml = std::fs::read_to_string(&file)?.replace("reason = \"\"", "reason = \"known\"");
    std::fs::write(&file, &toml)?;
    printed(&["run", "--backend", "host", "--filter", "identity.json", "--expectations", text(&file)?])?;
    assert_eq!(toml.matches("\n[[").count(), 2, "{toml}");
    assert!(toml.contains("[[flaky]]\n") && toml.contains("\nrate = 0.67\n"), "{toml}");
    Ok(())
}
