//! `run --require`: before the run, what it would use; after it, what ran.

use super::{Tested, conformance};

#[test]
fn a_run_without_what_it_requires_is_no_success() -> Tested {
    let run = |options: &[&str]| -> Tested<(Option<i32>, String, bool)> {
        let output = conformance(&[&["run", "--backend", "host", "--quiet"], options].concat())?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?, output.stdout.is_empty()))
    };
    let native = ["--exporter", "native", "--filter", "identity.json"];
    for (required, part, before) in [
        ("cuda", "--require cuda: this run would use the backend host", true),
        ("vulkan", "--require vulkan: --exporter excludes it from this run", true),
        // The only case has no exporter.
        ("native", "--require native: no scenario ran with this exporter", false),
        ("host,native", "--require native: no scenario ran with this exporter", false),
        ("nothing", "--require nothing: unknown backend or exporter", true),
    ] {
        let (status, said, is_silent) = run(&[native.as_slice(), &["--require", required]].concat())?;
        assert!(status == Some(2) && said.contains(part), "{required}: {status:?}: {said}");
        assert_eq!(is_silent, before, "{required}: nothing runs if it cannot be met");
    }
    let both = ["--exporter", "native", "--filter", "{identity.json,memory.fill}", "--require", "host,native"];
    assert_eq!(run(&both)?.0, Some(0));
    Ok(())
}
