//! The driver's cost of a current context.
//!
//! Every call except signals and waits checks or sets the current context: one `cuCtxGetCurrent` more than a
//! program that sets it once, and a push and a pop on threads where it is not current.

use std::time::Duration;

use gpu_interop_conformance::Verdict;

use super::machine::Machine;
use super::record::{Recorder, TIME};
use super::rounds::{Effort, Variant};

const CALLS: u32 = 1000;

pub(super) fn run(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let raw = machine.raw.as_ref().map_err(Clone::clone)?;
    let each = |taken: Duration| taken.as_secs_f64() * 1e9 / f64::from(CALLS);
    let mut variants = [
        Variant::of_one("cuCtxGetCurrent", || Ok(each(raw.ask_current(CALLS)?))),
        Variant::of_one("cuCtxPushCurrent+PopCurrent", || Ok(each(raw.push_and_pop(CALLS)?))),
    ];
    recorder.measure(name, Effort::within(Duration::from_millis(500)), &[TIME], &mut variants, &[])
}
