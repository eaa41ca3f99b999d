//! Comparison of a run's cases with the recorded ones, for the tests that run the suite.

use std::path::Path;

use gpu_interop_conformance::{ExporterName, Exporters, Outcome, Suite};
use gpu_interop_conformance_cli::CaseReport;
use gpu_interop_test_support::{Case, Known};

/// Fails unless each case ended as the first of `sections` that names it says, and passed if none does. The sections are
/// those of this system's file in the folder `expected` of `test`. `GPU_INTEROP_RECORD` writes the first section.
pub(crate) fn as_recorded<'a>(
    test: &str,
    sections: &[&str],
    cases: impl IntoIterator<Item = &'a CaseReport>,
) -> Result<(), String> {
    let case = |case: &CaseReport| Case {
        name: case.name(),
        outcome: case.outcome.name().to_owned(),
        reason: case.reason.clone().unwrap_or_default(),
    };
    let cases: Vec<Case> = cases.into_iter().map(case).collect();
    let suite = Suite::standard();
    let scenarios = suite.scenarios().iter().map(|scenario| (scenario.id, scenario.exporters == Exporters::Any));
    let known = Known::new(scenarios, &ExporterName::ALL.map(ExporterName::name));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(test).join("expected");
    let file = folder.join(std::env::consts::OS).with_extension("toml");
    gpu_interop_test_support::as_recorded(&file, sections, &cases, &known)
}

/// Fails unless at least so many scenarios passed whose ids have these prefixes. [`as_recorded`] leaves out the limits of a
/// machine's Vulkan driver, and a file that was written by hand names no cases.
pub(crate) fn at_least(cases: &[CaseReport], counts: &[(&str, usize)]) -> Result<(), String> {
    for (start, least) in counts {
        let passed = |case: &&CaseReport| case.outcome == Outcome::Passed && case.id.starts_with(start);
        let count = cases.iter().filter(passed).count();
        if count < *least {
            return Err(format!("{count} of {start}* passed, and not {least}"));
        }
    }
    Ok(())
}
