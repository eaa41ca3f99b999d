//! A run of the suite with a simulator, and its expected results.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use gpu_interop_conformance::{Outcome, Suite};
use gpu_interop_conformance_cli::{CaseReport, Report};
use gpu_interop_test_support::{build, recording, this_program};
use libtest_mimic::Failed;
#[cfg(target_os = "linux")]
use libtest_mimic::Trial;
use tempfile::TempDir;

use crate::recorded::{as_recorded, at_least};
#[cfg(target_os = "linux")]
use crate::vulkan::{Peer, SWIFTSHADER_UUID};

/// The packages of the simulators.
pub(crate) const GPU_INTEROP_SIM_CUDA: &str = "gpu-interop-sim-cuda";
#[cfg(windows)]
const GPU_INTEROP_SIM_D3D: &str = "gpu-interop-sim-d3d";
pub(crate) const GPU_INTEROP_SIM_HIP: &str = "gpu-interop-sim-hip";
#[cfg(target_os = "linux")]
pub(crate) const GPU_INTEROP_SIM_NVSCI: &str = "gpu-interop-sim-nvsci";
#[cfg(target_os = "linux")]
pub(crate) const HIP_ON_CUDA: &str = "gpu-interop-hip-on-cuda";

/// A test that takes long and resembles a shorter one: only runs with `--include-ignored`, such as those of
/// `cargo xtask slow`, include it.
#[cfg(target_os = "linux")]
pub(crate) fn nightly(name: &str, test: fn() -> Result<(), Failed>) -> Trial {
    Trial::test(name, test).with_ignored_flag(true)
}

#[derive(Debug)]
pub(crate) struct Run {
    /// The error of building a library.
    missing: Option<String>,
    command: Command,
    filter: Option<String>,
    backend: &'static str,
    /// The number of contexts that a process may keep to its end.
    contexts: usize,
    /// Isolation of scenarios.
    isolation: &'static [&'static str],
    /// A failed scenario runs again.
    retries: bool,
}

impl Run {
    pub(crate) fn cuda() -> Self {
        Self::with("cuda", &[("GPU_INTEROP_CUDA_LIBRARY", GPU_INTEROP_SIM_CUDA)])
    }

    #[cfg(target_os = "linux")]
    /// On sim-cuda, as on an embedded system, and sim-nvsci.
    pub(crate) fn nvsci() -> Self {
        let libraries = [
            ("GPU_INTEROP_CUDA_LIBRARY", GPU_INTEROP_SIM_CUDA),
            ("GPU_INTEROP_NVSCIBUF_LIBRARY", GPU_INTEROP_SIM_NVSCI),
            ("GPU_INTEROP_NVSCISYNC_LIBRARY", GPU_INTEROP_SIM_NVSCI),
        ];
        Self::with("cuda", &libraries).env("GPU_INTEROP_SIM_ATTRIBUTES", "18:1")
    }

    #[cfg(windows)]
    /// On sim-cuda and sim-d3d.
    pub(crate) fn d3d() -> Self {
        let libraries =
            [("GPU_INTEROP_CUDA_LIBRARY", GPU_INTEROP_SIM_CUDA), ("GPU_INTEROP_D3D_LIBRARY", GPU_INTEROP_SIM_D3D)];
        Self::with("cuda", &libraries)
    }

    /// On sim-hip and sim-d3d.
    #[cfg(windows)]
    pub(crate) fn hip_d3d() -> Self {
        let libraries =
            [("GPU_INTEROP_HIP_LIBRARY", GPU_INTEROP_SIM_HIP), ("GPU_INTEROP_D3D_LIBRARY", GPU_INTEROP_SIM_D3D)];
        Self::with("hip", &libraries)
    }

    pub(crate) fn hip() -> Self {
        Self::with("hip", &[("GPU_INTEROP_HIP_LIBRARY", GPU_INTEROP_SIM_HIP)])
    }

    /// On sim-hip, with importable memory: its own, and on Windows, where it exports none, Direct3D's.
    pub(crate) fn hip_with_exporter() -> Self {
        #[cfg(windows)]
        let run = Self::hip_d3d().exporter("d3d12");
        #[cfg(not(windows))]
        let run = Self::hip().exporter("native");
        run
    }

    #[cfg(target_os = "linux")]
    /// On hip-on-cuda and sim-cuda.
    pub(crate) fn hip_on_cuda() -> Self {
        let libraries =
            [("GPU_INTEROP_HIP_LIBRARY", HIP_ON_CUDA), ("GPU_INTEROP_SIM_CUDA_LIBRARY", GPU_INTEROP_SIM_CUDA)];
        // Like HIP's own context, it exists until the process ends.
        Self { contexts: 1, ..Self::with("hip", &libraries) }
    }

