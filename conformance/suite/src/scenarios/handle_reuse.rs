//! Handle reuse: several threads import while other threads open and close handles. A stray close hits a recycled
//! handle.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::ensure;
use crate::outcome::{Verdict, join};

const DURATION: Duration = Duration::from_millis(500);
/// The time limit for enough checks on a busy machine.
const AT_MOST: Duration = Duration::from_secs(15);
/// The number of open handles of each bystander thread.
const WINDOW: usize = 24;

/// A handle of a thread without imports.
pub(super) trait Stranger {
    /// Fails unless the handle is open and refers to the same object.
    fn check(&self) -> Verdict;
}

/// The work of all threads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) imported: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Intact bystanders.
    checked: AtomicU64,
}

impl Counts {
    /// True after enough checks for a verdict.
    fn suffice(&self, least_checked: u64) -> bool {
        let [imported, refused, checked] =
            [&self.imported, &self.refused, &self.checked].map(|count| count.load(Ordering::Relaxed));
        imported > 50 && refused > 50 && checked > least_checked
    }
}

/// Repeats each of `imports` on its own thread. Other threads open bystanders, which are marked with a number. Ends
/// when more than `least_checked` bystanders were found intact. Fails if this takes too long.
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
        // A damaged bystander explains later import errors.
        strangers.into_iter().try_for_each(join)?;
        imports.into_iter().collect::<Verdict>()
    })?;
    ensure!(counts.suffice(least_checked), "too little happened: {counts:?}");
    Ok(())
}

/// Another thread of the application. Counts intact handles; stops everything at the first damaged one.
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
            // The number belongs to another owner now, so it must not be closed here.
            std::mem::forget(open);
        }
        ran
    })
}
