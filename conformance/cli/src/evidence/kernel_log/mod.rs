//! The kernel's messages during each case.
//!
//! The log is read at the start and at the end of every case. A message that names the process of a running case, or a
//! descendant of it, belongs to that case. A message that names another process belongs to the run. Any other message
//! belongs to the only running case. With several running cases, or other devices that run at the same time, it belongs to
//! the run, and lists the names of the cases. Two kinds of messages count as naming no process: those that name an ended process with this program's name, which may be a peer of a
//! case, and all messages in a container, where the kernel's process ids are not the container's.

mod event;
mod source;
#[cfg(any(windows, test))]
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use gpu_interop::sync::lock;
use gpu_interop_conformance::{Stop, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::source::Source;

pub use self::event::KernelEvent;

/// The value of `--kernel-log` for the journal of systemd.
const JOURNAL: &str = "journalctl";
/// Limit of the messages of a case, or of the run, in a report: this many with an event, and this many without.
const MAX_LINES: usize = 200;

/// A message of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelLine {
    /// The message.
    pub text: String,
    /// Its meaning, if it reports an error of a GPU or the end of a process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event: Option<KernelEvent>,
    /// For a message of the run that a running case may have caused: the names of the cases that ran.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub during: Vec<String>,
}

/// The log, read during a run.
#[derive(Debug)]
pub(crate) struct KernelLog(Mutex<LogState>);

#[derive(Debug, Default)]
struct LogState {
    source: Option<Source>,
    open: BTreeMap<u64, RunningCase>,
    next: u64,
    /// Other devices run at the same time, and have logs of their own.
    is_one_of_many: bool,
    /// The processes of the run: this one, and those of cases.
    known: BTreeSet<u32>,
    /// Messages of the run.
    rest: Lines,
}

/// A running case.
#[derive(Debug)]
struct RunningCase {
    name: String,
    process: Option<u32>,
    lines: Lines,
}

/// Messages for a report, up to a limit.
#[derive(Debug, Default)]
struct Lines {
    kept: Vec<KernelLine>,
    omitted: usize,
}

impl Lines {
    /// Keeps a message, unless there are enough. Many messages without an event, or of other processes, do not displace an
    /// error of the GPU.
    fn push(&mut self, line: KernelLine) {
        let matters = |line: &KernelLine| line.event.as_ref().is_some_and(|event| !event.other_process);
        let alike = self.kept.iter().filter(|kept| matters(kept) == matters(&line)).count();
        if alike < MAX_LINES {
            self.kept.push(line);
        } else {
            self.omitted += 1;
        }
    }

    fn extend(&mut self, lines: Self) {
        lines.kept.into_iter().for_each(|line| self.push(line));
        self.omitted += lines.omitted;
    }

    /// The messages, and a line with the number of omitted ones.
    fn finish(self) -> Vec<KernelLine> {
        let Self { mut kept, omitted } = self;
        if omitted > 0 {
            kept.push(KernelLine { text: format!("[{omitted} messages omitted]"), event: None, during: Vec::new() });
        }
        kept
    }
}

/// The owner of a message.
#[derive(Debug)]
enum Owner {
    /// A running case, by its number.
    Case(u64),
    /// The run, with the cases that may have caused the message.
    Run(Vec<String>),
}

/// A running case, until its end.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    log: &'a KernelLog,
    number: u64,
}

impl KernelLog {
    /// Follows the named file, or systemd's journal for the name `journalctl`. Without a name, follows the system's log
    /// ([`Source::of_system`]); if this process may not read it, there are no messages.
    ///
    /// # Errors
    /// If a named source cannot be read.
    pub(crate) fn follow(named: Option<&Path>, is_one_of_many: bool) -> Verdict<Self> {
        let source = match named {
            Some(path) => {
                let source = if path == Path::new(JOURNAL) { Source::journal() } else { Source::open(path) };
                Some(source.map_err(|error| Stop::failed(format!("--kernel-log {}: {error}", path.display())))?)
            }
            None => Source::of_system(),
        };
        let known = BTreeSet::from([std::process::id()]);
        Ok(Self(Mutex::new(LogState { source, is_one_of_many, known, ..LogState::default() })))
    }

