//! The outcome of each scenario of a group is independent of the others.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use gpu_interop::{DeviceIdentity, MemoryImport};

use super::*;
use crate::exporter::{BufferAccess, BufferSpec, Complaints, ExportedBuffer, Exporter};
use crate::scenario::Exporters;

/// An exporter with checks only.
struct Strict {
    identity: DeviceIdentity,
    complaints: Arc<Mutex<Vec<String>>>,
    /// An error at its drop.
    last: Option<&'static str>,
    unchecked: Option<&'static str>,
}

impl Exporter for Strict {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn describe(&self) -> String {
        "checks".into()
    }

    fn buffer(&self, _spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>> {
        // A call of a scenario that the exporter's checks reject.
        self.complaints.lock().expect("no panic").push("a wrong call".into());
        Err(Stop::unsupported("no buffers".into()))
    }

    fn import(&self, _request: MemoryImport, _size: u64) -> Verdict<Box<dyn BufferAccess>> {
        Err(Stop::unsupported("no imports".into()))
    }

    fn complaints(&self) -> Complaints {
        let complaints = self.complaints.clone();
        Box::new(move || complaints.lock().expect("no panic").clone())
    }

    fn unchecked(&self) -> Option<String> {
        self.unchecked.map(Into::into)
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        self.complaints.lock().expect("no panic").extend(self.last.map(Into::into));
    }
}

fn scenario(id: &'static str, run: fn(&Context) -> Verdict) -> Scenario {
    Scenario::new(id, Exporters::Any, "", run)
}

fn passes(_: &Context) -> Verdict {
    Ok(())
}

fn fails(_: &Context) -> Verdict {
    Err(Stop::failed("wrong".into()))
}

fn panics(_: &Context) -> Verdict {
    panic!("with a message")
}

fn unsupported(_: &Context) -> Verdict {
    Err(Stop::unsupported("not here".into()))
}

fn skipped(_: &Context) -> Verdict {
    Err(Stop::skipped("not installed".into()))
}

/// Passes, but the exporter's own checks report an error.
fn careless(context: &Context) -> Verdict {
    context.buffer(4096).map_or(Ok(()), |_| Err(Stop::failed("a buffer".into())))
}

const ONCE: Seeds = Seeds { first: 1, count: NonZeroU32::MIN };

fn strict(last: Option<&'static str>) -> impl FnOnce() -> Verdict<Context> {
    move || {
        let context = Context::open(Arc::new(BackendUnderTest::host()), None, 1)?;
        let (identity, complaints) = (context.device().identity().clone(), Arc::default());
        Ok(context.with_exporter(Box::new(Strict { identity, complaints, last, unchecked: Some("half of it") })))
    }
}

fn run(scenarios: &[fn(&Context) -> Verdict], last: Option<&'static str>) -> Vec<Verdict> {
    let scenarios: Vec<Scenario> = scenarios.iter().map(|run| scenario("a.b", *run)).collect();
    let mut ended = Vec::new();
    let report = |ran: Ran| {
        ended.push(ran.verdict);
        Ok(())
    };
    run_opened(strict(last), &scenarios.iter().collect::<Vec<_>>(), ONCE, report).expect("every end is reported");
    ended
}

fn failed(verdict: &Verdict, part: &str) -> bool {
    verdict.as_ref().is_err_and(|stop| stop.is_failure() && stop.reason.contains(part))
}

#[test]
fn each_end_is_told_as_it_was_and_a_failure_is_the_last_of_its_process() {
    let ended = run(&[passes, unsupported, skipped, passes], None);
    let (not_here, not_installed) = (Stop::unsupported("not here".into()), Stop::skipped("not installed".into()));
    assert_eq!(ended, [Ok(()), Err(not_here), Err(not_installed), Ok(())]);
    let ended = run(&[passes, fails, passes], None);
    assert!(ended.len() == 2 && failed(&ended[1], "wrong"), "{ended:?}");
    let ended = run(&[panics, passes], None);
    assert!(ended.len() == 1 && failed(&ended[0], "panicked: with a message"), "{ended:?}");
}

#[test]
fn a_complaint_fails_the_scenario_that_it_came_with() {
    let ended = run(&[passes, careless, passes], None);
    assert!(ended.len() == 2 && ended[0] == Ok(()), "{ended:?}");
    assert!(failed(&ended[1], "the exporter's own checks reported: a wrong call"), "{ended:?}");
    assert!(failed(&run(&[careless], None)[0], "a wrong call"));
}

#[test]
fn a_complaint_at_the_end_of_the_exporter_fails_the_last_scenario() {
    for last in [passes as fn(&Context) -> Verdict, unsupported, skipped] {
        let ended = run(&[passes, last], Some("a leak"));
        assert!(ended[0] == Ok(()) && failed(&ended[1], "reported: a leak"), "{ended:?}");
    }
    let ended = run(&[fails], Some("a leak"));
    assert!(failed(&ended[0], "wrong"), "its own failure is reported: {ended:?}");
}

#[test]
fn what_the_exporter_did_not_check_is_left_out_of_every_pass() {
    let scenario = scenario("a.b", passes);
    let mut left_out = Vec::new();
    let report = |ran: Ran| {
        left_out.extend(ran.recorded.left_out);
        Ok(())
    };
    run_opened(strict(None), &[&scenario], ONCE, report).expect("reported");
    assert_eq!(left_out, ["half of it"]);
}

#[test]
fn a_context_that_does_not_open_is_the_end_of_every_scenario() {
    for stop in [Stop::failed("broken".into()), Stop::skipped("absent".into()), Stop::unsupported("never".into())] {
        let scenario = scenario("a.b", passes);
        let mut ended = Vec::new();
        let (open, report) = (
            || Err(stop.clone()),
            |ran: Ran| {
                ended.push(ran.verdict);
                Ok(())
            },
        );
        run_opened(open, &[&scenario, &scenario], ONCE, report).expect("reported");
        assert_eq!(ended, [Err(stop.clone()), Err(stop)]);
    }
}

#[test]
fn every_repetition_counts() {
    fn fails_with_the_third_seed(context: &Context) -> Verdict {
        if context.pattern().seed() == 3 { Err(Stop::failed("wrong".into())) } else { Ok(()) }
    }
    let scenario = scenario("a.b", fails_with_the_third_seed);
    for (count, fails) in [(1, false), (2, false), (3, true), (4, true)] {
        let seeds = Seeds { first: 1, count: NonZeroU32::new(count).expect("not 0") };
        let mut ended = Vec::new();
        let report = |ran: Ran| {
            ended.push(ran.verdict);
            Ok(())
        };
        run_opened(strict(None), &[&scenario], seeds, report).expect("reported");
        assert_eq!(failed(&ended[0], &format!("wrong [run 3 of {count}, --seed 3]")), fails, "{count}: {ended:?}");
    }
}
