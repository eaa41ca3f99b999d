//! Runs groups of scenarios in child processes. Starting a GPU's drivers takes longer than most scenarios.
//!
//! A crash, failure or timeout ends the process; the rest of the group continues in a new one.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::process::Child;
use std::time::{Duration, Instant};

use wait_timeout::ChildExt;

use super::case::{Case, Ended, Run};
use super::halt::Halt;
use crate::call_trace::{self, CallFile};
use crate::evidence::{Around, Evidence, Window};
use crate::interrupt::NOTICED_WITHIN;
use crate::report::HISTORY;
use gpu_interop_conformance::execution::Ran;
use gpu_interop_conformance::process::{log_from, this_program};
use gpu_interop_conformance::system::{self, Connection, Received, describe, nameless_file};
use gpu_interop_conformance::{
    CONNECTIONS_VARIABLE, Channel, Concurrency, Observation, Outcome, Recorded, Scenario, Seeds, Stop, Verdict,
};

/// Maximum size of the message with a scenario's result, bytes.
const MESSAGE: usize = 128 << 10;
/// The message that carries the file for driver calls.
const CALLS: &str = "calls";
/// Time for a process to release its resources and exit after a failure.
const LEAVING: Duration = Duration::from_secs(3);
/// The maximum number of CUDA's hardware queues. A stream whose wait is enqueued before the signal needs a queue of its own.
/// With 32 queues a process takes 1.0 s to start and exit, instead of 0.37 s (H200).
const MOST_CONNECTIONS: &str = "32";

/// Records this process's driver calls in the parent's file.
pub(crate) fn record_calls() -> Verdict {
    let (_, file) = Channel::of_this_process()?.receive_handle(CALLS)?;
    call_trace::record_to(file.into());
    Ok(())
}

/// Sends the result of a scenario to the parent.
pub(crate) fn answer(ran: &Ran) -> Verdict {
    // Later calls free objects of the failed scenario and do not belong to its trace.
    if ran.verdict.as_ref().is_err_and(Stop::is_failure) {
        call_trace::stop();
    } else {
        call_trace::next_scenario();
    }
    let mut ran = ran.clone();
    if let Err(stop) = &mut ran.verdict {
        stop.reason = cut(&stop.reason, MESSAGE / 16);
    }
    let Recorded { observed, left_out, .. } = &mut ran.recorded;
    let most = MESSAGE / 24 / (3 * observed.len() + left_out.len()).max(1);
    let observed = observed.iter_mut().flat_map(|Observation { call, raw, library }| [call, raw, library]);
    for text in observed.chain(left_out) {
        *text = cut(text, most);
    }
    let bytes = serde_json::to_vec(&ran).map_err(|error| Stop::failed(error.to_string()))?;
    Connection::of_this_process()?.send(&bytes, &[])
}

/// Truncates `text` to this many characters. JSON has up to 6 bytes for each.
fn cut(text: &str, most: usize) -> String {
    let mut kept: String = text.chars().take(most).collect();
    if kept.len() < text.len() {
        kept.push_str(" [...]");
    }
    kept
}

/// Options of a group's run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) backend: &'a str,
    /// The device's ordinal.
    pub(super) device: usize,
    pub(super) seeds: Seeds,
    /// Replaces the time limit of each scenario, for one seed.
    pub(super) timeout: Option<Duration>,
    /// `true` if driver calls are recorded.
    pub(super) calls: bool,
    /// Ends the run early.
    pub(super) halt: &'a Halt,
    pub(super) evidence: &'a Evidence,
}