    /// The start of a case.
    pub(crate) fn begin(&self, name: String) -> Window<'_> {
        let mut state = self.state();
        state.read();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, RunningCase { name, process: None, lines: Lines::default() });
        Window { log: self, number }
    }

    /// The messages of the run. Called at its end.
    pub(crate) fn rest(&self) -> Vec<KernelLine> {
        let mut state = self.state();
        state.read();
        std::mem::take(&mut state.rest).finish()
    }

    /// `true` if a message reports an error of the GPU that this case may have caused: one of its own, or one of the run
    /// while it was among the running cases.
    pub(crate) fn is_gpu_error(&self, case: &str, own: &[KernelLine]) -> bool {
        let is_of_gpu = |line: &KernelLine| line.event.as_ref().is_some_and(KernelEvent::is_of_gpu);
        let state = self.state();
        let shared = state.rest.kept.iter().filter(|line| line.during.iter().any(|name| name == case));
        own.iter().chain(shared).any(is_of_gpu)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LogState> {
        lock(&self.0)
    }
}

impl Window<'_> {
    /// The process that runs the case.
    pub(crate) fn process(&self, id: u32) {
        let mut state = self.log.state();
        state.known.insert(id);
        if let Some(open) = state.open.get_mut(&self.number) {
            open.process = Some(id);
        }
    }

    /// The end of the case, and its messages.
    pub(crate) fn end(self) -> Vec<KernelLine> {
        let mut state = self.log.state();
        state.read();
        state.open.remove(&self.number).map(|open| open.lines.finish()).unwrap_or_default()
    }
}

impl Drop for Window<'_> {
    /// Messages of a case that did not begin belong to the run.
    fn drop(&mut self) {
        let mut state = self.log.state();
        if let Some(open) = state.open.remove(&self.number) {
            state.rest.extend(open.lines);
        }
    }
}

impl LogState {
    /// Distributes the messages since the last call.
    fn read(&mut self) {
        let Some(source) = &mut self.source else { return };
        for (text, event) in source.read() {
            let named = event::process(&text).filter(|id| !self.may_be_peer(*id, &text));
            let process = named.filter(|_| shares_process_ids());
            let family = process.map(family).unwrap_or_default();
            let owner = self.owner(&family);
            let is_own = family.iter().any(|id| self.known.contains(id));
            let event = match named {
                Some(_) if !is_own => event.map(|event| event.of_another(process.is_some())),
                _ => event,
            };
            let line = KernelLine { text, event, during: Vec::new() };
            match owner {
                Owner::Case(number) => {
                    if let Some(open) = self.open.get_mut(&number) {
                        open.lines.push(line);
                    }
                }
                Owner::Run(during) => self.rest.push(KernelLine { during, ..line }),
            }
        }
    }

    /// `true` if an ended process may have been one that a case started, a peer: it had this program's name, and no ancestors
    /// are left to ask. Its message counts as naming no process.
    fn may_be_peer(&self, process: u32, text: &str) -> bool {
        let is_own_name = || own_name().is_some_and(|name| event::names(text, &name));
        shares_process_ids() && !self.known.contains(&process) && has_ended(process) && is_own_name()
    }

    /// The owner of a message that names a process, with its ancestors, or none.
    fn owner(&self, family: &[u32]) -> Owner {
        if !family.is_empty() {
            let of_case = |open: &RunningCase| open.process.is_some_and(|id| family.contains(&id));
            let found = self.open.iter().find(|(_, open)| of_case(open)).map(|(number, _)| *number);
            return found.map_or(Owner::Run(Vec::new()), Owner::Case);
        }
        match self.open.first_key_value() {
            Some((number, _)) if self.open.len() == 1 && !self.is_one_of_many => Owner::Case(*number),
            _ => Owner::Run(self.open.values().map(|open| open.name.clone()).collect()),
        }
    }
}

/// The initial namespace of process ids, in which the kernel's messages name processes.
const INITIAL: &str = "pid:[4026531836]";
/// The greatest depth of a process below the suite.
const DEPTH: usize = 16;

/// `true` if the kernel's messages name processes by the ids of this process's namespace.
fn shares_process_ids() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == INITIAL)
}

/// `true` if there is no such process now.
fn has_ended(process: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// This program's name in the kernel's messages.
fn own_name() -> Option<String> {
    std::fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim_end().to_owned())
}

