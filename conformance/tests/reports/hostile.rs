//! Reports of others: wrong numbers, files that are none, texts with escapes. Each command that reads one ends in time with an
//! error that names the file, and neither a terminal, a page nor a table shows more than text.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpu_interop_conformance_cli::{Merged, Report};
use serde_json::{Value, json};
use wait_timeout::ChildExt;

use super::{Tested, committed, html, json as read_json, simulated, text};

/// Address space of a command, KiB. Reports here are small.
const MEMORY: &str = "4000000";
/// More than a command needs on a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// What a command printed, with its exit status.
struct Ended {
    status: i32,
    said: String,
}

/// Runs a command in a folder. Fails if it does not end, by itself, with one of its documented exit statuses.
fn ended(folder: &Path, arguments: &[&str]) -> Tested<Ended> {
    ended_with("/dev/null", folder, arguments)
}

/// The same with these Vulkan drivers.
fn ended_with(drivers: &str, folder: &Path, arguments: &[&str]) -> Tested<Ended> {
    let output = tempfile::tempfile()?;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v $0; exec \"$@\"", MEMORY, env!("CARGO_BIN_EXE_conformance")]).args(arguments);
    command.current_dir(folder).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    command.env_remove("GPU_INTEROP_BACKEND").env("VK_DRIVER_FILES", drivers);
    let mut child = command.spawn()?;
    let status = child.wait_timeout(LIMIT)?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let mut output = output;
    std::io::Seek::rewind(&mut output)?;
    let mut said = Vec::new();
    output.read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let what = format!("conformance {}", arguments.join(" "));
    let status = status.ok_or_else(|| format!("{what} did not end: {said}"))?;
    match status.code() {
        Some(status @ 0..=3) if !said.contains("panicked") => Ok(Ended { status, said }),
        _ => Err(format!("{what}: {status}: {said}").into()),
    }
}

/// A small report with every field.
fn run() -> Tested<Value> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/host-lavapipe.json");
    let mut report = read_json(&source)?;
    report["results"].as_array_mut().ok_or("results")?.truncate(4);
    let calls = json!({"left_out": 1, "newest": [{
        "number": 1, "thread": 2, "function": "cuInit", "arguments": "0", "began_us": 3,
        "returned": {"code": 0, "made": "x", "duration_ns": 4},
    }]});
    let kernel = json!([{
        "text": "NVRM: Xid (PCI:0000:01:00): 79", "during": ["a.b"],
        "event": {"kind": "xid", "code": 79, "meaning": "off the bus", "lost": true},
    }]);
    let sensors = json!({"temperature_mc": 41_000, "power_mw": 72_000, "clocks_mhz": {"graphics": 1000}});
    let attempt =
        |outcome| json!({"outcome": outcome, "reason": "broken", "log": "a log", "calls": calls, "duration_us": 5});
    for (case, outcome) in [(0, "failed"), (1, "flaky"), (2, "skipped")] {
        let case = &mut report["results"][case];
        case["outcome"] = outcome.into();
        case["reason"] = "broken".into();
        case["log"] = "a log".into();
        case["calls"] = calls.clone();
        case["kernel_log"] = kernel.clone();
        case["observed"] = json!([{"call": "x", "raw": "y", "library": "z"}]);
        case["left_out"] = json!(["a format"]);
        case["sensors"] = json!({"before": sensors, "after": sensors});
        case["attempts"] = json!([attempt("failed"), attempt("passed")]);
        case["flake_rate"] = json!(0.5);
    }
    report["kernel_log"] = kernel;
    report["build"] = "b".into();
    report["stopped"] = json!({"cause": "interrupted", "reason": "interrupted"});
    report["resumed"] = json!([report["started"]]);
    report["cases"] = json!({"name": "list", "sha256": "0"});
    report["emulated"] = json!({"kernel_driver": "d", "runtime": "5.2.21153", "release": "5.2.3"});
    report["backend"]["library"] = "/lib/x.so".into();
    report["shards"] = json!([{"index": 1, "device": report["device"], "duration_us": 1}]);
    report["host"]["kernel_modules"] = json!({"nvidia": "580"});
    report["host"]["gpu"] = json!({"source": "NVML", "firmware": "1", "sensors": sensors});
    serde_json::from_value::<Report>(report.clone())?;
    Ok(report)
}

