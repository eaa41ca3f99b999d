//! The process in which the faults of one function are injected, one after the other. A line of JSON before and after
//! each identifies the fault if the process dies. Failures that no result can carry are log events, by `tracing`.

use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use gpu_interop::Device;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::campaign::Defect;
use crate::checks::{Case, check};
use crate::exercise::{Record, Returned};
use crate::fault::{Answer, Fault, Uses};
use crate::sabotage::Sabotage;
use crate::simulator::{Driver, Live, ResourceSnapshot, Simulator};
use crate::{exercise, fault};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    /// A driver's name.
    pub(crate) driver: String,
    pub(crate) library: PathBuf,
    pub(crate) function: String,
    /// The first fault of the plan.
    pub(crate) from: usize,
    /// The most faults for one process.
    pub(crate) most: usize,
    /// The end of the plan, if not all of it is carried out.
    pub(crate) until: Option<usize>,
    /// `true` if every use fails.
    pub(crate) every_use: bool,
    pub(crate) sabotage: Option<Sabotage>,
    /// The limit of one exercise.
    pub(crate) limit: Duration,
}

/// The limit of one exercise. It takes some milliseconds; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(20);

impl Task {
    /// The whole plan of a function, each fault once.
    pub(crate) fn new(driver: &Driver, library: &Path, function: &str, most: usize) -> Self {
        Self {
            driver: driver.name.into(),
            library: library.into(),
            function: function.into(),
            from: 0,
            most,
            until: None,
            every_use: false,
            sabotage: None,
            limit: LIMIT,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A fault is about to be injected.
    Begin { index: usize, fault: String },
    /// It was injected.
    End { defects: Vec<(Defect, String)> },
    /// The plan is done, or the rest is for another process.
    Done { left: bool },
}

impl Line {
    fn say(&self) {
        println!("{}", serde_json::to_string(self).expect("a line"));
    }
}

/// Faults between two exercises without a fault.
const AGAIN: usize = 10;

/// The process.
pub(crate) fn main(task: &Task) {
    let driver = Driver::named(&task.driver);
    let simulator = Simulator::open(driver.vendor, &task.library);
    capture_log();
    let subject = Subject { driver, simulator, limit: task.limit, sabotage: task.sabotage };
    let (clean, calls) = subject.warm_up(&task.function);
    let mut plan = fault::plan(driver, &task.function, calls, simulator.gives(&task.function), task.every_use);
    plan.truncate(task.until.unwrap_or(usize::MAX));
    if task.sabotage == Some(Sabotage::Miss) {
        plan.iter_mut().for_each(|fault| fault.uses = Uses::Nth(u64::MAX));
    }
    let end = plan.len().min(task.from + task.most);
    for (index, fault) in plan.iter().enumerate().take(end).skip(task.from) {
        Line::Begin { index, fault: fault.to_string() }.say();
        let mut defects = subject.meet(fault, &clean);
        // Each exercise shows that the function of the last fault works again; this one, that everything does.
        if index % AGAIN == AGAIN - 1 || index + 1 == end {
            defects.extend(subject.again(&clean));
        }
        Line::End { defects }.say();
    }
    Line::Done { left: end < plan.len() }.say();
}

/// The backend under test.
struct Subject {
    driver: &'static Driver,
    simulator: Simulator,
    limit: Duration,
    /// A planted defect.
    sabotage: Option<Sabotage>,
}

impl Subject {
    /// The exercise without faults: its observations, and its calls of a function. Fails unless it works.
    fn warm_up(&self, function: &str) -> (Record, u64) {
        let once = || {
            self.simulator.heal();
            let record = self.exercise(None, false).expect("the exercise ends");
            let calls = self.simulator.calls(function);
            let logged = take_log();
            assert!(is_clean(&record, &logged), "without a fault: {record:#?} {logged:#?}");
            (record, calls)
        };
        let first = once();
        assert_eq!(self.simulator.live(), Live::default(), "alive without a fault");
        let before = ResourceSnapshot::now(&self.simulator);
        // The number of queries of streams depends on timing.
        let (record, calls) = (0..2).map(|_| once()).fold(first, |least, (_, calls)| (least.0, least.1.min(calls)));
        let after = ResourceSnapshot::settled(&self.simulator, |now| *now == before);
        assert_eq!(after, before, "without a fault");
        (record, calls)
    }

    /// Injects a fault into an exercise: the defects.
    fn meet(&self, fault: &Fault, clean: &Record) -> Vec<(Defect, String)> {
        let (simulator, sabotage) = (&self.simulator, self.sabotage);
        let before = ResourceSnapshot::now(simulator);
        simulator.fail(&sabotage.and_then(|sabotage| sabotage.rule(fault)).unwrap_or_else(|| fault.to_string()), 1);
        let mut record = match self.exercise(sabotage, !matches!(fault.uses, Uses::Nth(_))) {
            Ok(record) => record,
            Err(defect) => return vec![defect],
        };
        let calls = simulator.calls(&fault.function);
        match sabotage {
            Some(Sabotage::KeepFailing) => simulator.fail(&format!("{}:*:1", fault.function), 1),
            _ => simulator.heal(),
        }
        let mut logged = take_log();
        if let Some(sabotage) = sabotage {
            sabotage.alter(&mut record, &mut logged);
        }
        let mut defects = self.import_again(std::mem::take(&mut record.returned));
        let mut case = Case {
            driver: self.driver,
            fault,
            calls,
            name: match fault.answer {
                Answer::Code(code) => simulator.name_of(code),
                Answer::Null => None,
            },
            clean,
            record: &record,
            logged: &logged,
            before,
            after: before,
        };
        // Threads may still be releasing objects.
        case.after = ResourceSnapshot::settled(simulator, |now| case.check_kept(now).is_ok());
        defects.extend(check(&case));
        defects
    }

    /// Imports the requests returned by failed imports.
    fn import_again(&self, returned: Vec<Returned>) -> Vec<(Defect, String)> {
        if returned.is_empty() {
            return Vec::new();
        }
        let opened = self.driver.vendor.load().and_then(|backend| Device::open(&*backend, self.driver.ordinal));
        let import = |request: Returned| {
            opened
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|device| request.import(device).map_err(|error| error.to_string()))
        };
        let failed = returned.into_iter().filter_map(|request| import(request).err());
        failed.map(|error| (Defect::Broken, format!("a handle that came back cannot be imported: {error}"))).collect()
    }

    /// The exercise once more, without faults.
    fn again(&self, clean: &Record) -> Option<(Defect, String)> {
        let before = ResourceSnapshot::now(&self.simulator);
        let record = match self.exercise(None, false) {
            Ok(record) => record,
            Err((_, text)) => return Some((Defect::NotAgain, text)),
        };
        let logged = take_log();
        if !is_clean(&record, &logged) || record.facts != clean.facts {
            return Some((Defect::NotAgain, format!("{record:?} {logged:?}")));
        }
        let after = ResourceSnapshot::settled(&self.simulator, |now| *now == before);
        (after != before)
            .then(|| (Defect::NotAgain, format!("it leaves something: {after:?}, and there was {before:?}")))
    }

    /// The exercise, on a thread of its own: its current context and device go with it.
    fn exercise(&self, sabotage: Option<Sabotage>, lasting: bool) -> Result<Record, (Defect, String)> {
        let (driver, simulator) = (self.driver, self.simulator);
        let (done, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("exercise".into()).spawn(move || {
            let record = exercise::run(driver, &simulator, sabotage, lasting);
            let _ = done.send(());
            record
        });
        let thread = thread.expect("a thread");
        if receive(&ended, self.limit) == Err(RecvTimeoutError::Timeout) {
            // The thread cannot be ended: the rest of the plan is for another process.
            Line::End { defects: vec![(Defect::Hang, format!("no end after {:?}", self.limit))] }.say();
            std::process::exit(0);
        }
        thread.join().map_err(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (Defect::Crash, format!("panicked: {}", text.unwrap_or_default()))
        })
    }
}

/// `true` if nothing failed.
fn is_clean(record: &Record, logged: &[LogEvent]) -> bool {
    record.errors.is_empty() && record.wrong.is_empty() && !record.moved && logged.is_empty()
}

/// Waits up to `limit`, in steps: a machine that is suspended while its clock runs loses one step.
pub(crate) fn receive<T>(from: &mpsc::Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
    const STEPS: u32 = 20;
    let mut received = from.recv_timeout(limit / STEPS);
    for _ in 1..STEPS {
        if !matches!(received, Err(RecvTimeoutError::Timeout)) {
            break;
        }
        received = from.recv_timeout(limit / STEPS);
    }
    received
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LogEvent {
    pub(crate) message: String,
    /// The error that is reported.
    pub(crate) error: String,
    /// The driver object.
    pub(crate) resource: String,
}

static LOGGED: Mutex<Vec<LogEvent>> = Mutex::new(Vec::new());

struct Listener;

/// Captures events from here on.
pub(crate) fn capture_log() {
    tracing::subscriber::set_global_default(registry().with(Listener)).expect("no other subscriber");
}

/// Events since the last call.
pub(crate) fn take_log() -> Vec<LogEvent> {
    std::mem::take(&mut LOGGED.lock().unwrap_or_else(PoisonError::into_inner))
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // A timeline that the driver rejects works with a bridge: no warning.
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let mut logged = LogEvent::default();
        event.record(&mut logged);
        // Of the reasons for a bridge only a failed import is one of the driver.
        if logged.message.starts_with("the driver does not import the timeline") {
            if !logged.resource.contains("ImportExternalSemaphore: ") {
                return;
            }
            let reason = std::mem::take(&mut logged.resource);
            reason.trim_matches('"').clone_into(&mut logged.error);
        }
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).push(logged);
    }
}

impl Visit for LogEvent {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let target = match field.name() {
            "message" => &mut self.message,
            "error" => &mut self.error,
            _ => &mut self.resource,
        };
        let _ = write!(target, "{value:?}");
    }
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reported: {}; {} {}", self.message, self.error, self.resource)
    }
}
