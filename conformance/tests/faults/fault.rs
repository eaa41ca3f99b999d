//! Faults, and the plan of faults for a function.

use std::fmt;
use std::ops::Range;

use crate::codes;
use crate::driver::{Driver, Vendor};

/// The calls of a function that a fault affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uses {
    /// This call, counted from 1.
    Nth(u64),
    /// This and every later call.
    From(u64),
    /// Every call.
    Every,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A status code.
    Code(u32),
    /// Success and a null result.
    Null,
}

/// A fault, displayed as a rule of `GPU_INTEROP_SIM_FAIL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `*` stands for every function: the device is lost.
    pub(crate) function: String,
    pub(crate) uses: Uses,
    pub(crate) answer: Answer,
}

/// Stands for every function.
pub(crate) const EVERY_FUNCTION: &str = "*";

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.function)?;
        match self.uses {
            Uses::Nth(nth) => write!(f, "{nth}:"),
            Uses::From(nth) => write!(f, "{nth}+:"),
            Uses::Every => write!(f, "*:"),
        }?;
        match self.answer {
            Answer::Code(code) => write!(f, "{code}"),
            Answer::Null => write!(f, "null"),
        }
    }
}

impl Fault {
    /// `true` if the function was called often enough for the fault to occur.
    pub(crate) fn is_met_by(&self, calls: u64) -> bool {
        match self.uses {
            Uses::Nth(nth) | Uses::From(nth) => calls >= nth,
            Uses::Every => calls > 0,
        }
    }
}

/// One of this many codes beside those of [`codes::FEW`], for the first call of a function.
const PART: usize = 4;
/// Number of calls between the first and the last that get a fault.
const USES: usize = 10;
/// With a null result.
const NULL_USES: usize = 4;
/// Calls at which the device is lost.
const LOSSES: usize = 80;
const FEW_LOSSES: usize = 20;

/// The faults of a function that an exercise without faults calls `calls` times, and that `gives` a result or not. With
/// `every_use` no call is omitted.
pub(crate) fn plan(driver: &Driver, function: &str, calls: u64, gives: bool, every_use: bool) -> Vec<Fault> {
    let fault = |uses, answer| Fault { function: function.to_owned(), uses, answer };
    let some = |uses: Range<u64>, most: usize| thin(uses, if every_use { usize::MAX } else { most });
    if function == EVERY_FUNCTION {
        let most = if driver.whole { LOSSES } else { FEW_LOSSES };
        // Earlier leaks affect the reuse of streams, so the number of calls varies at the end.
        let end = calls - calls / 50;
        return some(1..end + 1, most).map(|nth| fault(Uses::From(nth), Answer::Code(codes::LOST))).collect();
    }
    let tried = |codes: &'static [u32]| {
        let is_failure = |code: &&u32| !(codes::is_query(function) && **code == codes::NOT_READY);
        codes.iter().filter(is_failure).copied()
    };
    let all = match (driver.whole, driver.vendor) {
        (false, _) => codes::FEW,
        (true, Vendor::Cuda) => codes::CUDA,
        (true, Vendor::Hip) => codes::HIP,
    };
    // One table has the kinds of all codes: a function gets a part of them, and another function another part.
    let of_first = |(place, code): &(usize, u32)| {
        every_use || codes::FEW.contains(code) || (place + function.len()).is_multiple_of(PART)
    };
    let first = tried(all).enumerate().filter(of_first);
    let mut faults: Vec<_> = first.map(|(_, code)| fault(Uses::Nth(1), Answer::Code(code))).collect();
    if calls > 1 {
        let codes = if every_use { all } else { codes::FEW };
        faults.extend(tried(codes).map(|code| fault(Uses::Nth(calls), Answer::Code(code))));
    }
    // Each call in between gets one code.
    let between = some(2..calls, if driver.whole { USES } else { NULL_USES });
    faults.extend(between.zip(tried(all).cycle()).map(|(nth, code)| fault(Uses::Nth(nth), Answer::Code(code))));
    faults.extend(tried(codes::FEWEST).map(|code| fault(Uses::Every, Answer::Code(code))));
    if gives || codes::gives_descriptor(function) {
        faults.push(fault(Uses::Every, Answer::Null));
        let mut uses: Vec<_> = [1, calls].into_iter().chain(some(2..calls, NULL_USES)).collect();
        uses.dedup();
        faults.extend(uses.into_iter().map(|nth| fault(Uses::Nth(nth), Answer::Null)));
    }
    faults
}

/// At most this many elements of a range, evenly spaced.
fn thin(uses: Range<u64>, most: usize) -> impl Iterator<Item = u64> {
    let count = usize::try_from(uses.end.saturating_sub(uses.start)).unwrap_or(usize::MAX);
    uses.step_by(count.div_ceil(most).max(1))
}
