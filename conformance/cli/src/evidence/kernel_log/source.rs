//! The source of the kernel's messages.

use std::path::Path;

use super::event::{self, KernelEvent};
#[cfg(windows)]
use super::text::LOST;
use super::text::Text;
#[cfg(windows)]
use crate::evidence::sys::event_log::{Entry, EventLog};

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