/// One of two shards, with all of its cases.
fn shard(total: usize, count: usize, position: usize) -> Tested<Value> {
    let mut report = run()?;
    report["results"].as_array_mut().ok_or("results")?.truncate(1);
    report["shard"] = json!({
        "index": 1, "count": count, "total": total, "positions": [position], "cases_sha256": "",
    });
    Ok(report)
}

/// A small report of measurements.
fn bench() -> Tested<Value> {
    let all = committed(true)?;
    let mut bench =
        read_json(all.iter().find(|path| path.ends_with("cuda-580.159.04-h100-bench.json")).ok_or("none")?)?;
    for list in ["measurements", "ratios", "not_measured"] {
        bench[list].as_array_mut().ok_or("a list")?.truncate(4);
    }
    Ok(bench)
}

fn write(folder: &Path, name: &str, value: &Value) -> Tested {
    std::fs::create_dir_all(folder.join(name).parent().ok_or("a folder")?)?;
    Ok(std::fs::write(folder.join(name), serde_json::to_string(value)?)?)
}

/// Every command that reads a report, on `a.json` and `b.json`, which are also in the folder `all`, and with their results.
const COMMANDS: [&[&str]; 8] = [
    &["merge", "a.json", "b.json", "--markdown", "m.md", "--html", "m.html", "--json", "m.json", "--fail"],
    &["diff", "a.json", "b.json", "--html", "d.html", "--json", "d.json"],
    &["diff", "b.json", "a.json", "--", "b.json", "a.json"],
    &["site", "all", "--output", "site"],
    &["package", "a.json", "b.json", "--output", "p.tar"],
    &["expectations", "from", "a.json"],
    &["run", "--backend", "host", "--filter", "identity.json", "--quiet", "--baseline", "a.json", "--junit", "r.xml"],
    &["run", "--backend", "host", "--filter", "identity.json", "--quiet", "--resume", "a.json"],
];

/// Runs every command, and `verify` of what `package` packed.
fn read_by_all(folder: &Path) -> Tested<Vec<Ended>> {
    for name in ["a.json", "b.json"] {
        std::fs::create_dir_all(folder.join("all"))?;
        std::fs::copy(folder.join(name), folder.join("all").join(name))?;
    }
    let mut all = Vec::new();
    for arguments in COMMANDS {
        let end = ended(folder, arguments)?;
        let names_a_file = ["a.json", "b.json"].iter().any(|name| end.said.contains(name));
        assert!(end.status != 2 || names_a_file, "{arguments:?}: {}", end.said);
        all.push(end);
    }
    if folder.join("p.tar").exists() {
        all.push(ended(folder, &["verify", "p.tar"])?);
        std::fs::remove_file(folder.join("p.tar"))?;
    }
    Ok(all)
}

#[test]
fn numbers_of_a_report_are_neither_sizes_nor_bounds() -> Tested {
    for (report, expected) in [
        (shard(1 << 33, 1, 0)?, "8589934591 of 8589934592 cases are in no shard"),
        (shard(1 << 62, 1, 0)?, "4611686018427387903 of 4611686018427387904 cases are in no shard"),
        (shard(1, 1 << 60, 0)?, "of 1152921504606846976 shards these are missing: 2, 3, 4"),
        (shard(1, 0, 0)?, "`shard`: there is no number 1 among 0"),
        (shard(1, 1, 1 << 40)?, "`shard`: there is no position 1099511627776 among 1 cases"),
    ] {
        let folder = tempfile::tempdir()?;
        write(folder.path(), "a.json", &report)?;
        write(folder.path(), "b.json", &run()?)?;
        read_by_all(folder.path())?;
        let merged = ended(folder.path(), &["merge", "a.json"])?;
        assert!(merged.status == 2 && merged.said.contains(&format!("a.json: {expected}")), "{}", merged.said);
        assert!(merged.said.len() < 2000, "{}", merged.said.len());
        let site = ended(folder.path(), &["site", "all", "--output", "site"])?;
        assert!(site.said.contains(&format!("a.json: {expected}")), "{}", site.said);
    }
    let folder = tempfile::tempdir()?;
    let mut long = run()?;
    long["duration_us"] = u64::MAX.into();
    for case in long["results"].as_array_mut().ok_or("results")? {
        case["duration_us"] = u64::MAX.into();
    }
    write(folder.path(), "a.json", &long)?;
    write(folder.path(), "b.json", &long)?;
    read_by_all(folder.path())?;
    let mut measured = bench()?;
    for measurement in measured["measurements"].as_array_mut().ok_or("measurements")? {
        measurement["samples"] = u64::MAX.into();
    }
    for name in ["a.json", "b.json"] {
        write(folder.path(), name, &measured)?;
    }
    read_by_all(folder.path())?;
    let arguments = ["diff", "--json", "d.json", "a.json", "a.json", "--", "b.json", "b.json"];
    let end = ended(folder.path(), &arguments)?;
    assert_eq!(end.status, 0, "{}", end.said);
    let difference = read_json(&folder.path().join("d.json"))?;
    let sums = difference["figures"].as_array().ok_or("figures")?.iter();
    let sums: Vec<_> = sums.filter_map(|figure| figure["after"]["samples"].as_u64()).collect();
    assert!(!sums.is_empty() && sums.iter().all(|sum| *sum == u64::MAX), "{sums:?}");
    let many = "1/1000000000000000000";
    let sharded = ended(folder.path(), &["run", "--backend", "host", "--filter", "identity.*", "--shard", many])?;
    assert_eq!(sharded.status, 0, "{}", sharded.said);
    Ok(())
}

