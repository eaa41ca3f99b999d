//! Imports on several threads, while others open and close handles of their own all the time: who closes a number that he
//! does not own closes one of theirs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::threads::join;
use crate::ensure;
use crate::outcome::Verdict;

const DURATION: Duration = Duration::from_millis(1500);
/// How many handles each of the other threads has open.
const WINDOW: usize = 24;

/// A handle of a thread that has nothing to do with imports.
pub(super) trait Stranger {
    /// Fails unless it is open and refers to what it did.
    fn check(&self) -> Verdict;
}

/// What the importing threads did.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) imported: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl Counts {
    /// Fails unless enough happened to have seen something.
    pub(super) fn check(self, checked: u64, least_checked: u64) -> Verdict {
        let (imported, refused) = (self.imported.into_inner(), self.refused.into_inner());
        ensure!(
            imported > 50 && refused > 50 && checked > least_checked,
            "too little happened: {imported} imports, {refused} refusals, {checked} handles checked"
        );
        Ok(())
    }
}

/// Calls each of `imports` over and over, on a thread each, beside threads that open strangers, which are marked with a
/// number. Tells how many strangers were found as they had been left.
pub(super) fn among<S: Stranger, I: Fn() -> Verdict + Sync>(
    opens: &[&(dyn Fn(u64) -> Verdict<S> + Sync)],
    imports: &[I],
) -> Verdict<u64> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let strangers: Vec<_> = opens.iter().map(|open| spawn(scope, &stop, *open)).collect();
        let stop = &stop;
        let repeat = move |import: &I| -> Verdict {
            let start = Instant::now();
            while start.elapsed() < DURATION && !stop.load(Ordering::Relaxed) {
                import()?;
            }
            Ok(())
        };
        let importers: Vec<_> = imports.iter().map(|import| scope.spawn(move || repeat(import))).collect();
        let imports: Vec<Verdict> = importers.into_iter().map(join).collect();
        stop.store(true, Ordering::Relaxed);
        // What the strangers saw is the reason, whatever the importers then ran into.
        let checked = strangers.into_iter().map(join).sum::<Verdict<u64>>();
        checked.and_then(|checked| imports.into_iter().collect::<Verdict>().map(|()| checked))
    })
}

/// Another thread of the application. Gives the number of handles that it found as it had left them; stops everything at
/// the first that is not.
fn spawn<'scope, 'env, S: Stranger>(
    scope: &'scope Scope<'scope, 'env>,
    stop: &'env AtomicBool,
    open_one: &'env (dyn Fn(u64) -> Verdict<S> + Sync),
) -> ScopedJoinHandle<'scope, Verdict<u64>> {
    scope.spawn(move || {
        let mut open: VecDeque<S> = VecDeque::new();
        let mut run = || -> Verdict<u64> {
            let mut checked = 0;
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
                    checked += 1;
                }
            }
            open.iter().try_for_each(S::check)?;
            Ok(checked)
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
