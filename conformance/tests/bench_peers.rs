//! `conformance bench` beside its peers, on the simulator of CUDA in the place where `cudarc` looks for the driver.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpu_interop_conformance::StopKind;
use gpu_interop_conformance_cli::{BenchReport, Limit, Ratio, simulated_identity};
use gpu_interop_test_support::build;

type Tested<T = ()> = Result<T, Box<dyn Error>>;

/// A quick run with the simulator as `libcuda.so.1`, and more variables: its report, and its output.
fn measure(folder: &Path, backend: &str, filter: &str, more: &[(&str, PathBuf)]) -> Tested<(BenchReport, Output)> {
    std::fs::copy(build("gpu-interop-sim-cuda")?, folder.join("libcuda.so.1"))?;
    let json = folder.join("bench.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.args(["bench", "--backend", backend, "--quick", "--filter", filter, "--json"]).arg(&json);
    for variable in ["GPU_INTEROP_BACKEND", "GPU_INTEROP_CUDA_LIBRARY", "GPU_INTEROP_HIP_LIBRARY"] {
        command.env_remove(variable);
    }
    command.env("LD_LIBRARY_PATH", folder).envs(simulated_identity()).envs(more.iter().cloned());
    let output = command.output()?;
    assert!(output.status.success(), "{output:?}");
    Ok((serde_json::from_str(&std::fs::read_to_string(&json)?)?, output))
}

fn ratio<'a>(report: &'a BenchReport, name: &str) -> Tested<&'a Ratio> {
    let found = report.ratios.iter().find(|ratio| ratio.name == name);
    Ok(found.ok_or_else(|| format!("no {name}: {:?}, {:?}", report.ratios, report.not_measured))?)
}

/// Each variant verifies the exporter's last word before it is measured.
#[test]
fn imports_are_judged_beside_cudarc() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "cuda", "{memory.64KiB,live_imports}", &[])?;
    assert!(report.backend.simulated, "not the simulator: {:?}", report.backend);
    for name in ["memory.64KiB.all", "live_imports.1.all", "live_imports.1000.all"] {
        let ratio = ratio(&report, &format!("{name} library/cudarc"))?;
        assert_eq!(ratio.limit, Some(Limit::AtMost(1.05)), "{ratio:?}");
        assert!(ratio.value > 0.0 && ratio.holds == Some(ratio.value <= 1.05), "{ratio:?}");
    }
    // The driver's own growth is not the library's.
    let growth = ratio(&report, "live_imports.all library/raw: 1000 live/1 live")?;
    assert_eq!(growth.limit, Some(Limit::AtMost(1.05)), "{growth:?}");
    let beside_raw = |level: u32| ratio(&report, &format!("live_imports.{level}.all library/raw"));
    let (many, one) = (beside_raw(1000)?, beside_raw(1)?);
    assert!((growth.value - many.value / one.value).abs() < 1e-9, "{growth:?}");
    let of = |variant: &str| ratio(&report, &format!("live_imports.all {variant}: 1000 live/1 live"));
    let (library, raw) = (of("library")?, of("raw")?);
    assert_eq!((library.limit, raw.limit), (None, None));
    assert!(report.not_measured.is_empty(), "{:?}", report.not_measured);
    Ok(())
}

/// AMD's interface on CUDA's driver: `cudarc` would find that driver, but does not run beneath this backend.
#[test]
fn another_backend_has_no_cudarc() -> Tested {
    let folder = tempfile::tempdir()?;
    let hip = [("GPU_INTEROP_HIP_LIBRARY", build("gpu-interop-hip-on-cuda")?)];
    let (report, _) = measure(folder.path(), "hip", "memory.64KiB", &hip)?;
    let variants = || report.measurements.iter().map(|each| each.variant.as_str());
    assert!(variants().any(|variant| variant == "library") && variants().all(|variant| variant != "cudarc"));
    assert!(report.ratios.iter().all(|ratio| !ratio.name.contains("cudarc")), "{:?}", report.ratios);
    let gap = report.not_measured.iter().find(|gap| gap.what == "every cudarc variant").ok_or("no reason is given")?;
    assert!(gap.stop.kind == StopKind::Unsupported && gap.stop.reason.contains("hip"), "{gap:?}");
    Ok(())
}

/// Frames and round trips are compared with full synchronisation; on a simulator nothing is judged.
#[test]
fn hand_overs_are_compared_with_full_synchronisation() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) =
        measure(folder.path(), "cuda", "{memory.64KiB,frame.graphics.1080p,timeline.round_trip.graphics}", &[])?;
    if report.exporter.is_none() {
        println!("skipped: no Vulkan driver: {:?}", report.not_measured);
        return Ok(());
    }
    for name in ["frame.graphics.1080p", "timeline.round_trip.graphics"] {
        let ratio = ratio(&report, &format!("{name} bridge/fence"))?;
        assert!(ratio.value > 0.0 && ratio.limit.is_none(), "{ratio:?}");
    }
    Ok(())
}
