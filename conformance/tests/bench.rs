//! `conformance bench` as a command, on the host backend: its measurements exist, are positive, and have plausible
//! magnitudes.
#![cfg(unix)]

use std::error::Error;
use std::path::Path;
use std::process::{Command, Output};

use gpu_interop_conformance_cli::{BENCH_SCHEMA, BenchReport, Measurement};

type Tested<T = ()> = Result<T, Box<dyn Error>>;

fn bench(arguments: &[&str]) -> Tested<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.arg("bench").args(arguments).env_remove("GPU_INTEROP_BACKEND");
    command.env("GPU_INTEROP_CUDA_LIBRARY", "/nonexistent/libcuda.so.1").output().map_err(Into::into)
}

/// A quick run on the host backend: its report and its output. Its page is `bench.html` in the folder.
fn measure(folder: &Path, filter: &str) -> Tested<(BenchReport, String)> {
    let (file, page) = (folder.join("bench.json"), folder.join("bench.html"));
    let [json, html] = [&file, &page].map(|file| file.to_str().ok_or("a path that is no text"));
    let output = bench(&["--backend", "host", "--quick", "--filter", filter, "--json", json?, "--html", html?])?;
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    Ok((serde_json::from_str(&std::fs::read_to_string(&file)?)?, printed.into_owned()))
}

fn find<'a>(report: &'a BenchReport, name: &str, variant: &str) -> Tested<&'a Measurement> {
    let found = report.measurements.iter().find(|each| each.name == name && each.variant == variant);
    Ok(found.ok_or_else(|| format!("no {name} of {variant}: {:?}", report.measurements))?)
}

#[test]
fn what_is_asked_for_is_measured_and_plausible() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, printed) = measure(folder.path(), "{load,context,signal.1,wait.8,memory.64KiB}")?;
    assert_eq!((report.schema, report.backend.name.as_str()), (BENCH_SCHEMA, "host"));
    for measurement in &report.measurements {
        let Measurement { median, p10, p90, samples, .. } = measurement;
        assert!(0.0 < *p10 && p10 <= median && median <= p90 && *samples > 0, "{measurement:?}");
        assert_eq!(measurement.unit, "ns");
        // From a nanosecond to a second.
        assert!((1.0..1e9).contains(median), "{measurement:?}");
    }
    for variant in ["backend", "library"] {
        assert!(find(&report, "signal.1", variant)?.samples >= 5);
        // Eight waits cost more than one signal.
        assert!(find(&report, "wait.8", variant)?.median > find(&report, "signal.1", variant)?.p10);
        let step = |step: &str| find(&report, &format!("memory.64KiB.{step}"), variant).map(|each| each.median);
        let steps = step("import")? + step("map")? + step("free_and_destroy")?;
        let all = step("all")?;
        assert!((0.5..2.0).contains(&(steps / all)), "{variant}: the steps come to {steps} ns, all of them to {all}");
    }
    find(&report, "load", "library")?;

    let ratio =
        report.ratios.iter().find(|ratio| ratio.name == "signal.1 library/backend").ok_or("the ratio is missing")?;
    assert!(ratio.low <= ratio.value && ratio.value <= ratio.high && ratio.low > 0.0, "{ratio:?}");
    // Without the driver there is no comparison, and the report states that it is missing.
    assert!(report.ratios.iter().all(|ratio| !ratio.name.contains("raw")), "{:?}", report.ratios);
    for missing in ["every raw variant", "every cudarc variant", "context"] {
        assert!(report.not_measured.iter().any(|gap| gap.what == missing), "{missing}: {:?}", report.not_measured);
        assert!(printed.contains(&format!("not measured: {missing}: unsupported: ")), "{printed}");
    }
    let place = |text: &str| printed.find(text).ok_or_else(|| format!("no {text} in {printed}"));
    assert!(place("ratio signal.1 library/backend")? < place("\nsignal.1 ")?, "ratios first: {printed}");
    Ok(())
}

