//! The process that meets the faults: one function's, one after the other. A line of JSON before and after each says
//! where it is, should it not come to its end.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use gpu_interop::Device;
use serde::{Deserialize, Serialize};

use crate::campaign;
use crate::control::{Control, Live};
use crate::driver::Driver;
use crate::exercise::{self, Record, Returned};
use crate::fault::{self, Answer, Fault, Uses};
use crate::holdings::Holdings;
use crate::judge::{Case, judge};
use crate::notice::{self, Notice};
use crate::report::Defect;
use crate::sabotage::Sabotage;

/// What a process is to do.
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
    /// How much of the plan is carried out, if not the whole.
    pub(crate) until: Option<usize>,
    /// Whether no use is left out.
    pub(crate) every_use: bool,
    pub(crate) sabotage: Option<Sabotage>,
    /// What one exercise may take.
    pub(crate) limit: Duration,
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A fault is about to be injected.
    Begin { index: usize, fault: String },
    /// It was.
    End { defects: Vec<(Defect, String)> },
    /// Nothing is left, or these faults of the plan are for another process.
    Done { left: bool },
}

impl Line {
    fn say(&self) {
        println!("{}", serde_json::to_string(self).expect("a line"));
    }
}

/// After how many faults there is an exercise without one.
const AGAIN: usize = 10;

/// The process.
pub(crate) fn main(task: &Task) {
    let driver = Driver::named(&task.driver);
    let control = Control::open(driver.vendor, &task.library);
    notice::listen();
    let subject = Subject { driver, control, limit: task.limit, sabotage: task.sabotage };
    let (clean, calls) = subject.warm_up(&task.function);
    let mut plan = fault::plan(driver, &task.function, calls, control.gives(&task.function), task.every_use);
    plan.truncate(task.until.unwrap_or(usize::MAX));
    if task.sabotage == Some(Sabotage::Miss) {
        plan.iter_mut().for_each(|fault| fault.uses = Uses::Nth(u64::MAX));
    }
    let end = plan.len().min(task.from + task.most);
    for (index, fault) in plan.iter().enumerate().take(end).skip(task.from) {
        Line::Begin { index, fault: fault.to_string() }.say();
        let mut defects = subject.meet(fault, &clean);
        // Each exercise shows that what another fault hit works again; this one, that all does.
        if index % AGAIN == AGAIN - 1 || index + 1 == end {
            defects.extend(subject.again(&clean));
        }
        Line::End { defects }.say();
    }
    Line::Done { left: end < plan.len() }.say();
}

/// What is tried.
struct Subject {
    driver: &'static Driver,
    control: Control,
    limit: Duration,
    /// Of what a fault does.
    sabotage: Option<Sabotage>,
}

impl Subject {
    /// The exercise without faults: what it shows, and how often it calls a function. Fails unless it works.
    fn warm_up(&self, function: &str) -> (Record, u64) {
        let once = || {
            self.control.heal();
            let record = self.exercise(None).expect("the exercise ends");
            let calls = self.control.calls(function);
            let notices = notice::take();
            assert!(is_clean(&record, &notices), "without a fault: {record:#?} {notices:#?}");
            (record, calls)
        };
        let first = once();
        assert_eq!(self.control.live(), Live::default(), "alive without a fault");
        let before = Holdings::now(&self.control);
        // How often streams are asked whether they are done depends on the time that they take.
        let (record, calls) = (0..2).map(|_| once()).fold(first, |least, (_, calls)| (least.0, least.1.min(calls)));
        let after = Holdings::settled(&self.control, |now| *now == before);
        assert_eq!(after, before, "without a fault");
        (record, calls)
    }

    /// Injects a fault into an exercise: the defects.
    fn meet(&self, fault: &Fault, clean: &Record) -> Vec<(Defect, String)> {
        let (control, sabotage) = (&self.control, self.sabotage);
        let before = Holdings::now(control);
        control.fail(&sabotage.and_then(|sabotage| sabotage.rule(fault)).unwrap_or_else(|| fault.to_string()), 1);
        let mut record = match self.exercise(sabotage) {
            Ok(record) => record,
            Err(defect) => return vec![defect],
        };
        let calls = control.calls(&fault.function);
        match sabotage {
            Some(Sabotage::KeepFailing) => control.fail(&format!("{}:*:1", fault.function), 1),
            _ => control.heal(),
        }
        let mut notices = notice::take();
        if let Some(sabotage) = sabotage {
            sabotage.alter(&mut record, &mut notices);
        }
        let mut defects = self.import_again(std::mem::take(&mut record.returned));
        let mut case = Case {
            driver: self.driver,
            fault,
            calls,
            name: match fault.answer {
                Answer::Code(code) => control.name_of(code),
                Answer::Null => None,
            },
            clean,
            record: &record,
            notices: &notices,
            before,
            after: before,
        };
        // Threads may still be letting go.
        case.after = Holdings::settled(control, |now| case.check_kept(now).is_ok());
        defects.extend(judge(&case));
        defects
    }

    /// Imports what came back from imports that failed.
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
        let before = Holdings::now(&self.control);
        let record = match self.exercise(None) {
            Ok(record) => record,
            Err((_, text)) => return Some((Defect::NotAgain, text)),
        };
        let notices = notice::take();
        if !is_clean(&record, &notices) || record.facts != clean.facts {
            return Some((Defect::NotAgain, format!("{record:?} {notices:?}")));
        }
        let after = Holdings::settled(&self.control, |now| *now == before);
        (after != before)
            .then(|| (Defect::NotAgain, format!("it leaves something: {after:?}, and there was {before:?}")))
    }

    /// The exercise, on a thread of its own: its current context and device go with it.
    fn exercise(&self, sabotage: Option<Sabotage>) -> Result<Record, (Defect, String)> {
        let (driver, control) = (self.driver, self.control);
        let (done, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("exercise".into()).spawn(move || {
            let record = exercise::run(driver, &control, sabotage);
            let _ = done.send(());
            record
        });
        let thread = thread.expect("a thread");
        if campaign::receive(&ended, self.limit) == Err(RecvTimeoutError::Timeout) {
            // The thread cannot be ended, and holds what it holds: the rest is for another process.
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

/// Whether nothing failed.
fn is_clean(record: &Record, notices: &[Notice]) -> bool {
    record.errors.is_empty() && record.wrong.is_empty() && !record.moved && notices.is_empty()
}
