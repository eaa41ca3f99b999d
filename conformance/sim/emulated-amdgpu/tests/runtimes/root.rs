//! A folder with a runtime, and the tests of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The first argument of the processes that the tests start.
pub(crate) const CHILD: &str = "child";

type Result<T> = std::result::Result<T, String>;

/// A runtime: its library, the folders of its libraries, its dynamic linker.
#[derive(Debug)]
pub(crate) struct Root {
    library: PathBuf,
    folders: String,
    linker: PathBuf,
}

/// Result of a process.
#[derive(Debug)]
struct Ended {
    output: Output,
    /// The emulation's report; empty if the process ended by a signal.
    report: serde_json::Value,
}

impl Ended {
    fn text(&self) -> String {
        String::from_utf8_lossy(&[&self.output.stdout[..], &self.output.stderr[..]].concat()).into_owned()
    }

    fn succeeded(self) -> Result<Self> {
        if self.output.status.success() { Ok(self) } else { Err(format!("{}: {}", self.output.status, self.text())) }
    }
}

impl Root {
    /// Finds the files of a runtime below a folder.
    pub(crate) fn find(root: &Path) -> Result<Self> {
        let folder = root.join("usr/lib/x86_64-linux-gnu");
        let library =
            (5..=7).rev().map(|major| folder.join(format!("libamdhip64.so.{major}"))).find(|path| path.exists());
        let linkers = ["usr/lib64", "lib64"].map(|lib| root.join(lib).join("ld-linux-x86-64.so.2"));
        let linker = linkers.into_iter().find(|path| path.exists());
        let folders =
            format!("{}:{}:/usr/lib/x86_64-linux-gnu", folder.display(), root.join("lib/x86_64-linux-gnu").display());
        match (library, linker) {
            (Some(library), Some(linker)) => Ok(Self { library, folders, linker }),
            _ => Err(format!("no libamdhip64 and dynamic linker were found below {}", root.display())),
        }
    }

    /// Runs a test's process with settings of the emulation.
    fn run(&self, test: &[&str], settings: &[(&str, &str)]) -> Result<Ended> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let emulation = gpu_interop_test_support::build(env!("CARGO_PKG_NAME"))?;
        let report = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.linker);
        command.arg("--library-path").arg(&self.folders).arg("--preload").arg(emulation).arg(own).arg(CHILD);
        command.arg(test[0]).arg(&self.library).args(&test[1..]);
        command.env("GPU_INTEROP_SIM_AMDGPU_REPORT", report.path());
        for (name, value) in settings {
            command.env(format!("GPU_INTEROP_SIM_AMDGPU_{name}"), value);
        }
        let limit = Duration::from_secs(if test[0] == "cycles" { 300 } else { 20 });
        let output = crate::shared::output(command, limit).map_err(|error| error.to_string())?;
        let text = std::fs::read_to_string(report.path()).map_err(|error| error.to_string())?;
        let report = text.lines().last().map_or(Ok(serde_json::Value::Null), serde_json::from_str);
        Ok(Ended { output, report: report.map_err(|error| error.to_string())? })
    }
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(what()) }
}

/// After 10,000 cycles of import, map, fill, verify and free the driver has as many objects as after a few.
pub(crate) fn cycles(root: &Root) -> Result<()> {
    let many = if cfg!(debug_assertions) { "1000" } else { "10000" };
    let many = root.run(&["cycles", many], &[])?;
    // 7.2 never frees an import that was mapped.
    if root.library.ends_with("libamdhip64.so.7") {
        let kept = &many.report["left"]["imported_buffer_objects"];
        return expect(kept.as_u64() > Some(100), || format!("7.2 frees mapped imports: {kept} left"));
    }
    let many = many.succeeded()?;
    let few = root.run(&["cycles", "4"], &[])?.succeeded()?;
    let (few, many) = (&few.report["left"], &many.report["left"]);
    expect(!few.is_null() && few == many, || format!("left after 4 cycles: {few}; after many: {many}"))?;
    expect(many["imported_buffer_objects"] == 0, || format!("left: {many}"))
}

/// A page fault is reported to the runtime, which aborts the process with its own message; 7.2 returns an error
/// instead.
pub(crate) fn page_fault(root: &Root) -> Result<()> {
    let ended = root.run(&["fills"], &[("FAULTS", "page-fault:2")])?;
    let text = ended.text();
    let known =
        ["Memory access fault by GPU", "hipDeviceSynchronize = 700"].iter().any(|message| text.contains(message));
    let reported = known && text.contains("GPU page fault at");
    expect(!ended.output.status.success() && reported, || format!("{}: {text}", ended.output.status))?;
    root.run(&["fills"], &[])?.succeeded().map(drop)
}

/// A reset reaches the runtime as a hardware exception, which aborts the process. 5.2 does not query such events: it
/// waits.
pub(crate) fn reset(root: &Root) -> Result<()> {
    let ended = root.run(&["fills"], &[("FAULTS", "reset:2")])?;
    let text = ended.text();
    expect(!ended.output.status.success() && text.contains("is reset"), || format!("{}: {text}", ended.output.status))
}

/// Two GPUs have separate addresses and memory, and copy from one to the other.
pub(crate) fn two_gpus(root: &Root) -> Result<()> {
    let settings = [("DEVICES", "gfx906,gfx900@0001:0a:00.0")];
    let ended = root.run(&["two_gpus"], &settings)?.succeeded()?;
    let text = ended.text();
    expect(text.contains("0000:03:00.0 0001:0a:00.0"), || text)
}

/// Without CPU access to video memory, the results are the same, and kernels copy what they should.
pub(crate) fn small_bar(root: &Root) -> Result<()> {
    for bar in ["large", "small"] {
        let ended = root.run(&["copies"], &[("BAR", bar), ("ACCELERATE", "check")])?.succeeded()?;
        let counters = &ended.report["counters"];
        let checked = counters["checked_kernels"].as_object().is_some_and(|kernels| !kernels.is_empty());
        expect(checked && counters["queue_errors"] == 0, || format!("{bar}: {counters}"))?;
    }
    Ok(())
}

/// Exhausted video memory is an error of the allocation, and is available again once it is freed.
pub(crate) fn exhausted_vram(root: &Root) -> Result<()> {
    let ended = root.run(&["exhaust"], &[("VRAM", "1073741824")])?.succeeded()?;
    let text = ended.text();
    expect(text.contains("hipMalloc = 2"), || text)
}
