//! Runs scripts on runtimes and compares the results.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use libtest_mimic::{Failed, Trial};

use super::answers::{self, Answers};
use super::language::{self, Script};
use super::machine;
use super::runtime::{COMMAND, DIED_OR_NOT, LIBRARY, MAJOR, Runtime, VERSIONS, Version, WRONG};
use gpu_interop_test_support::{build, run_tests};

/// The files of scripts, each with the group that begins its names.
const FILES: &[(&str, &str)] = &[
    ("device", include_str!("scripts/device.calls")),
    ("import", include_str!("scripts/import.calls")),
    ("map", include_str!("scripts/map.calls")),
    ("semaphore", include_str!("scripts/semaphore.calls")),
    ("memory", include_str!("scripts/memory.calls")),
    ("copy", include_str!("scripts/copy.calls")),
    ("stream", include_str!("scripts/stream.calls")),
    ("word", include_str!("scripts/word.calls")),
    ("queue", include_str!("scripts/queue.calls")),
    ("graph", include_str!("scripts/graph.calls")),
    ("mode", include_str!("scripts/mode.calls")),
    ("module", include_str!("scripts/module.calls")),
    ("virtual", include_str!("scripts/virtual.calls")),
];

/// Number of parallel processes of a version: many sleep.
const WORKERS: usize = 8;

pub(crate) fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(COMMAND) {
        return one(&arguments.next().unwrap_or_default());
    }
    let mut tests =
        vec![Trial::test("scripts_are_sound", sound), Trial::test("what_dies_may_do_so_a_call_earlier", dies_earlier)];
    for version in VERSIONS {
        tests.push(Trial::test(format!("the_simulator_answers_as_{}", version.name), move || simulated(version)));
        let (real, missing) = match Runtime::real(version) {
            Ok(None) => (Err("not set up".to_owned()), true),
            Ok(Some(real)) => (Ok(real), false),
            Err(error) => (Err(error), false),
        };
        if missing {
            eprintln!("NOT ASKED: AMD's runtime {}: its record is compared with the simulator only", version.name);
        }
        let name = format!("the_record_is_what_{}_answers", version.name);
        tests.push(Trial::test(name, move || real_one(version, &real?)).with_ignored_flag(missing));
    }
    // All versions at once, because they mostly wait. Not to record: that repeats nothing.
    let threads = std::env::var_os("GPU_INTEROP_RECORD").is_none().then_some(VERSIONS.len());
    run_tests(tests, threads)
}

/// The scripts of a file, whose names begin with `group`.
fn of_file(group: &str, text: &str) -> Result<Vec<Script>, String> {
    let scripts = language::scripts(text)?;
    match scripts.iter().find(|script| !script.name.starts_with(&format!("{group}."))) {
        Some(script) => Err(format!("{} is not of {group}", script.name)),
        None => Ok(scripts),
    }
}

/// The scripts that the environment selects.
fn scripts() -> Result<Vec<Script>, String> {
    let mut all = Vec::new();
    for (group, text) in FILES {
        all.extend(of_file(group, text)?);
    }
    let chosen = std::env::var("GPU_INTEROP_SCRIPTS").unwrap_or("*".into());
    let chosen = globset::Glob::new(&chosen).map_err(|error| error.to_string())?.compile_matcher();
    all.retain(|script| chosen.is_match(&script.name));
    Ok(all)
}

/// The process of one script. It reads that script's file only: there are a thousand such processes.
fn one(name: &str) -> ExitCode {
    let run = || {
        let of_name = |(group, _): &&(&str, &str)| name.split('.').next() == Some(*group);
        let (group, text) = FILES.iter().find(of_name).ok_or("no such file of scripts")?;
        let script = of_file(group, text)?.into_iter().find(|script| script.name == name).ok_or("no such script")?;
        let library = std::env::var_os(LIBRARY).ok_or("no library")?;
        let major = std::env::var(MAJOR).ok().and_then(|major| major.parse().ok()).ok_or("no version")?;
        machine::run(&script, &library, major)
    };
    match run() {
        // Skips the runtime's own exit code, which is not under test. SAFETY: ends the process, whose output is
        // flushed.
        Ok(()) => unsafe { libc::_exit(0) },
        Err(error) => {
            eprintln!("{WRONG}{error}");
            ExitCode::FAILURE
        }
    }
}

/// Held exclusively by scripts that must run alone.
static MACHINE: RwLock<()> = RwLock::new(());

