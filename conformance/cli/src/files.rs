//! Report files, and files beside the program.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::{Stop, Verdict, system};
use serde::Serialize;

/// The greatest length of a report, a journal or a package, bytes. A report of all cases has less than 2 MB.
pub(crate) const MOST: u64 = 512 << 20;

/// Reads a regular file of at most `most` bytes. A pipe or a device would block, or never end.
///
/// # Errors
/// If it cannot be opened or read, is no regular file, or is longer.
pub(crate) fn read(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let no_file = || std::io::Error::other("it is not a regular file; write it to a file first");
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
        return Err(std::io::Error::other(format!("it has more than {most} bytes, the greatest length that is read")));
    }
    Ok(bytes)
}

/// Opens a file for reading. A pipe without a writer does not block, and reads of a pipe do not either.
pub(crate) fn open_without_blocking(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default());
    }
    options.open(path)
}

/// A file beside the program. Test programs are one folder deeper in Cargo's target folder; a bundle has its own folder
/// of simulators.
pub(crate) fn beside(program: &Path, file: &str) -> Option<PathBuf> {
    let folder = program.parent()?;
    let folders = [Some(folder.to_owned()), folder.parent().map(Into::into), Some(folder.join("simulators"))];
    folders.into_iter().flatten().map(|folder| folder.join(file)).find(|file| file.is_file())
}

/// Formats a value as indented JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Verdict<String> {
    serde_json::to_string_pretty(value).map_err(|error| Stop::Failed(format!("cannot write JSON: {error}")))
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
            std::io::Write::write_all(&mut file, bytes)?;
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

fn cannot_write(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!("cannot write {}: {error}", path.display()))
}
