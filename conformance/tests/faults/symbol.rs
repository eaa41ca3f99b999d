//! The functions that a library exports, and those that a backend looks up.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use object::{Object as _, ObjectSymbol as _};

use crate::driver::Vendor;

/// The functions of a vendor's interface that a library exports.
pub(crate) fn exported(vendor: Vendor, library: &Path) -> Result<BTreeSet<String>, Failed> {
    let bytes = std::fs::read(library)?;
    let file = object::File::parse(&*bytes)?;
    let names = file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(|symbol| symbol.name().ok());
    Ok(names.filter(|name| vendor.owns(name)).map(str::to_owned).collect())
}

/// The functions that a process looks up in a library, as the dynamic linker of glibc reports them.
pub(crate) fn looked_up(vendor: Vendor, library: &Path, command: &mut Command) -> Result<BTreeSet<String>, Failed> {
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