    fn with(backend: &'static str, libraries: &[(&str, &str)]) -> Self {
        let mut command = this_program().expect("this program");
        command.args(["run", "--backend", backend]);
        let mut missing = None;
        for (variable, package) in libraries {
            match build(package) {
                Ok(library) => drop(command.env(variable, library)),
                Err(message) => missing = Some(message),
            }
        }
        let isolation = ["--jobs", "4"].as_slice();
        Self { missing, command, filter: None, backend, contexts: 0, isolation, retries: false }
    }

    /// With this exporter, which must be used.
    pub(crate) fn exporter(mut self, name: &str) -> Self {
        self.command.args(["--exporter", name, "--require", name]);
        self
    }

    #[cfg(target_os = "linux")]
    /// With a driver that reports the same device.
    pub(crate) fn matching(mut self, peer: &Peer) -> Self {
        self.command.envs(peer.iter().map(|(name, value)| (name, value)));
        self
    }

    #[cfg(target_os = "linux")]
    /// With SwiftShader as the only Vulkan driver; `folder` receives the file that names it.
    pub(crate) fn swiftshader(mut self, library: &Path, folder: &Path) -> Result<Self, Failed> {
        let manifest = folder.join("swiftshader.json");
        let text = serde_json::json!({
            "file_format_version": "1.0.0",
            "ICD": { "library_path": library.canonicalize()?, "api_version": "1.3.0" },
        });
        std::fs::write(&manifest, text.to_string())?;
        // The first is the older name of the second.
        self.command.env("VK_ICD_FILENAMES", &manifest).env("VK_DRIVER_FILES", &manifest);
        Ok(self.env("GPU_INTEROP_SIM_UUID", SWIFTSHADER_UUID).env("GPU_INTEROP_SIM_EXPORT", "plain"))
    }

    /// With two devices of one model.
    pub(crate) fn two_devices(self) -> Self {
        Self { contexts: 2 * self.contexts, ..self.env("GPU_INTEROP_SIM_DEVICES", "2") }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With every scenario in the command's process.
    pub(crate) fn in_one_process(self) -> Self {
        Self { isolation: &["--no-isolate"], ..self }
    }

    #[cfg(target_os = "linux")]
    /// With the command's repetitions of failed scenarios. Other runs have none, so that no failure is overlooked.
    pub(crate) fn with_retries(self) -> Self {
        Self { retries: true, ..self }
    }

    pub(crate) fn arg(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    /// With these scenarios only, instead of others that were named before.
    pub(crate) fn filter(self, glob: &str) -> Self {
        Self { filter: Some(glob.into()), ..self }
    }

    /// With every scenario in optimised builds, and to record; otherwise without those that take a minute: `size.*`, and
    /// under Wine those with 10,000 turns or 10,000 timelines.
    pub(crate) fn whole(self) -> Self {
        if recording() { self } else { self.usual() }
    }

    /// As [`whole`](Self::whole), also to record.
    pub(crate) fn usual(self) -> Self {
        if !cfg!(debug_assertions) {
            return self;
        }
        self.filter(if cfg!(windows) { "{[!st]*,st*,se*,th*,timeline.[!cp]*}" } else { "{[!s]*,st*,se*}" })
    }

    #[cfg(target_os = "linux")]
    /// As [`whole`](Self::whole), in debug builds without 10,000 turns of ping-pong, which the runs with native memory and
    /// the suite on the host backend have.
    pub(crate) fn nearly_whole(self) -> Self {
        if recording() { self } else { self.usual_with_vulkan() }
    }

    #[cfg(target_os = "linux")]
    /// As [`nearly_whole`](Self::nearly_whole), also to record.
    pub(crate) fn usual_with_vulkan(self) -> Self {
        if cfg!(debug_assertions) { self.filter("{[!st]*,st*,se*,th*,timeline.[!p]*}") } else { self }
    }

    #[cfg(target_os = "linux")]
    /// Imports, memory, mappings, streams, threads, processes, and timelines without ping-pong.
    pub(crate) fn part(self) -> Self {
        self.filter("{{import,lifetime,map,memory,process,reverse,stream,threads}.*,timeline.[!p]*}")
    }

    /// The command, which writes its report to a file.
    pub(crate) fn command(mut self, json: &Path) -> Result<Command, Failed> {
        if let Some(message) = self.missing {
            return Err(message.into());
        }
        if !self.retries {
            self.command.args(["--retries", "0"]);
        }
        if let Some(glob) = self.filter {
            self.command.args(["--filter", &glob]);
        }
        // Wine's server handles one call at a time: thousands of cycles take minutes beside other tests.
        if cfg!(windows) && self.command.get_args().all(|argument| argument != "--timeout") {
            self.command.args(["--timeout", "900"]);
        }
        self.command.args(self.isolation).arg("--json").arg(json);
        Ok(self.command)
    }

    /// Runs it. Failures are in the report.
    pub(crate) fn run(self) -> Result<Ran, Failed> {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("report.json");
        let (backend, contexts) = (self.backend, self.contexts);
        let mut command = self.command(&json)?;
        let output = command.env("GPU_INTEROP_SIM_REPORT", folder.path().join("report")).output()?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let report = std::fs::read_to_string(&json).unwrap_or_default();
        let report: Report =
            serde_json::from_str(&report).map_err(|error| format!("{error}: {}\n{text}", output.status))?;
        check(text.starts_with("SIMULATED: "), format!("the first line does not say it: {text}"))?;
        check(report.backend.simulated && report.backend.name == backend, format!("{:?}", report.backend))?;
        let failed = report.results.iter().any(|case| case.outcome.is_failure());
        check(output.status.success() != failed, format!("{}: {text}", output.status))?;
        Ok(Ran { report, text, folder, contexts })
    }
}

/// A finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    report: Report,
    text: String,
    folder: TempDir,
    contexts: usize,
}

impl Deref for Ran {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.report
    }
}