/// A pipe without a writer, a device that never ends, and a folder.
#[test]
fn only_regular_files_are_reports() -> Tested {
    let folder = tempfile::tempdir()?;
    write(folder.path(), "b.json", &run()?)?;
    std::fs::create_dir_all(folder.path().join("all"))?;
    let pipe = folder.path().join("all/a.json");
    assert!(Command::new("mkfifo").arg(&pipe).status()?.success() && pipe.metadata()?.file_type().is_fifo());
    std::fs::copy(folder.path().join("b.json"), folder.path().join("all/b.json"))?;
    std::fs::create_dir(folder.path().join("folder"))?;
    let site = ended(folder.path(), &["site", "all", "--output", "site"])?;
    assert!(
        site.status == 0 && site.said.contains("a.json: it is not a regular file; write it to a file"),
        "{}",
        site.said
    );
    for file in ["all/a.json", "/dev/zero", "folder"] {
        for arguments in COMMANDS.iter().filter(|arguments| arguments[0] != "site") {
            let named: Vec<&str> = arguments.iter().map(|name| if *name == "a.json" { file } else { *name }).collect();
            let end = ended(folder.path(), &named)?;
            assert!(end.status > 0 && end.said.contains(&format!("{file}: it is not a regular file")), "{}", end.said);
        }
        for arguments in [["verify", file].as_slice(), &["package", "b.json", "--attach", file, "--output", "p.tar"]] {
            let end = ended(folder.path(), arguments)?;
            assert!(end.status == 2 && end.said.contains(&format!("{file}: it is not a regular file")), "{}", end.said);
        }
    }
    let missing = ended(folder.path(), &["diff", "b.json", "missing.json"])?;
    assert!(missing.status == 2 && missing.said.contains("missing.json: "), "{}", missing.said);
    Ok(())
}

/// A generator of numbers, from a seed.
struct Numbers(u64);

impl Numbers {
    /// Below `bound`.
    fn next(&mut self, bound: usize) -> usize {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap_or(0)
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.next(all.len())].clone()
    }
}

/// The places of all values, as JSON pointers; of a list those of the first values.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| {
            let place = format!("{at}/{}", escaped(name));
            found.push(place.clone());
            places(inner, &place, found);
        }),
        Value::Array(values) => values.iter().take(4).enumerate().for_each(|(index, inner)| {
            let place = format!("{at}/{index}");
            found.push(place.clone());
            places(inner, &place, found);
        }),
        _ => {}
    }
}

fn mutated(numbers: &mut Numbers, base: &Value) -> Value {
    let whole = [0, 1, 1 << 31, 1 << 32, 1 << 53, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX];
    let broken = [-1.0, -0.0, 0.5, 1e-320, 1e19, 1e308, -1e308];
    let texts = ["", "x", "0", "\u{1b}[2J", "../../x", "9999-99-99", "\0", "<script>", "18446744073709551615"];
    let mut value = base.clone();
    for _ in 0..numbers.of(&[1, 1, 1, 2, 3]) {
        let mut all = Vec::new();
        places(&value, "", &mut all);
        let place = numbers.of(&all);
        let (parent, name) = place.rsplit_once('/').unwrap_or_default();
        let choice = numbers.next(20);
        match value.pointer_mut(parent) {
            Some(Value::Object(fields)) if choice < 2 => drop(fields.remove(name)),
            Some(Value::Array(values)) if choice < 2 => drop(values.pop()),
            Some(Value::Array(values)) if choice < 5 => values.extend(values.clone()),
            _ => {}
        }
        let Some(at) = value.pointer_mut(&place) else { continue };
        *at = match (choice, &*at) {
            (..12, Value::Number(_)) => whole[numbers.next(whole.len())].into(),
            (..15, Value::Number(_)) => broken[numbers.next(broken.len())].into(),
            (..15, Value::String(text)) => match numbers.next(3) {
                0 => text.repeat(50).into(),
                1 => format!("{text}\n").into(),
                _ => numbers.of(&texts).into(),
            },
            (..8, other) => other.clone(),
            _ => numbers.of(&[Value::Null, json!(true), json!([]), json!({}), json!([[]]), json!({"": ""}), json!(-1)]),
        };
    }
    value
}

