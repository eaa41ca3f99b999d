//! Runs scenarios in this process.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::backend_under_test::BackendUnderTest;
use crate::context::{Context, Recorded};
use crate::exporter::{Exporter, ExporterName};
use crate::outcome::{Stop, Verdict, take_checked};
use crate::scenario::Scenario;

/// The seeds of every scenario: `first` and its successors.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// The first seed.
    pub first: u32,
    /// The number of seeds.
    pub count: NonZeroU32,
}

/// The result of a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ran {
    /// Passed, or the reason for the other outcome.
    pub verdict: Verdict,
    /// Its records.
    #[serde(flatten)]
    pub recorded: Recorded,
    /// The time that it took, without the start and the exit of its process; `None` if device or exporter did not open.
    pub took: Option<Duration>,
}

impl Ran {
    fn unopened(verdict: Verdict) -> Self {
        Self { verdict, recorded: Recorded::default(), took: None }
    }
}

impl Context {
    /// Runs a scenario with each seed until it does not pass, and records the checks that the exporter omits. A
    /// scenario whose requirements are not met is unsupported.
    pub fn run(&mut self, scenario: &Scenario, seeds: Seeds) -> Verdict {
        if let Some(reason) = scenario.unsupported(&self.setup()) {
            return Err(Stop::unsupported(reason));
        }
        for number in 0..seeds.count.get() {
            self.seed = seeds.first.wrapping_add(number);
            // Only the records of the last run are kept.
            drop(self.observations().take());
            (scenario.run)(self).map_err(|mut stop| {
                if stop.is_failure() && seeds.count.get() > 1 {
                    let number = number + 1;
                    stop.reason.push_str(&format!(" [run {number} of {}, --seed {}]", seeds.count, self.seed));
                }
                stop
            })?;
        }
        if let Some(unseen) = self.exporter().ok().and_then(Exporter::unchecked) {
            self.leave_out(unseen);
        }
        Ok(())
    }
}

/// Runs one scenario in this process. A panic is a failure.
pub fn run(
    under_test: &Arc<BackendUnderTest>,
    scenario: &Scenario,
    exporter: Option<ExporterName>,
    device: usize,
    seeds: Seeds,
) -> Ran {
    let mut end = Ran::unopened(Ok(()));
    let report = |ran| {
        end = ran;
        Ok(())
    };
    let group = run_group(under_test, &[scenario], exporter, device, seeds, report);
    end.verdict = end.verdict.and(group);
    end
}

/// Runs scenarios in this process, one after another, until one fails, and reports each. They share device and
/// exporter, because opening these takes a GPU's drivers longer than most scenarios.
pub fn run_group(
    under_test: &Arc<BackendUnderTest>,
    scenarios: &[&Scenario],
    exporter: Option<ExporterName>,
    device: usize,
    seeds: Seeds,
    report: impl FnMut(Ran) -> Verdict,
) -> Verdict {
    // The same for all scenarios of a group.
    let signals_by_host = scenarios.iter().any(|scenario| scenario.signals_by_host);
    let open = || Context::open_for(under_test.clone(), exporter, device, seeds.first, signals_by_host);
    run_opened(open, scenarios, seeds, report)
}

/// As [`run_group`], with the context that `open` returns.
fn run_opened(
    open: impl FnOnce() -> Verdict<Context>,
    scenarios: &[&Scenario],
    seeds: Seeds,
    mut report: impl FnMut(Ran) -> Verdict,
) -> Verdict {
    let mut context = match caught(open) {
        Ok(context) => Some(context),
        Err(stop) => {
            return scenarios.iter().try_for_each(|_| report(Ran::unopened(Err(stop.clone()))));
        }
    };
    let observations = context.as_ref().map(Context::observations).unwrap_or_default();
    let complaints = context.as_ref().map(Context::complaints);
    let mut heard = 0;
    for (index, scenario) in scenarios.iter().enumerate() {
        take_checked();
        let start = Instant::now();
        let verdict = context.as_mut().map_or(Ok(()), |context| caught(|| context.run(scenario, seeds)));
        let took = Some(start.elapsed());
        let mut left_behind = Ok(());
        if index + 1 == scenarios.len() {
            // Objects left over by any of them are detected now.
            left_behind = caught(|| {
                drop(context.take());
                Ok(())
            });
        }
        let complaints = complaints.as_ref().map(|complaints| complaints()).unwrap_or_default();
        let complained = no_complaints(&complaints[heard.min(complaints.len())..]);
        heard = complaints.len();
        let verdict = and_around_it(verdict, [left_behind, complained]);
        let failed = verdict.as_ref().is_err_and(Stop::is_failure);
        let work = verdict.is_ok().then(take_checked);
        report(Ran { verdict, recorded: Recorded { work, ..observations.take() }, took })?;
        if failed {
            break;
        }
    }
    Ok(())
}

/// The verdict of a scenario and of the checks around it: a failed check counts even if the scenario could not run. It
/// may concern earlier scenarios.
fn and_around_it<const N: usize>(verdict: Verdict, around: [Verdict; N]) -> Verdict {
    if verdict.as_ref().is_err_and(Stop::is_failure) {
        return verdict;
    }
    around.into_iter().find(Result::is_err).unwrap_or(verdict)
}

/// A panic is a failure.
fn caught<T>(action: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "without a message".into());
        Err(Stop::failed(format!("panicked: {message}")))
    })
}

fn no_complaints(complaints: &[String]) -> Verdict {
    match complaints {
        [] => Ok(()),
        complaints => Err(Stop::failed(format!("the exporter's own checks reported: {}", complaints.join(" | ")))),
    }
}

/// Runs `action`, drops the context, and fails if the exporter's own checks reported errors, including leaked objects.
pub fn checked(context: Context, action: impl FnOnce(&Context) -> Verdict) -> Verdict {
    let complaints = context.complaints();
    let verdict = action(&context);
    drop(context);
    and_around_it(verdict, [no_complaints(&complaints())])
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn what_goes_wrong_around_a_scenario_counts_whatever_its_own_end() {
        let (failed, complaint) = (Err(Stop::failed("wrong".into())), no_complaints(&["a leak".into()]));
        let unsupported = Err(Stop::unsupported("not here".into()));
        let skipped = Err(Stop::skipped("not installed".into()));
        for own in [Ok(()), unsupported.clone(), skipped] {
            assert_eq!(and_around_it(own.clone(), [Ok(()), complaint.clone()]), complaint, "{own:?}");
            assert_eq!(and_around_it(own.clone(), [Ok(()), Ok(())]), own);
        }
        assert_eq!(and_around_it(failed.clone(), [complaint]), failed, "its own failure takes precedence");
    }
}