impl Ran {
    /// The output of the run.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Fails unless each case ended as recorded in the first of these sections that names it, and passed if none does.
    pub(crate) fn as_recorded(&self, sections: &[&str]) -> Result<(), Failed> {
        check(
            self.results.iter().any(|case| case.outcome == Outcome::Passed),
            format!("nothing passed\n{}", self.text),
        )?;
        as_recorded("sims", sections, &self.results).map_err(|unlike| format!("{unlike}\n{}", self.text).into())
    }

    /// As [`as_recorded`](Self::as_recorded), and nothing leaked.
    pub(crate) fn sound(&self, sections: &[&str]) -> Result<(), Failed> {
        self.as_recorded(sections)?;
        self.nothing_alive()
    }

    /// Fails unless at least so many scenarios passed whose ids have these prefixes.
    pub(crate) fn at_least(&self, counts: &[(&str, usize)]) -> Result<(), Failed> {
        at_least(&self.results, counts).map_err(|few| format!("{few}\n{}", self.text).into())
    }

    /// Fails unless every scenario passed, and nothing leaked.
    pub(crate) fn passed(&self) -> Result<(), Failed> {
        let passed = self.results.iter().all(|case| case.outcome == Outcome::Passed);
        check(passed && !self.results.is_empty(), &*self.text)?;
        self.nothing_alive()
    }