/// Runs cases that share an exporter, and calls `ended` for each, in order, with its index in `cases`.
pub(super) fn run(options: Options<'_>, cases: &[Case<'_>], mut ended: impl FnMut(usize, Ended, Duration)) {
    let mut done = 0;
    while done < cases.len() {
        if let Some(stop) = options.halt.stop() {
            ended(done, Ended::left(stop), Duration::ZERO);
            done += 1;
            continue;
        }
        let is_exclusive = cases[done].scenario.concurrency == Concurrency::Exclusive;
        let mut sensors = options.evidence.sensors(is_exclusive);
        let mut window = Some(options.evidence.begin(cases[done].name()));
        let mut process = match Process::spawn(options, &cases[done..]) {
            Ok(process) => process,
            Err(stop) => {
                ended(done, Ended::of(Err(stop)), Duration::ZERO);
                done += 1;
                continue;
            }
        };
        let (mut usable, first, mut start) = (true, done, Instant::now());
        while usable && done < cases.len() {
            let limit = time_limit(options.timeout, cases[done].scenario, options.seeds);
            if let Some(window) = &window {
                window.process(process.child.id());
            }
            let mut end = process.next(limit, done + 1 == cases.len()).unwrap_or_else(|stop| Ended::of(Err(stop)));
            let took = end.took_since(start);
            // The process has begun the next case.
            start = Instant::now();
            end.kernel_log = window.take().map(Window::end).unwrap_or_default();
            end.is_gpu_error = options.evidence.kernel_log.is_gpu_error(&cases[done].name(), &end.kernel_log);
            window = cases.get(done + 1).map(|next| options.evidence.begin(next.name()));
            let after = options.evidence.sensors(is_exclusive);
            end.sensors = sensors.zip(after.clone()).map(|(before, after)| Around { before, after });
            sensors = after;
            usable = !end.outcome.is_failure();
            ended(done, Process::with_history(end, &cases[first..done]), took);
            // The process of a run that stops ends as well.
            usable &= options.halt.stop().is_none();
            done += 1;
        }
    }
}

/// The time limit of a scenario with all its seeds.
fn time_limit(timeout: Option<Duration>, scenario: &Scenario, seeds: Seeds) -> Duration {
    timeout.unwrap_or(scenario.time_limit).saturating_mul(seeds.count.get())
}

/// Runs one case in a process of its own.
pub(super) fn run_alone(options: Options<'_>, case: Case<'_>) -> Run {
    let mut run = None;
    self::run(options, &[case], |_, ended, took| run = Some(Run { ended, took }));
    run.unwrap_or_else(|| {
        let reason = format!("the suite has lost {}", case.scenario.id);
        Run { ended: Ended::without_log(Outcome::Failed, Some(reason)), took: Duration::ZERO }
    })
}

/// A child process that runs scenarios in sequence.
struct Process<'a> {
    halt: &'a Halt,
    child: Child,
    channel: Channel,
    log: File,
    /// Offset of the current scenario's output in the log, bytes.
    log_start: u64,
    /// The file of recorded driver calls.
    calls: Option<CallFile>,
    /// The number of scenarios that have ended in it.
    ended: usize,
}

/// An event of a child process.
enum Event {
    Ran(Ran),
    /// The connection is closed: the process has exited or is about to.
    Ended,
    TimedOut,
    Halted(Stop),
}

