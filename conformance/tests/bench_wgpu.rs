//! `conformance bench` of frames of wgpu, in a build with the feature `wgpu`, on the host backend.
#![cfg(unix)]

use std::error::Error;
use std::process::Command;

use gpu_interop_conformance_cli::BenchReport;

/// Each variant verifies its frames, and that it detects wrong ones.
#[test]
fn frames_of_wgpu_are_measured_beside_vulkans() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("bench.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command
        .args(["bench", "--backend", "host", "--quick", "--filter", "{signal.1,frame.wgpu.720p}", "--json"])
        .arg(&json);
    let output = command.env_remove("GPU_INTEROP_BACKEND").output()?;
    assert!(output.status.success(), "{output:?}");
    let report: BenchReport = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    if report.exporter.is_none() {
        println!("skipped: no Vulkan driver: {:?}", report.not_measured);
        return Ok(());
    }
    for name in ["frame.wgpu.720p", "frame.wgpu.720p.in_flight"] {
        for variant in ["wgpu", "ash", "fence", "readback"] {
            let found = report.measurements.iter().find(|each| each.name == name && each.variant == variant);
            let found = found.ok_or_else(|| format!("no {name} of {variant}: {:?}", report.not_measured))?;
            // Copies of several megabytes.
            assert!(found.median > 100_000.0 && found.unit == "ns" && found.samples >= 3, "{found:?}");
        }
        for ratio in ["wgpu/ash", "wgpu/fence", "readback/wgpu"] {
            let found = report.ratios.iter().find(|each| each.name == format!("{name} {ratio}"));
            let found = found.ok_or_else(|| format!("no {name} {ratio}: {:?}", report.ratios))?;
            // On the CPU all ways copy in the same memory, and nothing is judged.
            assert!(found.value > 0.0 && found.limit.is_none(), "{found:?}");
        }
    }
    Ok(())
}
