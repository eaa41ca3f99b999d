//! Incomplete drivers. Each function that a backend looks up is hidden: the driver is rejected, or the features that
//! need the function are. Files that are no drivers are rejected; the backends' own tests (`simulated`) cover a missing
//! file, a text, a library without the functions, and old and incomplete drivers.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use gpu_interop::ErrorKind;
use gpu_interop_test_support::{PartialLibrary, build};
use libtest_mimic::Failed;
use object::{Object as _, ObjectSymbol as _};

use crate::exceptions::{is_replaced, never_called};
use crate::outcome;
use crate::outcome::Outcome;
use crate::simulator::{DRIVERS, Driver, Vendor};

/// The consequence of a missing function.
#[derive(Debug, PartialEq, Eq)]
enum Loss {
    /// The driver does not load.
    Driver,
    /// Features are missing.
    Feature,
    /// None: another function replaces it, or it is never called.
    Nothing,
}

pub(crate) fn every_symbol() -> Result<(), Failed> {
    for driver in DRIVERS.iter().filter(|driver| driver.without.is_empty()) {
        let library = build(driver.vendor.package())?;
        let whole = outcome::outcome(driver, &library)?;
        let present = exported_functions(driver.vendor, &library)?;
        let looked_up = looked_up_functions(driver.vendor, &library, &mut outcome::command(driver, &library)?)?;
        let mut copy = PartialLibrary::of(&library)?;
        let (mut refused, mut degraded, mut defects) = (0, 0, Vec::new());
        for function in looked_up.intersection(&present) {
            copy.hide(function)?;
            let outcome = outcome::outcome(driver, copy.path());
            copy.show(function)?;
            match outcome.and_then(|outcome| Ok(loss(driver, function, &whole, &outcome, copy.path().to_str())?)) {
                Ok(Loss::Driver) => refused += 1,
                Ok(Loss::Feature) => degraded += 1,
                Ok(Loss::Nothing) => {}
                Err(failed) => defects.push(format!("{function}: {}", failed.message().unwrap_or_default())),
            }
        }
        println!("{}: {refused} missing symbols refuse the driver, {degraded} a part of it", driver.name);
        if !defects.is_empty() {
            return Err(defects.join("\n").into());
        }
        if refused < 20 || degraded < 20 {
            return Err("too few symbols".into());
        }
    }
    Ok(())
}

/// The consequence of a missing function. Fails unless each error names it.
fn loss(
    driver: &Driver,
    function: &str,
    whole: &Outcome,
    outcome: &Outcome,
    library: Option<&str>,
) -> Result<Loss, String> {
    if let Some(what) = outcome.wrong.first().or(outcome.left.as_ref()) {
        return Err(what.clone());
    }
    if let [error] = &outcome.errors[..]
        && error.section == "load"
    {
        let named = [Some(function), library].into_iter().flatten().all(|part| error.text.contains(part));
        let right = error.kind == ErrorKind::SymbolMissing && error.operation == "dlsym";
        return if named && right { Ok(Loss::Driver) } else { Err(format!("{error:?}")) };
    }
    for error in &outcome.errors {
        if error.kind != ErrorKind::SymbolMissing || !error.text.contains(function) {
            return Err(format!("{error:?}"));
        }
    }
    let other = |name: &&String| whole.facts.get(*name) != outcome.facts.get(*name);
    let other: Vec<_> = outcome.facts.keys().filter(other).map(|name| (name, &outcome.facts[name])).collect();
    // A bridge replaces semaphores, and names no function that it does not need.
    let is_bridge = |value: &str| value.starts_with("emulated: ");
    if let Some(fact) = other.iter().find(|(_, value)| !value.contains(function) && !is_bridge(value)) {
        return Err(format!("another fact: {fact:?}"));
    }
    let nothing = outcome.errors.is_empty() && other.is_empty();
    let expected = is_replaced(function) || never_called(function).is_some();
    match (nothing, expected) {
        (true, true) => Ok(Loss::Nothing),
        (false, _) => Ok(Loss::Feature),
        (true, false) => Err(format!("nothing is seen of it with {}", driver.name)),
    }
}