impl<'a> Process<'a> {
    fn spawn(options: Options<'a>, cases: &[Case<'_>]) -> Verdict<Self> {
        let (channel, there) = Channel::pair()?;
        let log = nameless_file("conformance log")?;
        let mut command = this_program()?;
        let Seeds { first, count } = options.seeds;
        command.args(["child", "--backend", options.backend, "--seed", &first.to_string()]);
        command.args(["--repeat", &count.to_string(), "--device", &options.device.to_string()]);
        if let Some(exporter) = cases.first().and_then(|case| case.exporter) {
            command.args(["--exporter", exporter.name()]);
        }
        for case in cases {
            command.args(["--scenario", case.scenario.id]);
        }
        if cases.iter().any(|case| case.scenario.many_streams) && system::set_variable(CONNECTIONS_VARIABLE).is_none() {
            command.env(CONNECTIONS_VARIABLE, MOST_CONNECTIONS);
        }
        let calls = options.calls.then(CallFile::new).transpose()?;
        if let Some(calls) = &calls {
            command.arg("--calls");
            channel.send(CALLS, 0, &[calls.handle()])?;
        }
        command.stdin(there).stdout(log.try_clone()?).stderr(log.try_clone()?);
        system::own_group(&mut command);
        Ok(Self { halt: options.halt, child: command.spawn()?, channel, log, log_start: 0, calls, ended: 0 })
    }

    /// Waits for the end of the next scenario. For the last one, also for the exit of the process: a crash at exit is a
    /// crash.
    fn next(&mut self, limit: Duration, is_last: bool) -> Verdict<Ended> {
        let deadline = Instant::now() + limit;
        let mut end = match self.next_event(deadline)? {
            Event::Ran(ran) => Ended::ran(ran),
            Event::TimedOut => timed_out(limit),
            Event::Halted(stop) => Ended::left(stop),
            Event::Ended => self.end_of_process(deadline)?.unwrap_or_else(|| {
                Ended::without_log(Outcome::Crashed, Some("its process exited successfully without a result".into()))
            }),
        };
        if is_last
            && !end.outcome.is_failure()
            && let Some(after) = self.end_of_process(deadline)?
        {
            end = after;
            if end.outcome.is_failure() {
                end.reason = end.reason.map(|reason| format!("after the scenario: {reason}"));
            }
        }
        if end.outcome.is_failure() {
            if end.outcome != Outcome::TimedOut {
                // The process runs no more scenarios. Its output at exit belongs to the failure's log.
                let _ = self.end_of_process(Instant::now() + LEAVING);
            }
            // No process writes to the log while it is read.
            self.kill();
        }
        end.log = Some(log_from(&mut self.log, self.log_start)?);
        self.log_start = self.log.seek(SeekFrom::End(0))?;
        if end.outcome.is_failure() {
            end.calls = self.calls.as_ref().map(|calls| calls.trace(self.ended)).transpose()?;
        }
        self.ended += 1;
        Ok(end)
    }

    /// Adds the scenarios that ran before in this process to the reason of a failure.
    fn with_history(ended: Ended, before: &[Case<'_>]) -> Ended {
        if !ended.outcome.is_failure() || before.is_empty() {
            return ended;
        }
        /// Maximum number of listed scenarios.
        const MOST: usize = 12;
        let (others, last) = before.split_at(before.len().saturating_sub(MOST));
        let mut ids: Vec<&str> = last.iter().map(|case| case.scenario.id).collect();
        let number = format!("{} more", others.len());
        if !others.is_empty() {
            ids.insert(0, &number);
        }
        let reason = ended.reason.unwrap_or_default();
        let history = format!("{HISTORY}{} before; --isolate-each runs each in a separate process]", ids.join(", "));
        Ended { reason: Some(format!("{reason} {history}")), ..ended }
    }

    /// Waits for the exit of the process. `None` if it succeeded.
    fn end_of_process(&mut self, deadline: Instant) -> Verdict<Option<Ended>> {
        let status = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let status = self.child.wait_timeout(left.clamp(Duration::from_millis(1), NOTICED_WITHIN))?;
            if status.is_some() || left.is_zero() {
                break status;
            }
            if let Some(stop) = self.halt.stop() {
                return Ok(Some(Ended::left(stop)));
            }
        };
        Ok(match status {
            Some(status) if status.success() => None,
            Some(status) => Some(match self.halt.stop() {
                // A scheduler may have signalled both processes.
                Some(stop) => Ended::left(stop),
                None => Ended::without_log(Outcome::Crashed, Some(describe(status))),
            }),
            None => Some(Ended::without_log(Outcome::TimedOut, Some("its process did not end and was killed".into()))),
        })
    }

    fn kill(&mut self) {
        // Both are harmless after the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn next_event(&self, deadline: Instant) -> Verdict<Event> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.channel.connection().wait(left.min(NOTICED_WITHIN))? {
                break;
            }
            if let Some(stop) = self.halt.stop() {
                return Ok(Event::Halted(stop));
            }
            if left.is_zero() {
                return Ok(Event::TimedOut);
            }
        }
        let bytes = match self.channel.connection().receive(MESSAGE)? {
            Received::Message(bytes, _) => bytes,
            Received::Gone => return Ok(Event::Ended),
        };
        let ran = serde_json::from_slice(&bytes)
            .map_err(|error| Stop::failed(format!("the scenario's process sent an invalid message: {error}")))?;
        Ok(Event::Ran(ran))
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn timed_out(limit: Duration) -> Ended {
    Ended::without_log(Outcome::TimedOut, Some(format!("did not end within {limit:?} and was killed")))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use gpu_interop_conformance::Exporters;

    use super::*;

    #[test]
    fn each_repetition_has_the_whole_time_limit() {
        let scenario = Scenario::new("a.b", Exporters::None, "", |_| Ok(()));
        let limit = |timeout: Option<u64>, count| {
            let seeds = Seeds { first: 1, count: NonZeroU32::new(count).expect("not 0") };
            time_limit(timeout.map(Duration::from_secs), &scenario, seeds)
        };
        assert_eq!((limit(None, 1), limit(None, 3)), (Scenario::TIME_LIMIT, 3 * Scenario::TIME_LIMIT));
        assert_eq!((limit(Some(7), 1), limit(Some(7), 4)), (Duration::from_secs(7), Duration::from_secs(28)));
        assert_eq!(limit(Some(u64::MAX), 2), Duration::MAX);
    }
}