/// Buffers of a heap cost less than imports, and more than Vulkan's side alone; prepared batches are measured.
#[test]
fn heaps_and_prepared_batches_are_measured() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "{memory.heap,signal.8,wait.8}")?;
    for name in ["signal.8", "wait.8"] {
        assert!(find(&report, name, "prepared")?.median > 0.0);
    }
    if report.exporter.is_some() {
        let each = |variant| find(&report, "memory.heap.allocate", variant).map(|each| each.median);
        let (heap, imports, vulkan) = (each("heap")?, each("imports")?, each("vulkan")?);
        assert!(vulkan < heap && heap < imports, "vulkan {vulkan} ns, heap {heap} ns, imports {imports} ns");
        // Limits are for GPUs.
        assert!(report.ratios.iter().all(|ratio| !ratio.name.starts_with("memory.heap") || ratio.limit.is_none()));
    } else {
        assert!(report.not_measured.iter().any(|gap| gap.what == "memory.heap"), "{:?}", report.not_measured);
    }
    Ok(())
}

/// With a Vulkan driver pictures go to the planes and back; the measurement verifies their bytes.
#[test]
fn pictures_are_handed_over_or_the_missing_driver_is_named() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "video.nv12")?;
    if report.exporter.is_some() {
        let rate = find(&report, "video.nv12", "bridge")?;
        assert_eq!(rate.unit, "frames/s");
        // 50 MB for each picture.
        assert!((0.05..1e4).contains(&rate.median), "{rate:?}");
        // Limits are for GPUs.
        assert!(report.ratios.iter().all(|ratio| ratio.limit.is_none()), "{:?}", report.ratios);
    } else {
        assert!(report.not_measured.iter().any(|gap| gap.what == "video.nv12"), "{:?}", report.not_measured);
    }
    Ok(())
}

/// The measurement compares every byte of a result.
#[test]
fn conversions_are_measured() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "convert.p010")?;
    for variant in ["to_rgba", "to_yuv", "copy"] {
        let rate = find(&report, "convert.p010", variant)?;
        assert_eq!(rate.unit, "GB/s");
        assert!((0.001..1000.0).contains(&rate.median), "{rate:?}");
    }
    // Limits are for GPUs.
    assert!(report.ratios.len() == 2 && report.ratios.iter().all(|ratio| ratio.limit.is_none()), "{:?}", report.ratios);
    Ok(())
}

/// With a Vulkan driver the frame is handed over; each variant verifies its arrival.
#[test]
fn a_frame_is_handed_over_or_the_missing_driver_is_named() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "{memory.64KiB,frame.graphics.1080p}")?;
    if report.exporter.is_some() {
        let (fence, staged) =
            (find(&report, "frame.graphics.1080p", "fence")?, find(&report, "frame.graphics.1080p", "staged")?);
        // 8 MB take some time on any processor.
        assert!(fence.median > 100_000.0 && staged.median > 100_000.0, "{fence:?} {staged:?}");
        assert!(report.ratios.iter().any(|ratio| ratio.name == "frame.graphics.1080p staged/fence"));
        // Beside full synchronisation; its limit is for GPUs.
        let peer = report.ratios.iter().find(|ratio| ratio.name == "frame.graphics.1080p bridge/fence");
        let peer = peer.ok_or("the ratio is missing")?;
        assert!(peer.value > 0.0 && peer.limit.is_none(), "{peer:?}");
        plotted(folder.path(), &report)?;
    } else {
        let gap =
            report.not_measured.iter().find(|gap| gap.what == "frame.graphics.1080p").ok_or("no reason is given")?;
        assert!(gap.stop.reason().contains("Vulkan") || gap.stop.reason().contains("vulkan"), "{gap:?}");
    }
    Ok(())
}