fn run_all(runtime: &Runtime, scripts: &[Script]) -> Result<Answers, String> {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Answers::new()));
    let work = || {
        while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answers = runtime.run(script)?;
            all.lock().unwrap_or_else(PoisonError::into_inner).insert(script.name.clone(), answers);
        }
        Ok::<_, String>(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Repeats the scripts with unexpected results, one after another: on a loaded machine a slow event looks like a
/// missing one.
fn once_more(
    runtime: &Runtime,
    scripts: &[Script],
    found: &mut Answers,
    accepted: impl Fn(&Script, &[String]) -> bool,
) -> Result<(), String> {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    for script in scripts {
        if found.get(&script.name).is_some_and(|answers| !accepted(script, answers)) {
            found.insert(script.name.clone(), runtime.run(script)?);
        }
    }
    Ok(())
}

/// Checks that there are enough scripts, no name occurs twice, and each record has a script.
fn sound() -> Result<(), Failed> {
    let scripts = scripts()?;
    let names: BTreeSet<_> = scripts.iter().map(|script| script.name.as_str()).collect();
    if names.len() != scripts.len() {
        let twice =
            scripts.iter().filter(|script| scripts.iter().filter(|other| other.name == script.name).count() > 1);
        return Err(format!("twice: {:?}", twice.map(|script| &script.name).collect::<Vec<_>>()).into());
    }
    if std::env::var_os("GPU_INTEROP_SCRIPTS").is_some() {
        return Ok(());
    }
    if scripts.len() < 200 {
        return Err(format!("only {} scripts", scripts.len()).into());
    }
    for version in VERSIONS {
        let recorded = answers::recorded(version)?;
        let recorded: BTreeSet<_> = recorded.keys().map(String::as_str).collect();
        let odd: Vec<_> = recorded.symmetric_difference(&names).collect();
        if !odd.is_empty() {
            return Err(format!("{}: recorded and no script, or not recorded: {odd:?}", version.name).into());
        }
    }
    let differences = answers::differences()?;
    for difference in &differences.difference {
        let known = |name: &String| VERSIONS.iter().any(|version| version.name == name);
        let fine = names.contains(difference.script.as_str()) && difference.versions.iter().all(known);
        if !fine || difference.reason.is_empty() {
            return Err(format!("of no script or version, or without reason: {difference:?}").into());
        }
    }
    match differences.absent.iter().find(|absent| absent.reason.is_empty()) {
        Some(absent) => Err(format!("without reason: {absent:?}").into()),
        None => Ok(()),
    }
}

fn dies_earlier() -> Result<(), Failed> {
    let all = |answers: &[&str]| answers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let died = all(&["0", "dies of signal 6"]);
    for (other, alike) in [
        (all(&["0", "dies of signal 11"]), true),
        (all(&["dies of signal 11"]), true),
        (all(&["0", "1", "dies of signal 7"]), true),
        (all(&["0", "1", "2", "dies of signal 6"]), false),
        (all(&["1", "dies of signal 6"]), false),
        (all(&["0"]), false),
        (all(&["0", "end"]), false),
    ] {
        if answers::alike(&died, &other) != alike || answers::alike(&other, &died) != alike {
            return Err(format!("{other:?}").into());
        }
    }
    Ok(())
}

/// Steps and results side by side, for readers.
fn side_by_side(script: &Script, expected: &[String], found: &[String]) -> String {
    let mut text = format!("{}\n    {}\n", script.name, script.steps.join("\n    "));
    for index in 0..expected.len().max(found.len()) {
        let [expected, found] = [expected, found].map(|all| all.get(index).map_or("-", String::as_str));
        let mark = if expected == found { ' ' } else { '!' };
        text += &format!("  {mark} {expected:40} {found}\n");
    }
    text
}

/// Begins with the scripts that hang: they run until their time limit, while the others run.
fn hanging_first(scripts: &mut [Script], recorded: &Answers) {
    let end = |script: &Script| recorded.get(&script.name)?.last();
    scripts.sort_by_key(|script| end(script).is_none_or(|end| end != DIED_OR_NOT[0]));
}

fn simulated(version: Version) -> Result<(), Failed> {
    static BUILT: OnceLock<Result<std::path::PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build("gpu-interop-sim-hip"));
    let simulator = Runtime::simulator(built.as_ref()?, version);
    let (mut scripts, recorded, differences) = (scripts()?, answers::recorded(version)?, answers::differences()?);
    hanging_first(&mut scripts, &recorded);
    let mut found = run_all(&simulator, &scripts)?;
    once_more(&simulator, &scripts, &mut found, |script, found| {
        let expected = differences.of(script, version).map(|difference| &difference.simulator);
        expected.or(recorded.get(&script.name)).is_some_and(|expected| answers::alike(expected, found))
            || differences.cannot_compare(script, version)
    })?;
    let mut wrong = Vec::new();
    for script in &scripts {
        let (Some(expected), Some(found)) = (recorded.get(&script.name), found.get(&script.name)) else { continue };
        if differences.cannot_compare(script, version) {
            continue;
        }
        match (differences.of(script, version), answers::alike(expected, found)) {
            (None, true) => {}
            (Some(difference), false) if answers::alike(&difference.simulator, found) => {}
            (Some(_), true) => wrong.push(format!("{}: no longer different\n", script.name)),
            _ => wrong.push(side_by_side(script, expected, found)),
        }
    }
    verdict(&wrong, "of AMD's runtime differ from those of the simulator")
}

fn real_one(version: Version, real: &Runtime) -> Result<(), Failed> {
    let scripts = scripts()?;
    let mut found = run_all(real, &scripts)?;
    if std::env::var_os("GPU_INTEROP_RECORD").is_some() {
        let mut all = answers::recorded(version).unwrap_or_default();
        if std::env::var_os("GPU_INTEROP_SCRIPTS").is_none() {
            all.clear();
        }
        all.extend(found);
        return Ok(answers::record(version, all)?);
    }
    let recorded = answers::recorded(version)?;
    once_more(real, &scripts, &mut found, |script, found| {
        recorded.get(&script.name).is_some_and(|expected| answers::alike(expected, found))
    })?;
    let mut wrong = Vec::new();
    for script in &scripts {
        let found = found.get(&script.name).ok_or("not run")?;
        match recorded.get(&script.name) {
            Some(expected) if answers::alike(expected, found) => {}
            expected => wrong.push(side_by_side(script, expected.map_or(&[][..], Vec::as_slice), found)),
        }
    }
    verdict(&wrong, "differ from the record (left: recorded)")
}

fn verdict(wrong: &[String], what: &str) -> Result<(), Failed> {
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} scripts {what}\n{}", wrong.len(), wrong.concat()).into()) }
}
