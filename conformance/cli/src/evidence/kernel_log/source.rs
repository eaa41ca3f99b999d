//! The file of the kernel's messages: the kernel's own, or one to which a program appends.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// The greatest length of a record of the kernel, bytes.
const RECORD: usize = 8 << 10;
/// The greatest length of a message in a report, characters.
const MOST: usize = 1000;

/// A log that is read from its present end on.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    /// The beginning of a line without its end.
    pending: Vec<u8>,
}

impl Source {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let mut options = File::options();
        options.read(true);
        // Neither a pipe nor the kernel's log blocks the run.
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default());
        }
        let mut file = options.open(path)?;
        if let Err(error) = file.seek(SeekFrom::End(0))
            && error.kind() != ErrorKind::NotSeekable
        {
            return Err(error);
        }
        Ok(Self { file, pending: Vec::new() })
    }

    /// The messages since the last call.
    pub(super) fn read(&mut self) -> Vec<String> {
        let mut chunk = vec![0; RECORD];
        loop {
            match self.file.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => self.pending.extend(&chunk[..length]),
                // The kernel has overwritten records that were not read.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.pending.extend(b"[messages of the kernel are lost]\n");
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No further message yet, or no longer readable.
                Err(_) => break,
            }
        }
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.pending.split_off(end + 1);
        let complete = std::mem::replace(&mut self.pending, rest);
        String::from_utf8_lossy(&complete).lines().filter_map(message).collect()
    }
}

/// The message of a line, without the fields of a record; `None` for the fields that follow a record.
fn message(line: &str) -> Option<String> {
    if line.starts_with(' ') || line.trim().is_empty() {
        return None;
    }
    let is_record = |fields: &str| {
        let numbers: Vec<&str> = fields.split(',').take(3).collect();
        numbers.len() == 3 && numbers.iter().all(|field| field.parse::<u64>().is_ok())
    };
    let text = match line.split_once(';') {
        Some((fields, text)) if is_record(fields) => text,
        _ => line,
    };
    Some(text.chars().take(MOST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_lines_are_messages() {
        assert_eq!(message("6,339,5140900,-;NET: x; y").as_deref(), Some("NET: x; y"));
        assert_eq!(message(" SUBSYSTEM=pci"), None);
        assert_eq!(message("[1.0] plain; text").as_deref(), Some("[1.0] plain; text"));
        assert_eq!(message(""), None);
    }
}
