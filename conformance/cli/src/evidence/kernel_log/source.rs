//! The source of the kernel's messages.

use std::path::Path;

use super::text::Text;
#[cfg(windows)]
use crate::evidence::sys::event_log::EventLog;

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

    /// The log of the system: the kernel's, or else the journal; on Windows the channel `System` of the event log. `None`
    /// if none can be read.
    #[cfg(target_os = "linux")]
    pub(super) fn of_system() -> Option<Self> {
        Self::open(Path::new(DEFAULT)).or_else(|_| Self::journal()).ok()
    }

    #[cfg(windows)]
    pub(super) fn of_system() -> Option<Self> {
        EventLog::follow().map(Self::Events).ok()
    }

    #[cfg(not(any(target_os = "linux", windows)))]
    pub(super) fn of_system() -> Option<Self> {
        None
    }

    /// The messages since the last call.
    pub(super) fn read(&mut self) -> Vec<String> {
        match self {
            Self::Text(text) => text.read(),
            #[cfg(windows)]
            Self::Events(log) => log.read().iter().filter_map(|event| super::windows::message(event)).collect(),
        }
    }
}