/// Random changes of reports of every form, from a fixed seed.
#[test]
fn no_change_of_a_report_ends_a_command_otherwise_than_with_an_error() -> Tested {
    let bench = bench()?;
    let sourced = |report: Value| json!({"source": "s", "report": report});
    let merged = json!({
        "schema": 2, "tool": run()?["tool"], "reports": [sourced(run()?), sourced(shard(2, 2, 0)?)],
        "benches": [sourced(bench.clone())], "not_read": [{"source": "x", "reason": "y"}],
    });
    serde_json::from_value::<Merged>(merged.clone())?;
    let bases = [run()?, run()?, shard(2, 2, 0)?, bench, merged];
    let seed = std::env::var("GPU_INTEROP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ seed);
    for round in 0..40 {
        let folder = tempfile::tempdir()?;
        let base = numbers.of(&bases);
        write(folder.path(), "a.json", &mutated(&mut numbers, &base))?;
        let other = if round % 2 == 0 { base } else { numbers.of(&bases) };
        write(folder.path(), "b.json", &other)?;
        if let Err(error) = read_by_all(folder.path()) {
            let kept = folder.keep();
            panic!("seed {seed}, round {round}: {error}; the reports are in {}", kept.display());
        }
    }
    Ok(())
}

/// Controls a terminal, hides text, and is HTML and Markdown.
const HOSTILE: &str =
    "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}1A\u{202e}\r<img src=x onerror=alert(1)>\n\n# h | `a` [l](http://x) **b** &lt;";

/// Fails if the text controls a terminal.
fn is_harmless(what: &str, text: &str) {
    let controls = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202a}'..='\u{202e}');
    assert!(!text.contains(controls), "{what}: {text:?}");
}

/// The report with hostile text wherever text is valid.
fn poisoned() -> Tested<Value> {
    let mut report = run()?;
    let mut all = Vec::new();
    places(&report, "", &mut all);
    let mut count = 0;
    for place in all {
        let Some(at) = report.pointer_mut(&place).filter(|value| value.is_string()) else { continue };
        let before = std::mem::replace(at, HOSTILE.into());
        if serde_json::from_value::<Report>(report.clone()).is_ok() {
            count += 1;
        } else {
            *report.pointer_mut(&place).ok_or("the same place")? = before;
        }
    }
    for place in ["/host/packages", "/host/kernel_modules", "/host/gpu/sensors/clocks_mhz", "/summary"] {
        let fields = report.pointer_mut(place).and_then(Value::as_object_mut).ok_or(place)?;
        let value = fields.values().next().ok_or(place)?.clone();
        fields.insert(HOSTILE.into(), value);
    }
    assert!(count > 40, "{count}");
    serde_json::from_value::<Report>(report.clone())?;
    Ok(report)
}

