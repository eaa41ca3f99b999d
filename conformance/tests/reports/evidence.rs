//! Evidence in reports: messages of the kernel, the GPU's state, the computer, and packages with checksums.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpu_interop_conformance::system::Received;
use gpu_interop_conformance::{Channel, Outcome};
use gpu_interop_conformance_cli::{Gpu, Report};
use gpu_interop_test_support::{CompiledLibrary, source};
use serde_json::Value;

use super::{Tested, conformance, full_report, html, printed, report, simulated, text};

/// Three cases, of which the second one hangs.
const CASES: &str = "memory.{read_device_local,write_device_local,round_trip}";
const HANGS: &str = "cuMemImportFromShareableHandle:2:hang";

#[test]
fn a_message_of_the_kernel_lands_at_its_case_and_at_no_other() -> Tested {
    lands_at_its_case(false)
}

/// The same with a fake of `journalctl`, which prints what is appended to a file.
#[test]
fn an_entry_of_the_journal_lands_at_its_case_and_at_no_other() -> Tested {
    lands_at_its_case(true)
}

const FAKE_JOURNAL: &str = "#!/bin/sh
[ \"$*\" = '--dmesg --follow --lines=0 --output=json --quiet' ] || exit 1
exec tail -n 0 -f \"$FAKE_JOURNAL\"
";

fn lands_at_its_case(through_the_journal: bool) -> Tested {
    let folder = tempfile::tempdir()?;
    let [log, run, page, junit] =
        ["kernel.log", "run.json", "run.html", "run.xml"].map(|name| folder.path().join(name));
    let mut kernel = File::options().create(true).append(true).open(&log)?;
    let write = |kernel: &mut File, message: &str| {
        if through_the_journal {
            writeln!(kernel, "{{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":\"{message}\"}}")
        } else {
            writeln!(kernel, "4,1,1000,-;{message}")
        }
    };
    write(&mut kernel, "NVRM: Xid (PCI:0000:01:00): 13, before the run")?;
    let library = gpu_interop_test_support::build("gpu-interop-sim-cuda")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.args([
        "run",
        "--backend",
        "cuda",
        "--exporter",
        "native",
        "--filter",
        CASES,
        "--jobs",
        "1",
        "--retries",
        "0",
    ]);
    command.args(["--timeout", "8", "--json", text(&run)?, "--html", text(&page)?]);
    command.args(["--junit", text(&junit)?, "--build", "b1", "--kernel-log"]);
    if through_the_journal {
        let program = folder.path().join("journalctl");
        std::fs::write(&program, FAKE_JOURNAL)?;
        std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        let path = std::env::join_paths(
            [folder.path().to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").ok_or("PATH")?)),
        )?;
        command.arg("journalctl").env("PATH", path).env("FAKE_JOURNAL", &log);
    } else {
        command.arg(&log);
    }
    command.env("GPU_INTEROP_CUDA_LIBRARY", library).env("GPU_INTEROP_SIM_FAIL", HANGS);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    lines.find_map(|line| line.ok().filter(|line| line.starts_with("passed"))).ok_or("no case has passed")?;
    // The second case runs, and hangs.
    std::thread::sleep(Duration::from_millis(1000));
    let message = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.";
    write(&mut kernel, message)?;
    let rest: String = lines.map_while(Result::ok).map(|line| line + "\n").collect();
    child.wait()?;

    let report: Report = report(&run)?;
    assert_eq!(report.build.as_deref(), Some("b1"));
    let found: Vec<(Outcome, Vec<&str>)> = report
        .results
        .iter()
        .map(|case| (case.outcome, case.kernel_log.iter().map(|line| line.text.as_str()).collect()))
        .collect();
    let ends: Vec<Outcome> = found.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(ends.iter().filter(|outcome| **outcome == Outcome::TimedOut).count(), 1, "{ends:?}\n{rest}");
    for (outcome, lines) in &found {
        let expected = if *outcome == Outcome::TimedOut { vec![message] } else { Vec::new() };
        assert_eq!(lines, &expected, "{found:?}");
    }
    assert_eq!(report.kernel_log, []);
    let event = report.results.iter().find_map(|case| case.kernel_log.first()?.event.clone()).ok_or("no event")?;
    assert_eq!((event.kind.as_str(), event.code, event.lost), ("xid", Some(79), true));
    // In every format, once or with its meaning.
    assert!(rest.contains(&format!("# kernel: {message} [the GPU has fallen off the bus]")), "{rest}");
    let page = html::parse(&std::fs::read_to_string(page)?)?;
    assert_eq!(page.with_class("kernel").len(), 1);
    assert!(std::fs::read_to_string(junit)?.contains(message));
    Ok(())
}

/// At a case that has passed, for example.
#[test]
fn the_end_of_another_process_is_not_emphasised() -> Tested {
    let folder = tempfile::tempdir()?;
    let [run, page] = ["run.json", "run.html"].map(|name| folder.path().join(name));
    let mut report = serde_json::to_value(full_report()?)?;
    let line = |meaning: &str, other: bool| {
        let event = serde_json::json!({"kind": "crashed", "meaning": meaning, "lost": false, "other_process": other});
        serde_json::json!({"text": "x[1]: segfault at 0", "event": event})
    };
    let lines = [line("another process crashed", true), line("a process crashed", false)];
    report["results"][0]["kernel_log"] = lines.into_iter().collect();
    std::fs::write(&run, serde_json::to_string(&report)?)?;
    printed(&["merge", text(&run)?, "--html", text(&page)?])?;
    let page = html::parse(&std::fs::read_to_string(page)?)?;
    let kernel = page.with_class("kernel");
    let list = kernel.first().ok_or("no messages")?;
    let strong: Vec<String> = list.named("strong").iter().map(|node| node.text()).collect();
    assert_eq!(strong, ["a process crashed"]);
    assert!(list.text().contains("(another process crashed)"), "{}", list.text());
    Ok(())
}

#[test]
fn a_report_describes_the_computer() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.json");
    let host = simulated::reported(&path, &[], &["--filter", "identity.json"])?.host.ok_or("no host")?;
    assert_eq!((host.os.as_str(), host.architecture.as_str()), (std::env::consts::OS, std::env::consts::ARCH));
    assert!(host.kernel.is_some() && host.memory_bytes.is_some() && host.cores > 0, "{host:?}");
    assert_eq!(host.gpu, None, "a simulator is no GPU");
    let sum = Command::new("sha256sum").arg(env!("CARGO_BIN_EXE_conformance")).output()?;
    let sum = String::from_utf8(sum.stdout)?;
    assert_eq!(host.command_sha256.as_deref(), sum.split_whitespace().next());
    Ok(())
}

/// The state of a GPU, read through the fake of NVIDIA's management library: by the same process, twice.
fn state(library: &str, arguments: &[&str]) -> Tested<Value> {
    let (channel, there) = Channel::pair()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.arg("gpu-state").args(arguments).env("GPU_INTEROP_NVML_LIBRARY", library);
    let mut child = command.stdin(there).spawn()?;
    drop(command);
    let ask = || -> Tested<Value> {
        channel.send("read", 0, &[])?;
        assert!(channel.connection().wait(Duration::from_secs(10))?, "no reply");
        match channel.connection().receive(16 << 10)? {
            Received::Message(bytes, _) => Ok(serde_json::from_slice(&bytes)?),
            Received::Gone => Err("the process has ended".into()),
        }
    };
    let (first, second) = (ask()?, ask()?);
    assert_eq!(first, second);
    drop(channel);
    let status = child.wait()?;
    assert!(status.success(), "{status}");
    Ok(first)
}

#[test]
fn the_state_of_a_gpu_is_read_through_nvml() -> Tested {
    let fake = CompiledLibrary::compile(&source("nvml.c"), &[]);
    let fake = fake.library();
    for device in [["--pci", "0000:1b:00.0"], ["--uuid", "GPU-11111111-2222-3333-4444-555555555555"]] {
        let gpu: Gpu = serde_json::from_value(state(text(&fake)?, &device)?["Ok"].take())?;
        assert_eq!(gpu.source, "NVML 13.580.159.04");
        assert_eq!(gpu.firmware.as_deref(), Some("96.00.74.00.01"));
        assert_eq!(gpu.gsp_firmware.as_deref(), Some("580.159.04"));
        assert_eq!((gpu.ecc, gpu.mig), (Some(true), Some(false)));
        assert_eq!(gpu.compute_mode.as_deref(), Some("default"));
        assert_eq!(gpu.sensors.to_string(), "41 °C, 72 W, graphics 1000 MHz, memory 1002 MHz");
        assert!(gpu.max_clocks_mhz.is_empty(), "this library is older than that function");
    }
    let other = state(text(&fake)?, &["--pci", "0000:2b:00.0"])?;
    assert_eq!(other["Err"]["reason"], "nvmlDeviceGetHandleByPciBusId_v2 failed with 6");
    let missing = state("/nonexistent/libnvidia-ml.so.1", &["--pci", "0000:1b:00.0"])?;
    assert!(missing["Err"]["reason"].as_str().unwrap_or_default().contains("/nonexistent"), "{missing}");
    // As if it were not set: the system's library, or its answer.
    let system = state("", &["--pci", "0000:ff:00.0"])?;
    assert!(system["Err"]["reason"].as_str().unwrap_or_default().contains("nv"), "{system}");
    Ok(())
}

#[test]
fn a_package_is_verified() -> Tested {
    let folder = tempfile::tempdir()?;
    let [run, log, package] = ["run.json", "dmesg.txt", "results.tar"].map(|name| folder.path().join(name));
    simulated::reported(&run, &[("GPU_INTEROP_SIM_FAIL", "cuMemImportFromShareableHandle:1:abort")], &["--verbose"])?;
    std::fs::write(&log, "a log")?;
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/cuda-580.159.04.json");
    let pack = ["package", text(&run)?, text(&committed)?, "--attach", text(&log)?, "--output", text(&package)?];
    printed(&pack)?;
    let said = printed(&["verify", text(&package)?])?;
    assert!(said.contains("reports/run.json: cuda, ") && said.contains("match their checksums"), "{said}");

    // The other side needs no command of ours for the checksums.
    let unpacked = folder.path().join("unpacked");
    std::fs::create_dir(&unpacked)?;
    let tar = |arguments: &[&str]| -> Tested<bool> {
        Ok(Command::new("tar").arg("-C").arg(&unpacked).args(arguments).status()?.success())
    };
    assert!(tar(&["-xf", text(&package)?])?);
    let sums = Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&unpacked).status()?;
    assert!(sums.success());
    assert_eq!(std::fs::read_to_string(unpacked.join("attachments/dmesg.txt"))?, "a log");
    let logs = unpacked.join("logs").read_dir()?.count();
    assert!(logs > 0, "the log of a crash is a file");

    // The command must be the one of the report; an earlier report does not name its command.
    let with = |command: &str| -> Tested<_> {
        Ok(conformance(&["verify", text(&package)?, "--command", command])?.status.code())
    };
    assert_eq!(with(env!("CARGO_BIN_EXE_conformance"))?, Some(1));
    printed(&["package", text(&run)?, "--output", text(&package)?])?;
    assert_eq!(with(env!("CARGO_BIN_EXE_conformance"))?, Some(0));
    assert_eq!(with("/bin/sh")?, Some(1));

    for (damage, message) in [
        ("a log of another machine", "attachments/dmesg.txt is not the file that was packed"),
        ("", "attachments/dmesg.txt is missing"),
    ] {
        printed(&pack)?;
        let file = unpacked.join("attachments/dmesg.txt");
        if damage.is_empty() {
            std::fs::remove_file(&file)?
        } else {
            std::fs::write(&file, damage)?
        }
        let changed = folder.path().join("changed.tar");
        let script = "find MANIFEST.json SHA256SUMS attachments logs reports -type f | tar -cf \"$1\" -T -";
        let made = Command::new("sh").args(["-c", script, "sh", text(&changed)?]).current_dir(&unpacked).status()?;
        assert!(made.success());
        let output = conformance(&["verify", text(&changed)?])?;
        let said = String::from_utf8(output.stdout)?;
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(message) && said.contains("SHA256SUMS is not that of the files"), "{said}");
    }
    assert_eq!(conformance(&["verify", text(&run)?])?.status.code(), Some(2));
    Ok(())
}
