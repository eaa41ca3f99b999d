//! Which functions a library has, which of them a backend looks up, and libraries that lack one.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use tempfile::TempDir;

use crate::driver::Vendor;

/// The functions of a vendor's interface that a library exports.
pub(crate) fn exported(vendor: Vendor, library: &Path) -> Result<BTreeSet<String>, Failed> {
    let bytes = std::fs::read(library)?;
    let file = object::File::parse(&*bytes)?;
    let names = file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(|symbol| symbol.name().ok());
    Ok(names.filter(|name| vendor.owns(name)).map(str::to_owned).collect())
}

/// The functions that a process looks up in a library, as the dynamic linker reports them. Of glibc.
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

/// A copy of a library in which one function at a time has another name.
#[derive(Debug)]
pub(crate) struct Renamed {
    _folder: TempDir,
    path: PathBuf,
    file: File,
    /// As they were.
    bytes: Vec<u8>,
}

impl Renamed {
    /// A copy of `library`, whole.
    pub(crate) fn of(library: &Path) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(library.file_name().ok_or("a file")?);
        std::fs::copy(library, &path)?;
        let file = File::options().write(true).open(&path)?;
        Ok(Self { _folder: folder, path, file, bytes: std::fs::read(library)? })
    }

    /// The copy's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a function away: its name begins with another letter. The linker finds the place by the old name's hash, and
    /// there no symbol of this name. No process may use the copy.
    pub(crate) fn hide(&mut self, function: &str) -> Result<(), Failed> {
        let at = self.name_of(function)?;
        Ok(self.file.write_all_at(b"_", at)?)
    }

    /// Brings a function back.
    pub(crate) fn show(&mut self, function: &str) -> Result<(), Failed> {
        let at = self.name_of(function)?;
        Ok(self.file.write_all_at(&function.as_bytes()[..1], at)?)
    }

    /// Where the name of a function begins in the file. Fails unless it is the name of one symbol, and the end of no
    /// other's.
    fn name_of(&self, function: &str) -> Result<u64, Failed> {
        let file = object::File::parse(&*self.bytes)?;
        let ends = |name: object::Result<&str>| name.is_ok_and(|name| name.ends_with(function));
        let sharing = file.dynamic_symbols().filter(|symbol| ends(symbol.name())).count();
        let strings = file.section_by_name(".dynstr").ok_or("a table of names")?;
        let (start, _) = strings.file_range().ok_or("a table in the file")?;
        // Between two NULs.
        let wanted = [b"\0", function.as_bytes(), b"\0"].concat();
        let place = strings.data()?.windows(wanted.len()).position(|part| part == wanted);
        match place {
            Some(place) if sharing == 1 => Ok(start + place as u64 + 1),
            _ => Err(format!("{function} is the end of {sharing} names, and found at {place:?}").into()),
        }
    }
}
