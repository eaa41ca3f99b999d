//! Imports on several threads, while others open and close handles of their own all the time: who closes a number that he
//! does not own closes one of theirs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::ensure;
use crate::gate::join;
use crate::outcome::Verdict;

const DURATION: Duration = Duration::from_millis(1500);
/// How long at most until enough has happened, on a machine that is busy with other things.
const AT_MOST: Duration = Duration::from_secs(15);
/// How many handles each of the other threads has open.
const WINDOW: usize = 24;

/// A handle of a thread that has nothing to do with imports.
pub(super) trait Stranger {
    /// Fails unless it is open and refers to what it did.
    fn check(&self) -> Verdict;
}

/// What the threads did.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) imported: AtomicU64,
    pub(super) refused: AtomicU64,
    /// The strangers that were found as they had been left.
    checked: AtomicU64,
}

impl Counts {
    /// Whether enough happened to have seen something.
    fn suffice(&self, least_checked: u64) -> bool {
        let [imported, refused, checked] =
            [&self.imported, &self.refused, &self.checked].map(|count| count.load(Ordering::Relaxed));
        imported > 50 && refused > 50 && checked > least_checked
    }
}

/// Calls each of `imports` over and over, on a thread each, beside threads that open strangers, which are marked with a
/// number: until more than `least_checked` of these were found as they had been left, and fails if that takes too long.
pub(super) fn among<S: Stranger, I: Fn() -> Verdict + Sync>(
    opens: &[&(dyn Fn(u64) -> Verdict<S> + Sync)],
    imports: &[I],
    counts: &Counts,
    least_checked: u64,
) -> Verdict {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let strangers: Vec<_> = opens.iter().map(|open| spawn(scope, &stop, &counts.checked, *open)).collect();
        let stop = &stop;
        let repeat = move |import: &I| -> Verdict {
            let start = Instant::now();
            let over = |took| took >= AT_MOST || (took >= DURATION && counts.suffice(least_checked));
            while !over(start.elapsed()) && !stop.load(Ordering::Relaxed) {
                import()?;
            }
            Ok(())
        };
        let importers: Vec<_> = imports.iter().map(|import| scope.spawn(move || repeat(import))).collect();
        let imports: Vec<Verdict> = importers.into_iter().map(join).collect();
        stop.store(true, Ordering::Relaxed);
        // What the strangers saw is the reason, whatever the importers then ran into.
        strangers.into_iter().try_for_each(join)?;
        imports.into_iter().collect::<Verdict>()
    })?;
    ensure!(counts.suffice(least_checked), "too little happened: {counts:?}");
    Ok(())
}

/// Another thread of the application. Counts the handles that it finds as it left them; stops everything at the first
/// that is not.
fn spawn<'scope, 'env, S: Stranger>(
    scope: &'scope Scope<'scope, 'env>,
    stop: &'env AtomicBool,
    checked: &'env AtomicU64,
    open_one: &'env (dyn Fn(u64) -> Verdict<S> + Sync),
) -> ScopedJoinHandle<'scope, Verdict> {
    scope.spawn(move || {
        let mut open: VecDeque<S> = VecDeque::new();
        let mut run = || -> Verdict {
            for mark in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                open.push_back(open_one(mark)?);
                if open.len() > WINDOW {
                    if let Some(stranger) = open.front() {
                        stranger.check()?;
                    }
                    open.pop_front();
                    checked.fetch_add(1, Ordering::Relaxed);
                }
            }
            open.iter().try_for_each(S::check)
        };
        let ran = run();
        if ran.is_err() {
            stop.store(true, Ordering::Relaxed);
            // One of them is not its owner's any more: closing it would be the next fault.
            std::mem::forget(open);
        }
        ran
    })
}
