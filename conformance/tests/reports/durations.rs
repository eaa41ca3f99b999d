//! The durations by which shards are balanced are those of committed reports.

use std::collections::BTreeMap;
use std::path::Path;

use gpu_interop_test_support::committed;

use super::{Tested, report, simulated};

/// The first report with a duration of a case counts.
const REPORTS: [&str; 2] = ["cuda-580.159.04-h100.json", "host-lavapipe.json"];

#[test]
fn durations_are_those_of_the_reports() -> Tested {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut durations = BTreeMap::new();
    for name in REPORTS {
        let report = report(&root.join("results").join(name))?;
        for case in report.results.iter().filter(|case| case.outcome.ran() && case.duration_us > 0) {
            durations.entry(case.name()).or_insert(case.duration_us);
        }
    }
    let text: String = durations.iter().map(|(name, duration)| format!("{name} {duration}\n")).collect();
    Ok(committed(&root.join("durations.txt"), &text)?)
}

/// Otherwise the duration of a case would depend on the others in its process, and on what else starts meanwhile.
#[test]
fn durations_leave_out_the_start_of_processes() -> Tested {
    const LATENCY_US: u64 = 1_500_000;
    let folder = tempfile::tempdir()?;
    let slow = format!("cuDevicePrimaryCtxRetain:{LATENCY_US}");
    let few = ["--filter", "memory.{round_trip,import_twice}"];
    let report =
        simulated::reported(&folder.path().join("slow.json"), &[("GPU_INTEROP_SIM_LATENCY", slow.as_str())], &few)?;
    let ran: Vec<_> = report.results.iter().filter(|case| case.outcome.ran()).collect();
    assert_eq!(ran.len(), 2, "{:?}", report.summary);
    assert!(report.duration_us > LATENCY_US, "{} us", report.duration_us);
    for case in ran {
        assert!((1..LATENCY_US / 2).contains(&case.duration_us), "{}: {} us", case.name(), case.duration_us);
    }
    Ok(())
}