#[test]
fn texts_of_a_report_are_only_text() -> Tested {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    write(folder.path(), "a.json", &poisoned()?)?;
    write(folder.path(), "b.json", &run()?)?;
    let ends = read_by_all(folder.path())?;
    for (end, arguments) in ends.iter().zip(COMMANDS.iter().chain([&["verify"].as_slice()])) {
        is_harmless(&arguments.join(" "), &end.said);
        // No line of another's making: each begins as the command's own ones do.
        let is_forged = |line: &str| line.starts_with("# h");
        assert!(arguments[0] == "expectations" || !end.said.lines().any(is_forged), "{arguments:?}: {}", end.said);
    }
    assert!(ends[0].said.contains(r"x\u001b[2J\u001b]0;t\u0007\u009b1A\u202e"), "{}", ends[0].said);
    let shown = ends.last().ok_or("verify")?;
    assert!(shown.status == 0 && shown.said.contains(r"\u001b[2J"), "{}", shown.said);

    let mut pages = vec![at("m.html"), at("d.html")];
    pages.extend(at("site").read_dir()?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?);
    assert_eq!(pages.len(), 6, "{pages:?}");
    let mut shown = 0;
    for page in &pages {
        let source = std::fs::read_to_string(page)?;
        is_harmless(text(page)?, &source);
        let tree = html::parse(&source).map_err(|error| format!("{}: {error}", page.display()))?;
        assert_eq!(tree.named("img").len() + tree.named("script").len(), 0, "{}", page.display());
        shown += usize::from(tree.text().contains("<img src=x"));
    }
    // All but the page of the other machine.
    assert_eq!(shown, pages.len() - 1);

    let markdown = std::fs::read_to_string(at("m.md"))?;
    is_harmless("Markdown", &markdown);
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(markdown.lines().all(|line| line.starts_with("| ") && columns(line) == 4), "{markdown}");
    assert!(markdown.contains("&lt;img src=x") && !markdown.contains("<img"), "{markdown}");
    for syntax in ["[l]", "**b**"] {
        assert!(!markdown.contains(syntax), "{syntax}: {markdown}");
    }

    // The logs of a package are text files.
    let [packed, unpacked] = [at("q.tar"), at("unpacked")];
    std::fs::create_dir(&unpacked)?;
    assert_eq!(ended(folder.path(), &["package", "a.json", "--output", "q.tar"])?.status, 0);
    assert!(Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(&unpacked).status()?.success());
    let logs: Vec<_> = unpacked.join("logs").read_dir()?.collect::<Result<_, _>>()?;
    assert!(logs.len() >= 3, "{logs:?}");
    for log in logs {
        is_harmless("a log", &std::fs::read_to_string(log.path())?);
    }
    Ok(())
}

/// A baseline's name is in the reasons of JUnit XML, in those of the page, and on the terminal.
#[test]
fn junit_xml_and_the_run_itself_show_only_text() -> Tested {
    let folder = tempfile::tempdir()?;
    let named = folder.path().join("b\u{1b}[2J\u{9b}<img src=x>.json");
    let [json, junit] = ["r.json", "r.xml"].map(|name| folder.path().join(name));
    let fault = [("GPU_INTEROP_SIM_FAIL", "cuMemsetD8Async:1+:1")];
    simulated::reported(&named, &fault, &[])?;
    let output = simulated::run(&json, &fault, &["--baseline", text(&named)?, "--junit", text(&junit)?])?;
    let said = String::from_utf8([output.stdout, output.stderr].concat())?;
    assert_eq!(output.status.code(), Some(0), "{said}");
    is_harmless("the run", &said);
    let mut xml = String::new();
    File::open(&junit)?.read_to_string(&mut xml)?;
    is_harmless("JUnit XML", &xml);
    let document = roxmltree::Document::parse(&xml).map_err(|error| error.to_string())?;
    assert!(!document.descendants().any(|node| node.has_tag_name("img")) && xml.contains("&lt;img src=x"), "{xml}");
    Ok(())
}

/// A system in a folder may have pipes and devices in place of files.
#[test]
fn a_system_of_pipes_and_devices_is_examined_in_time() -> Tested {
    let is_root = rustix::process::geteuid().is_root();
    // Only root makes devices.
    for device in if is_root { [false, true].as_slice() } else { &[false] } {
        let folder = tempfile::tempdir()?;
        for path in [
            "etc/group",
            "etc/ld.so.conf",
            "run/.containerenv",
            "proc/1/cgroup",
            "proc/1/comm",
            "proc/sys/kernel/osrelease",
            "proc/driver/nvidia/version",
            "proc/driver/nvidia/gpus/0000:01:00.0/information",
            "sys/module/nvidia/version",
            "sys/class/kfd/kfd/topology/nodes/1/properties",
            "usr/share/vulkan/icd.d/x.json",
            "dev/kfd",
            "dev/nvidiactl",
            "dev/dri/renderD128",
            "tmp/nvidia-mps/control",
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().ok_or("a folder")?)?;
            let arguments: &[&str] = if *device { &["c", "1", "5"] } else { &["p"] };
            assert!(Command::new("mknod").arg(&path).args(arguments).status()?.success());
        }
        let end = ended_with("/usr/share/vulkan/icd.d/x.json", folder.path(), &["doctor", "--root", "."])?;
        assert!(end.status == 1 && end.said.contains("x.json: it does not exist or cannot be read"), "{}", end.said);
    }
    Ok(())
}
