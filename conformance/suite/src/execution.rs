//! Runs scenarios in this process.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::backend_under_test::BackendUnderTest;
use crate::context::{Context, Recorded};
use crate::exporter::{Exporter, ExporterName};
use crate::outcome::{Stop, Verdict};
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
        report(Ran { verdict, recorded: observations.take(), took })?;
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
mod groups;

#[cfg(test)]
mod tests {
    use super::*;

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
