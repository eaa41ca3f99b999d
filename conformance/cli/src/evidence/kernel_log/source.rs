//! Sources of the kernel's messages: the kernel's file, a file to which a program appends, systemd's journal, Windows' event log.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::event::{self, KernelEvent};
#[cfg(windows)]
use crate::evidence::sys::event_log::{Entry, EventLog};
use crate::files::open_without_blocking;

/// The kernel's own log.
#[cfg(target_os = "linux")]
const DEFAULT: &str = "/dev/kmsg";

/// A log that is read from its present end on.
#[derive(Debug)]
pub(super) enum Source {
    Text(Text),
    #[cfg(windows)]
    Events(EventLog),
}

impl Source {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        Text::open(path).map(Self::Text)
    }

    /// The journal of systemd.
    pub(super) fn journal() -> std::io::Result<Self> {
        Text::journal().map(Self::Text)
    }

    /// The log of the system; `None` if it cannot be read. On Linux the kernel's own, or else the journal; on Windows the
    /// channel `System` of the event log.
    pub(super) fn of_system() -> Option<Self> {
        #[cfg(target_os = "linux")]
        let source = Self::open(Path::new(DEFAULT)).or_else(|_| Self::journal()).ok();
        #[cfg(windows)]
        let source = EventLog::follow().map(Self::Events).ok();
        #[cfg(not(any(target_os = "linux", windows)))]
        let source = None;
        source
    }

    /// The messages since the last call, and their meanings.
    pub(super) fn read(&mut self) -> Vec<(String, Option<KernelEvent>)> {
        match self {
            Self::Text(text) => {
                let message = |text: String| {
                    let event = event::recognise(&text);
                    (text, event)
                };
                text.read().into_iter().map(message).collect()
            }
            #[cfg(windows)]
            Self::Events(log) => {
                let message = |entry: Entry| match entry {
                    Entry::Event(document) => super::windows::message(&document),
                    Entry::Lost => Some((LOST.to_owned(), None)),
                };
                log.read().into_iter().filter_map(message).collect()
            }
        }
    }
}

/// The greatest length of a message in a report, characters.
pub(super) const MOST: usize = 1000;
/// Stands for messages that cannot be read any more.
const LOST: &str = "[messages of the kernel are lost]";

/// The greatest length of a record of the kernel, bytes.
const RECORD: usize = 8 << 10;
/// The program that prints the journal of systemd.
const JOURNAL: &str = "journalctl";

/// A log that is read from its present end on.
#[derive(Debug)]
pub(super) struct Text {
    file: File,
    /// The beginning of a line without its end.
    pending: Vec<u8>,
    /// Set if the file is the output of this process, whose lines are entries of the journal.
    journal: Option<Journal>,
}

/// A process that prints new entries of the journal. It ends with this value.
#[derive(Debug)]
struct Journal(Child);

impl Drop for Journal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Text {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        // Neither a pipe nor the kernel's log blocks the run.
        let mut file = open_without_blocking(path)?;
        if let Err(error) = file.seek(SeekFrom::End(0))
            && error.kind() != ErrorKind::NotSeekable
        {
            return Err(error);
        }
        Ok(Self { file, pending: Vec::new(), journal: None })
    }

    /// Follows the kernel's messages in the journal of systemd. An entry can arrive some milliseconds after its message.
    ///
    /// # Errors
    /// If `journalctl` does not start.
    pub(super) fn journal() -> std::io::Result<Self> {
        let mut command = Command::new(JOURNAL);
        command.args(["--dmesg", "--follow", "--lines=0", "--output=json", "--quiet"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take();
        let journal = Some(Journal(child));
        let file = output.map_or_else(|| Err(ErrorKind::BrokenPipe.into()), without_blocking)?;
        Ok(Self { file, pending: Vec::new(), journal })
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
                    self.pending.extend(LOST.bytes().chain([b'\n']));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No further message yet, or no longer readable.
                Err(_) => break,
            }
        }
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.pending.split_off(end + 1);
        let complete = std::mem::replace(&mut self.pending, rest);
        let message = if self.journal.is_some() { entry } else { message };
        String::from_utf8_lossy(&complete).lines().filter_map(message).collect()
    }
}

/// The output of a process as a file whose reads do not block.
#[cfg(unix)]
fn without_blocking(output: ChildStdout) -> std::io::Result<File> {
    rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK)?;
    Ok(File::from(std::os::fd::OwnedFd::from(output)))
}

#[cfg(not(unix))]
fn without_blocking(_: ChildStdout) -> std::io::Result<File> {
    Err(ErrorKind::Unsupported.into())
}

/// The message of an entry of the journal, which is a line of JSON.
fn entry(line: &str) -> Option<String> {
    let mut entry: Value = serde_json::from_str(line).ok()?;
    let text = match entry.get_mut("MESSAGE")?.take() {
        Value::String(text) => text,
        // Bytes that are no text.
        Value::Array(bytes) => {
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            String::from_utf8_lossy(&bytes.iter().filter_map(byte).collect::<Vec<_>>()).into_owned()
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then(|| text.chars().take(MOST).collect())
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

    #[test]
    fn entries_of_the_journal_are_messages() {
        let line = r#"{"PRIORITY":"3","_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:01:00): 79, x; y"}"#;
        assert_eq!(entry(line).as_deref(), Some("NVRM: Xid (PCI:0000:01:00): 79, x; y"));
        assert_eq!(entry(r#"{"MESSAGE":[97,255,98]}"#).as_deref(), Some("a\u{fffd}b"));
        for line in ["", "-- No entries --", "{}", r#"{"MESSAGE":null}"#, r#"{"MESSAGE":""}"#] {
            assert_eq!(entry(line), None, "{line}");
        }
    }
}
