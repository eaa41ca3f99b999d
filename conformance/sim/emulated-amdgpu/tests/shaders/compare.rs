//! Runs the shaders on both drivers and compares the words that they leave.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::generate::{COUNTERS, MOST, Shader, WIDTHS, shader};
use crate::{CHILD, shared};

/// Time for the shaders of one process, and their number.
const LIMIT: Duration = Duration::from_secs(540);
const SHADERS: u64 = 32;

/// The results of a driver's process.
fn results(manifest: &Path, emulated: bool, seeds: &Range<u64>, most: u32, file: &Path) -> Result<Vec<u8>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    let numbers = [seeds.start.to_string(), seeds.end.to_string(), most.to_string()];
    command.arg(CHILD).args(numbers).arg(file);
    shared::use_driver(&mut command, manifest);
    if emulated {
        shared::emulate(&mut command, "gfx906")?;
    }
    let ended = shared::output(command, LIMIT).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[&ended.stdout[..], &ended.stderr[..]].concat()).into_owned();
    if !ended.status.success() || text.contains("[emulated-amdgpu") {
        return Err(format!("{}: {}: {text}", manifest.display(), ended.status));
    }
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// A shader after which the drivers leave other words.
struct Difference {
    seed: u64,
    values: usize,
    /// The first value of the program.
    first: String,
    text: String,
}

/// Runs shaders of at most so many statements on both drivers. Returns the number of words, and what differs.
fn run(drivers: &[PathBuf; 2], seeds: &Range<u64>, most: u32) -> Result<(usize, Vec<Difference>), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let files = ["radv", "lavapipe"].map(|name| folder.path().join(name));
    let [radv, lavapipe] = std::thread::scope(|scope| {
        let lavapipe = scope.spawn(|| results(&drivers[1], false, seeds, most, &files[1]));
        let radv = results(&drivers[0], true, seeds, most, &files[0]);
        [radv, lavapipe.join().unwrap_or_else(|_| Err("a thread has panicked".to_owned()))]
    });
    let (radv, lavapipe) = (radv?, lavapipe?);
    let (mut start, mut differences) = (0, Vec::new());
    for seed in seeds.clone() {
        let shader = shader(seed, most);
        let (values, first) = differences_of(&shader, &mut start, &radv, &lavapipe);
        if values > 0 {
            differences.push(Difference { seed, values, first, text: shader.text });
        }
    }
    match (radv.len(), lavapipe.len()) == (start, start) {
        true => Ok((start / 4, differences)),
        false => Err(format!("RADV left {} bytes, lavapipe {}, of {start}", radv.len(), lavapipe.len())),
    }
}

/// Fails unless both drivers leave equal words, after each shader of the seeds. Shows the first shader after which they
/// do not, with as few statements as possible.
pub(crate) fn compare(drivers: &[PathBuf; 2], seeds: Range<u64>) -> Result<(), String> {
    let (mut words, mut differences) = (0, Vec::new());
    for first in seeds.clone().step_by(SHADERS as usize) {
        let (count, found) = run(drivers, &(first..seeds.end.min(first + SHADERS)), MOST)?;
        for Difference { seed, values, first, .. } in &found {
            println!("seed {seed}: {values} values differ: {first}");
        }
        words += count;
        differences.extend(found);
    }
    println!("{} shaders, {words} words, differences in {} shaders", seeds.end - seeds.start, differences.len());
    let Some(seed) = differences.first().map(|first| first.seed) else { return Ok(()) };
    for most in 0..=MOST {
        if let (_, mut shorter) = run(drivers, &(seed..seed + 1), most)?
            && let Some(Difference { first, text, .. }) = shorter.pop()
        {
            return Err(format!("seed {seed}, {most} statements: {first}\n{text}"));
        }
    }
    Err(format!("seed {seed}: the words differ, but not when it runs alone"))
}

/// How many values of a shader differ, and the first one in the order of the program.
fn differences_of(shader: &Shader, start: &mut usize, radv: &[u8], lavapipe: &[u8]) -> (usize, String) {
    let mut found = Vec::new();
    let mut count = 0;
    let mut value = |size: usize| {
        let value = |bytes: &[u8]| {
            bytes.iter().skip(*start).take(size).rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
        };
        let values = (value(radv), value(lavapipe));
        *start += size;
        values
    };
    for counter in 0..COUNTERS * 2 + 64 {
        let (ours, theirs) = value(4);
        if ours != theirs {
            count += 1;
            found.push((u32::MAX, format!("counter {counter}: {ours:#x} by RADV, {theirs:#x} by lavapipe")));
        }
    }
    for (place, slots) in shader.slots.iter().enumerate() {
        for slot in slots {
            for invocation in 0..shader.invocations {
                let (ours, theirs) = value(WIDTHS[place] as usize / 8);
                if ours != theirs || slot.always.is_some_and(|always| always != ours) {
                    count += 1;
                    let text = format!("{ours:#x} by RADV, {theirs:#x} by lavapipe");
                    found.push((slot.value, format!("%{} of invocation {invocation}: {text}", slot.value)));
                }
            }
        }
    }
    (count, found.into_iter().min().map(|(_, text)| text).unwrap_or_default())
}
