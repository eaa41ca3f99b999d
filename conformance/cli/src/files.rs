//! Report files, and files in the program's folder.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use gpu_interop_conformance::{Stop, Verdict, system};
use serde::Serialize;
use serde_json::ser::Formatter;

/// The greatest length of a report, a journal or a package, bytes. A report of all cases has less than 2 MB.
pub(crate) const MOST: u64 = 512 << 20;

/// Reads a regular file of at most `most` bytes. A pipe or a device would block, or never end.
///
/// # Errors
/// If it cannot be opened or read, is no regular file, or is longer.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let no_file = || io::Error::other("it is not a regular file; write it to a file first");
    // Opening a device may have effects.
    if !path.metadata()?.is_file() {
        return Err(no_file());
    }
    let file = open_without_blocking(path)?;
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    // Files of /proc have no length.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes, the greatest length that is read")));
    }
    Ok(bytes)
}

/// Opens a file for reading. A pipe without a writer does not block, and reads of a pipe do not either.
pub(crate) fn open_without_blocking(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default());
    }
    options.open(path)
}

/// A file in the program's folder. Test programs are one folder deeper in Cargo's target folder; a bundle has its own folder
/// of simulators.
pub(crate) fn beside(program: &Path, file: &str) -> Option<PathBuf> {
    let folder = program.parent()?;
    let folders = [Some(folder.to_owned()), folder.parent().map(Into::into), Some(folder.join("simulators"))];
    folders.into_iter().flatten().map(|folder| folder.join(file)).find(|file| file.is_file())
}

/// Formats a value as indented JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Verdict<String> {
    serde_json::to_string_pretty(value).map_err(|error| Stop::failed(format!("cannot write JSON: {error}")))
}

/// Formats a report as JSON, with a line for each of its fields and for each element of its lists, such as a case.
pub(crate) fn to_report_json(report: &impl Serialize) -> Verdict<String> {
    to_lines(report, 2)
}

/// The same for merged reports, each of which is the field `report` of an element of a list.
pub(crate) fn to_merged_json(merged: &impl Serialize) -> Verdict<String> {
    to_lines(merged, 5)
}

/// Formats a value as JSON whose first `levels` levels are indented. Deeper values are on the line of their container.
fn to_lines(value: &impl Serialize, levels: usize) -> Verdict<String> {
    let mut bytes = Vec::new();
    let failed = |reason: String| Stop::failed(format!("cannot write JSON: {reason}"));
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Lines { levels, depth: 0, is_empty: true }))
        .map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

/// The formatter of [`to_lines`].
struct Lines {
    levels: usize,
    depth: usize,
    /// `true` until the innermost list or object has an element.
    is_empty: bool,
}

impl Lines {
    fn begin<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        out.write_all(bracket)
    }

    fn element<W: Write + ?Sized>(&self, out: &mut W, is_first: bool) -> io::Result<()> {
        let indented = self.depth <= self.levels;
        out.write_all(match (is_first, indented) {
            (true, _) => b"",
            (false, true) => b",",
            (false, false) => b", ",
        })?;
        if indented { self.new_line(out) } else { Ok(()) }
    }

    fn end<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.is_empty && self.depth < self.levels {
            self.new_line(out)?;
        }
        self.is_empty = false;
        out.write_all(bracket)
    }

    fn new_line<W: Write + ?Sized>(&self, out: &mut W) -> io::Result<()> {
        write!(out, "\n{:width$}", "", width = 2 * self.depth)
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.element(out, is_first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.element(out, is_first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }
}

/// Fails if `path` cannot be written. An existing file is unchanged.
pub(crate) fn check_writable(path: &Path) -> Verdict {
    // A link stays, also one to a file that does not exist.
    let is_new = path.symlink_metadata().is_err();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| cannot_write(path, &error))?;
    if is_new {
        std::fs::remove_file(path).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

/// Writes a text file atomically: an interrupted run never leaves half a file.
pub(crate) fn write_file(path: &Path, text: &str) -> Verdict {
    write_bytes(path, text.as_bytes())
}

/// Writes a file atomically. A link stays; its file is written.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Verdict {
    // Such as /dev/stdout, which may be a link to a file that has other contents, too.
    let is_special = path.starts_with("/dev") || path.starts_with("/proc");
    let linked = if is_special { None } else { linked(path) };
    let path = linked.as_deref().unwrap_or(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        if !is_special && (!path.exists() || path.is_file()) {
            let mut file = system::readable_file().tempfile_in(folder)?;
            file.write_all(bytes)?;
            file.persist(path)?;
            return Ok(());
        }
        // Pipes and devices cannot be replaced.
        std::fs::write(path, bytes)
    };
    write().map_err(|error| cannot_write(path, &error))
}

/// The file that a link leads to, whether it exists or not. `None` if the path is no link.
fn linked(path: &Path) -> Option<PathBuf> {
    let target = path.read_link().ok()?;
    Some(path.canonicalize().unwrap_or_else(|_| path.parent().unwrap_or(Path::new("")).join(target)))
}

fn cannot_write(path: &Path, error: &io::Error) -> Stop {
    Stop::failed(format!("cannot write {}: {error}", path.display()))
}