/// A kind of file, its construction from a library, and the linker's message.
type File = (&'static str, fn(&Path, &[u8]) -> std::io::Result<()>, &'static str);

const NOT_DRIVERS: &[File] = &[
    ("empty", |path, _| std::fs::write(path, ""), "file too short"),
    (
        "a text",
        |path, _| std::fs::write(path, "/* GNU ld script */ INPUT(libcuda.so.1)".repeat(9)),
        "invalid ELF header",
    ),
    ("a folder", |path, _| std::fs::create_dir(path), "Is a directory"),
    // The class in an ELF file's header: 32 bits.
    ("of 32 bits", |path, library| changed(path, library, 4, &[1]), "wrong ELF class: ELFCLASS32"),
    // The byte order there: big-endian.
    ("big-endian", |path, library| changed(path, library, 5, &[2]), "not little-endian"),
    // The machine there: one that this test is never built for, VAX.
    (
        "for another processor",
        |path, library| changed(path, library, 18, &[75, 0]),
        "check that it is built for this processor architecture",
    ),
    // The type there: an object file, not a library.
    ("not linked", |path, library| changed(path, library, 16, &[1, 0]), "only ET_DYN and ET_EXEC can be loaded"),
    ("not readable", |path, _| std::os::unix::fs::symlink(path, path), "Too many levels of symbolic links"),
];

fn changed(path: &Path, library: &[u8], at: usize, bytes: &[u8]) -> std::io::Result<()> {
    let mut library = library.to_vec();
    library[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(path, library)
}

/// Each is a typed error that names the file and the reason, also if a simulator loads.
pub(crate) fn not_drivers() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for driver in DRIVERS.iter().filter(|driver| driver.without.is_empty()) {
        let library = build(driver.vendor.package())?;
        let bytes = std::fs::read(&library)?;
        let sound = outcome::loading(driver, &library)?;
        if let Some(error) = sound {
            return Err(format!("the library itself: {error:?}").into());
        }
        for (what, make, words) in NOT_DRIVERS {
            let path = folder.path().join(format!("{}, {what}", driver.name));
            make(&path, &bytes)?;
            let error = outcome::loading(driver, &path)?.ok_or_else(|| format!("{what}: it was loaded"))?;
            let named = error.text.contains(&format!("tried: {}: ", path.display())) && error.text.contains(words);
            if error.kind != ErrorKind::DriverNotFound || error.operation != "dlopen" || !named {
                return Err(format!("{what}: {error:?}").into());
            }
        }
    }
    Ok(())
}

/// The functions of a vendor's interface that a library exports.
pub(crate) fn exported_functions(vendor: Vendor, library: &Path) -> Result<BTreeSet<String>, Failed> {
    let bytes = std::fs::read(library)?;
    let file = object::File::parse(&*bytes)?;
    let names = file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(|symbol| symbol.name().ok());
    Ok(names.filter(|name| vendor.owns(name)).map(str::to_owned).collect())
}

/// The functions that a process looks up in a library, as the dynamic linker of glibc reports them.
pub(crate) fn looked_up_functions(
    vendor: Vendor,
    library: &Path,
    command: &mut Command,
) -> Result<BTreeSet<String>, Failed> {
    let output = command.env("LD_DEBUG", "symbols").output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stdout)).into());
    }
    let place = format!("lookup in file={} ", library.display());
    let name = |line: &str| {
        let (symbol, rest) = line.split_once("symbol=")?.1.split_once(';')?;
        (rest.contains(&place) && vendor.owns(symbol)).then(|| symbol.to_owned())
    };
    Ok(text.lines().filter_map(name).collect())
}