/// A process and its ancestors; the process alone if it has ended.
fn family(process: u32) -> Vec<u32> {
    let parent = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent != 0)
    };
    std::iter::successors(Some(process), parent).take(DEPTH).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn texts(lines: &[KernelLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_message_lands_at_its_case_and_at_no_other() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "before the run").expect("written");
        let log = KernelLog::follow(Some(file.path()), false).expect("readable");
        writeln!(file, "before the first case").expect("written");
        let first = log.begin("a".into());
        writeln!(file, "6,1,2,-;during a\n SUBSYSTEM=pci").expect("written");
        assert_eq!(texts(&first.end()), ["during a"]);
        writeln!(file, "between").expect("written");
        let (second, third) = (log.begin("b".into()), log.begin("c".into()));
        // Process ids of the kernel's log are those of this test only outside of containers.
        let id = std::process::id();
        if shares_process_ids() {
            third.process(id);
            writeln!(file, "NVRM: Xid (PCI:0000:01:00): 31, pid={id}, name=conformance, MMU Fault").expect("written");
            writeln!(file, "conformance[1]: of another process").expect("written");
        }
        writeln!(file, "during both").expect("written");
        assert_eq!(texts(&second.end()), Vec::<&str>::new());
        writeln!(file, "during c alone").expect("written");
        let lines = third.end();
        assert_eq!(texts(&lines).last(), Some(&"during c alone"));
        if shares_process_ids() {
            assert_eq!((lines.len(), lines[0].event.as_ref().and_then(|event| event.code)), (2, Some(31)));
        }
        let rest = log.rest();
        assert_eq!(texts(&rest[..2]), ["before the first case", "between"]);
        let both = rest.last().expect("a message");
        assert_eq!(
            (both.text.as_str(), both.during.as_slice()),
            ("during both", ["b".to_owned(), "c".to_owned()].as_slice())
        );
    }

    /// Only processes of running cases count. The id of the other process exceeds the kernel's greatest.
    #[test]
    fn the_end_of_another_process_is_none_of_a_case() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let log = KernelLog::follow(Some(file.path()), false).expect("readable");
        let own = std::process::id();
        // A message may arrive after the end of its case.
        let ended = log.begin("earlier".into());
        let (late, other) = ((1 << 23) + 1, 1 << 23);
        ended.process(late);
        ended.end();
        let window = log.begin("a".into());
        window.process(own);
        for id in [own, other] {
            writeln!(file, "conformance[{id}]: segfault at 0 ip 00007f sp 00007f error 4").expect("written");
            writeln!(file, "Out of memory: Killed process {id} (conformance) total-vm:1kB").expect("written");
            writeln!(file, "NVRM: Xid (PCI:0000:01:00): 31, pid={id}, name=x, MMU Fault").expect("written");
            writeln!(file, "NVRM: Xid (PCI:0000:01:00): 79, pid={id}, name=x, GPU has fallen off the bus.")
                .expect("written");
        }
        let meanings = |lines: &[KernelLine]| -> Vec<(String, bool)> {
            let events = lines.iter().filter_map(|line| line.event.as_ref());
            events.map(|event| (event.meaning.clone(), event.other_process)).collect()
        };
        let (lines, rest) = (window.end(), log.rest());
        let [bus, fault] = ["the GPU has fallen off the bus", "page fault of the GPU"];
        let [crash, kill] = ["a process crashed", "the kernel killed a process for its memory"];
        if shares_process_ids() {
            let expected = [(crash, false), (kill, false), (fault, false), (bus, false)];
            assert_eq!(meanings(&lines), expected.map(|(meaning, other)| (meaning.to_owned(), other)));
            let kill = "the kernel killed another process for its memory";
            let fault = "page fault of the GPU, of another process";
            let expected = [("another process crashed", true), (kill, true), (fault, true), (bus, false)];
            assert_eq!(meanings(&rest), expected.map(|(meaning, other)| (meaning.to_owned(), other)));
            writeln!(file, "conformance[{late}]: segfault at 0 ip 0").expect("written");
            assert_eq!(meanings(&log.rest()), [(crash.to_owned(), false)]);
        } else {
            // Process ids of another namespace identify neither the owner of a GPU error nor an ended process.
            let expected = [(crash, true), (kill, true), (fault, false), (bus, false)];
            let expected = expected.map(|(meaning, other)| (meaning.to_owned(), other));
            assert_eq!((meanings(&lines), meanings(&rest)), ([expected.clone(), expected].concat(), Vec::new()));
        }
    }

    /// Its id is no longer that of a descendant.
    #[test]
    fn the_crash_of_an_ended_peer_is_one_of_its_case() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let log = KernelLog::follow(Some(file.path()), false).expect("readable");
        let (own, ended) = (own_name().unwrap_or_default(), 1 << 23);
        let window = log.begin("a".into());
        for name in [own.as_str(), "other", &format!("x{own}"), &format!("{own}x")] {
            writeln!(file, "{name}[{ended}]: segfault at 0 ip 0").expect("written");
        }
        let is_other = |lines: Vec<KernelLine>| -> Vec<bool> {
            lines.into_iter().filter_map(|line| line.event).map(|event| event.other_process).collect()
        };
        let (lines, rest) = (is_other(window.end()), is_other(log.rest()));
        if shares_process_ids() {
            assert_eq!((lines, rest), (vec![false], vec![true; 3]));
        } else {
            assert_eq!((lines, rest), (vec![true; 4], Vec::new()));
        }
    }

    /// Also if several cases run, and their messages are the run's.
    #[test]
    fn an_error_of_the_gpu_concerns_the_cases_that_ran() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let log = KernelLog::follow(Some(file.path()), false).expect("readable");
        let (first, second) = (log.begin("a".into()), log.begin("b".into()));
        writeln!(file, "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!").expect("written");
        let lines = first.end();
        assert_eq!(lines, Vec::new());
        assert!(log.is_gpu_error("a", &lines) && log.is_gpu_error("b", &[]) && !log.is_gpu_error("c", &[]));
        writeln!(file, "NVRM: Xid (PCI:0000:01:00): 31, Ch 00000010").expect("written");
        let lines = second.end();
        assert!(lines.len() == 1 && log.is_gpu_error("c", &lines));
        let third = log.begin("c".into());
        writeln!(file, "eth0: link up\nx[{}]: segfault at 0 ip 0", 1 << 23).expect("written");
        assert!(!log.is_gpu_error("c", &third.end()));
    }

    /// A case of another device may have caused it.
    #[test]
    fn a_message_beside_other_devices_belongs_to_no_case() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let logs = [0, 1].map(|_| KernelLog::follow(Some(file.path()), true).expect("readable"));
        let windows = [0, 1].map(|device| logs[device].begin(format!("of {device}")));
        writeln!(file, "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!").expect("written");
        for (device, window) in windows.into_iter().enumerate() {
            assert_eq!(window.end(), Vec::new());
            assert!(logs[device].is_gpu_error(&format!("of {device}"), &[]));
            assert_eq!(logs[device].rest()[0].during, [format!("of {device}")]);
        }
    }

    /// Also of a case that did not begin.
    #[test]
    fn an_error_of_the_gpu_is_kept_behind_many_other_messages() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let log = KernelLog::follow(Some(file.path()), false).expect("readable");
        for is_begun in [true, false] {
            let window = log.begin("a".into());
            (0..MAX_LINES + 5).for_each(|number| writeln!(file, "noise {number}").expect("written"));
            writeln!(file, "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.").expect("written");
            let lines = if is_begun {
                window.end()
            } else {
                log.begin("b".into()).end();
                drop(window);
                log.rest()
            };
            assert_eq!(lines.len(), MAX_LINES + 2, "{is_begun}");
            assert_eq!(lines[MAX_LINES].event.as_ref().and_then(|event| event.code), Some(79));
            assert_eq!(lines[MAX_LINES + 1].text, "[5 messages omitted]");
        }
    }

    #[test]
    fn crashes_of_other_processes_displace_no_error_of_the_gpu() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let log = KernelLog::follow(Some(file.path()), false).expect("readable");
        (0..MAX_LINES + 5).for_each(|_| writeln!(file, "x[{}]: segfault at 0 ip 0", 1 << 23).expect("written"));
        writeln!(file, "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.").expect("written");
        let lines = log.rest();
        assert_eq!(lines[MAX_LINES].event.as_ref().and_then(|event| event.code), Some(79));
    }

    #[test]
    fn a_named_log_must_be_readable() {
        let stop = KernelLog::follow(Some(Path::new("/nonexistent/log")), false).expect_err("missing");
        assert!(stop.reason().contains("--kernel-log /nonexistent/log"), "{stop}");
        let lines = KernelLog::follow(None, false).expect("best effort").begin("a".into()).end();
        // Other programs write to the log of the system.
        assert!(cfg!(windows) || lines.is_empty(), "{lines:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_has_its_parent() {
        let parent = std::os::unix::process::parent_id();
        assert_eq!(family(std::process::id()).get(1), Some(&parent).filter(|parent| **parent != 0));
        assert_eq!(family(u32::MAX), [u32::MAX]);
    }
}