/// The page plots the frames of every variant in their order: the first and the last are at the ends.
fn plotted(folder: &Path, report: &BenchReport) -> Tested {
    let page = std::fs::read_to_string(folder.join("bench.html"))?;
    let paced: Vec<&Measurement> = report.measurements.iter().filter(|each| !each.series.is_empty()).collect();
    assert!(paced.iter().any(|each| each.variant == "fence" && each.series.len() == each.samples), "{paced:?}");
    let lines: Vec<&str> =
        page.split("<polyline points=\"").skip(1).filter_map(|line| line.split('"').next()).collect();
    assert_eq!(lines.len(), paced.len(), "one plot a variant");
    for (line, each) in lines.iter().zip(&paced) {
        let points: Vec<&str> = line.split(' ').collect();
        assert_eq!(points.len(), each.series.len(), "{}: {line}", each.variant);
        assert!(points[0].starts_with("0.0,") && points[points.len() - 1].starts_with("1000.0,"), "{line}");
        // Longer frames are higher.
        let height = |point: &str| point.split_once(',').and_then(|(_, y)| y.parse::<f64>().ok());
        let most = each.series.iter().copied().fold(0.0, f64::max);
        let highest = points.iter().zip(&each.series).filter(|(_, value)| **value >= most);
        let lowest = points.iter().filter_map(|point| height(point)).fold(f64::MAX, f64::min);
        assert!(highest.filter_map(|(point, _)| height(point)).all(|y| y <= lowest), "{}: {line}", each.variant);
    }
    Ok(())
}

/// The ring's rate beside that of the slower side; the ring verifies each frame.
#[test]
fn frames_of_a_ring_are_measured_beside_their_limit() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "{memory.64KiB,frame.ring.graphics.1080p}")?;
    let name = "frame.ring.graphics.1080p";
    if report.exporter.is_some() {
        let rate = |suffix: &str| find(&report, &format!("{name}{suffix}"), "limit").map(|each| each.median);
        let (limit, vulkan, compute) = (rate("")?, rate(".vulkan_alone")?, rate(".compute_alone")?);
        assert!(limit > 0.0 && limit <= vulkan && limit <= compute, "{limit}, {vulkan}, {compute}");
        let ratio = report.ratios.iter().find(|ratio| ratio.name == format!("{name} ring/limit"));
        let ratio = ratio.ok_or("the ratio is missing")?;
        // The intervals of the frames after the first three, batch by batch, in order.
        let interval = find(&report, &format!("{name}.interval"), "ring")?;
        assert_eq!((interval.series.len(), interval.unit.as_str()), (interval.samples, "ns"));
        // A late thread sees two frames end at nearly the same time.
        assert!(interval.series.iter().all(|each| (0.0..60e9).contains(each)), "{interval:?}");
        assert!(interval.series.iter().sum::<f64>() > 1e4, "{interval:?}");
        // Both sides share the processors: its limit is for GPUs.
        assert!(ratio.limit.is_none(), "{ratio:?}");
        let quotient = find(&report, name, "ring")?.median / limit;
        assert!((0.2..5.0).contains(&(ratio.value / quotient)), "{ratio:?}, {quotient}");
    } else {
        assert!(report.not_measured.iter().any(|gap| gap.what == name), "{:?}", report.not_measured);
    }
    Ok(())
}

#[test]
fn many_live_imports_are_compared_with_one() -> Tested {
    let folder = tempfile::tempdir()?;
    let (report, _) = measure(folder.path(), "live_imports")?;
    for level in [1, 10, 100, 1000] {
        find(&report, &format!("live_imports.{level}.import"), "library")?;
    }
    let growth = report.ratios.iter().find(|ratio| ratio.name.ends_with("library: 1000 live/1 live"));
    let growth = growth.ok_or("the growth is missing")?;
    assert!(growth.limit.is_some() && growth.holds.is_some() && growth.value > 0.0, "{growth:?}");
    Ok(())
}

#[test]
fn a_missing_driver_ends_the_run_as_it_ends_others() -> Tested {
    let output = bench(&["--backend", "cuda"])?;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("/nonexistent/libcuda.so.1"), "the path tried: {errors}");
    Ok(())
}

#[test]
fn bad_requests_are_refused_before_anything_is_measured() -> Tested {
    let nothing = bench(&["--backend", "host", "--filter", "nonsense"])?;
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("signal.64"), "what there is: {nothing:?}");
    let unwritable = bench(&["--backend", "host", "--filter", "signal.1", "--json", "/nonexistent/bench.json"])?;
    assert_eq!(unwritable.status.code(), Some(2), "{unwritable:?}");
    assert!(unwritable.stdout.is_empty(), "{unwritable:?}");
    let unknown = bench(&["--backend", "nonsense"])?;
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    Ok(())
}