    /// Fails unless every process that exited had freed all driver objects. Processes that call the driver without the
    /// library are excluded, and objects of work that never ends are kept.
    pub(crate) fn nothing_alive(&self) -> Result<(), Failed> {
        /// Scenarios whose work never ends, with the number and kind of kept objects.
        const WORK_THAT_NEVER_ENDS: [(&str, usize, &str); 7] = [
            // With HIP before 5.7 also the source of fills, which cannot be freed while a stream waits.
            (
                "lifetime.drop_everything_with_work_pending",
                7,
                "imports: 1, mappings: 1, arrays: 0, semaphores: 0, streams: 1, events: 3, modules: 0, allocations: 1, ",
            ),
            (
                "lifetime.drop_everything_with_work_pending",
                6,
                "imports: 1, mappings: 0, arrays: 0, semaphores: 0, streams: 1, events: 3, modules: 0, allocations: 1, ",
            ),
            (
                "lifetime.drop_everything_with_work_pending",
                6,
                "imports: 1, mappings: 1, arrays: 0, semaphores: 0, streams: 1, events: 3, ",
            ),
            // Before HIP 5.6, where a mapping is part of its import.
            (
                "lifetime.drop_everything_with_work_pending",
                5,
                "imports: 1, mappings: 0, arrays: 0, semaphores: 0, streams: 1, events: 3, ",
            ),
            (
                "timeline.dropped_for_ever.native",
                8,
                "imports: 1, mappings: 1, arrays: 0, semaphores: 1, streams: 1, events: 4, ",
            ),
            // Native memory, imported by CUDA's own function, and its context.
            (
                "lifetime.drop_everything_with_work_pending",
                7,
                "imports: 0, mappings: 0, arrays: 0, semaphores: 0, streams: 1, events: 3, modules: 0, allocations: 0, \
                 descriptors: 1, reservations: 1, ",
            ),
            (
                "timeline.dropped_for_ever.native",
                9,
                "imports: 0, mappings: 0, arrays: 0, semaphores: 1, streams: 1, events: 4, modules: 0, allocations: 0, \
                 descriptors: 1, reservations: 1, ",
            ),
        ];
        let text = self.lines(" alive at the end of ")?;
        let ran = |line: &String| !line.contains("(discover)");
        check(text.iter().any(ran), format!("no process that ran a scenario reported: {}", text.join("\n")))?;
        // A process has one for each used device.
        let contexts: Vec<_> = (0..=self.contexts).map(|n| (format!("{n} alive"), format!("contexts: {n},"))).collect();
        let only_contexts =
            |line: &str| contexts.iter().any(|(alive, of_them)| line.starts_with(alive) && line.contains(of_them));
        // The words of the bridges of devices that were reset, which HIP keeps: a slow machine uses more of them.
        let reset = self.results.iter().any(|case| case.id == "timeline.device_reset.bridge");
        let only_words = |line: &str| {
            let words = line.split_once(' ').map_or("", |(alive, _)| alive);
            reset && line.contains(&format!("modules: 0, allocations: {words}, descriptors: 0, "))
        };
        let alive =
            |line: &&str| !only_contexts(line) && !only_words(line) && !line.contains("(suite-process RawCuda)");
        let alive: Vec<&str> = text.iter().map(String::as_str).filter(alive).collect();
        let mut kept = 0;
        for (never, count, what) in WORK_THAT_NEVER_ENDS {
            let passed = |case: &&CaseReport| case.id == never && case.outcome == Outcome::Passed;
            let allowed = self.results.iter().filter(passed).count();
            let all = format!("{} alive", count + self.contexts);
            let here = alive.iter().filter(|line| line.starts_with(&all) && line.contains(what)).count();
            check(here <= allowed, alive.join("\n"))?;
            kept += here;
        }
        check(alive.len() == kept, alive.join("\n"))
    }

    /// Fails unless at least so many scenarios of timelines passed, on Linux, where bridges carry them, although no process
    /// called a function of external semaphores.
    pub(crate) fn bridged(&self, least: usize) -> Result<(), Failed> {
        self.at_least(&[("timeline.", least)])?;
        if cfg!(windows) {
            return Ok(());
        }
        let calls = self.lines(" calls for external semaphores in ")?;
        let called: Vec<&str> = calls.iter().map(String::as_str).filter(|line| !line.starts_with("0 calls")).collect();
        check(called.is_empty(), called.join("\n"))
    }

    /// The lines of this kind that processes wrote at their end.
    fn lines(&self, kind: &str) -> Result<Vec<String>, Failed> {
        let text = std::fs::read_to_string(self.folder.path().join("report"))?;
        let lines: Vec<String> = text.lines().filter(|line| line.contains(kind)).map(ToOwned::to_owned).collect();
        check(!lines.is_empty(), format!("no process reported `{kind}`"))?;
        Ok(lines)
    }
}

/// The number of scenarios of a group.
#[cfg(any(target_os = "linux", windows))]
pub(crate) fn scenarios_of(group: &str) -> usize {
    let suite = Suite::standard();
    let of_group = |id: &str| id.split('.').next() == Some(group);
    suite.scenarios().iter().filter(|scenario| of_group(scenario.id)).count()
}

/// The suite fails if a driver fails, for each reason, without leaks.
pub(crate) fn reports_faults(run: fn() -> Run, faults: &[(&str, &str)]) -> Result<(), Failed> {
    for (fault, reason) in faults {
        let report = run().exporter("native").filter("memory.round_trip").env("GPU_INTEROP_SIM_FAIL", fault).run()?;
        let [case] = report.results.as_slice() else { return Err(format!("{fault}: {report:?}").into()) };
        let text = case.reason.as_deref().unwrap_or_default();
        check(case.outcome == Outcome::Failed && text.contains(reason), format!("{fault}: {case:?}"))?;
        report.nothing_alive()?;
    }
    Ok(())
}

pub(crate) fn check(holds: bool, message: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into().into()) }
}
