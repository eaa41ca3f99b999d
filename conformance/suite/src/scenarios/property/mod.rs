//! Property tests: random requests from the run's seed. The data is right or the error is typed, and nothing leaks.
//!
//! Failures are shrunk for some seconds and reported with the seed. The same seed makes the same requests.

#[cfg(unix)]
pub(super) mod import;
pub(super) mod memory;
pub(super) mod objects;

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::context::Context;
use crate::leak_check::keeps_descriptors;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};

/// The number of shrinking steps.
const SHRINKS: u32 = 4000;
/// The time limit of shrinking: some requests fail slowly, and the scenario must report within its own limit.
const SHRINKING: Duration = Duration::from_secs(10);

/// Checks `property` for this many requests; unsupported ones do not count. `id` is the scenario's.
fn check<S>(
    context: &Context,
    id: &str,
    requests: u32,
    strategy: &S,
    property: impl Fn(&S::Value) -> Verdict,
) -> Verdict
where
    S: Strategy<Value: Debug>,
{
    let seed = context.pattern().seed();
    let (passed, failed) = (Cell::new(0_u32), Cell::new(None::<Instant>));
    let (lacking, error) = (RefCell::new(None), RefCell::new(None));
    let ended = runner(requests, seed).run(strategy, |request| {
        // The shrinking time is over.
        if failed.get().is_some_and(|failed| failed.elapsed() > SHRINKING) {
            return Ok(());
        }
        match property(&request) {
            Ok(()) => {
                passed.set(passed.get() + u32::from(failed.get().is_none()));
                Ok(())
            }
            Err(stop) if stop.is_failure() => {
                failed.set(failed.get().or_else(|| Some(Instant::now())));
                error.replace(stop.error);
                Err(TestCaseError::fail(stop.reason))
            }
            Err(other) => {
                let reason = other.reason().to_owned();
                lacking.borrow_mut().get_or_insert(other);
                Err(TestCaseError::reject(reason))
            }
        }
    });
    match ended {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, smallest)) => {
            let number = passed.get() + 1;
            let reason = format!(
                "{reason}; with {smallest:?}, the smallest like request {number} that fails; to see it again: --seed \
                 {seed} --filter {id}"
            );
            Err(Stop { error: error.take(), ..Stop::failed(reason) })
        }
        Err(TestError::Abort(reason)) => match (lacking.into_inner(), passed.get()) {
            (Some(stop), 0) => Err(stop),
            (Some(stop), passed) => {
                context.leave_out(format!("all but {passed} of {requests} requests: {}", stop.reason()));
                Ok(())
            }
            (None, _) => Err(Stop::failed(format!("no requests could be made: {reason}"))),
        },
    }
}

/// A runner that depends on the seed only, not on the environment or on files.
fn runner(requests: u32, seed: u32) -> TestRunner {
    let config = Config {
        cases: requests,
        max_local_rejects: 1000,
        max_global_rejects: requests,
        max_flat_map_regens: 1000,
        failure_persistence: None,
        source_file: None,
        test_name: None,
        max_shrink_time: 0,
        max_shrink_iters: SHRINKS,
        verbose: 0,
        ..Config::default()
    };
    let bytes: Vec<u8> = seed.to_le_bytes().repeat(8);
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Fails unless as many descriptors are open after `action` as before, once asynchronous releases have ended.
fn with_all_descriptors_back(action: impl FnMut() -> Verdict) -> Verdict {
    keeps_descriptors(WAIT_TIMEOUT, "open descriptors afterwards", action)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;

    use super::*;

    fn requests(seed: u32) -> Vec<u64> {
        let made = RefCell::new(Vec::new());
        runner(20, seed)
            .run(&any::<u64>(), |request| {
                made.borrow_mut().push(request);
                Ok(())
            })
            .expect("nothing fails");
        made.into_inner()
    }

    #[test]
    fn a_seed_makes_the_same_requests_each_time_and_another_makes_others() {
        assert_eq!(requests(7).len(), 20);
        assert_eq!(requests(7), requests(7));
        assert_ne!(requests(7), requests(8));
    }
}
