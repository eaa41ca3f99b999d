//! What becomes of the attributes of synchronisation objects: the rules that `nvscisync.h` states beside each key.

use crate::attributes::{Stored, Values};

// `NvSciSyncAttrKey`, in the header's order.
pub(crate) const NEED_CPU_ACCESS: i32 = 1;
pub(crate) const REQUIRED_PERM: i32 = 2;
const ACTUAL_PERM: i32 = 3;
const REQUIRE_DETERMINISTIC_FENCES: i32 = 6;
const MAX_PRIMITIVE_VALUE: i32 = 9;
const LAST: i32 = 13;
/// Not public: what the CPU may do.
pub(crate) const CPU_PERM: i32 = 1000;
/// Not public: a GPU's driver has filled the list.
pub(crate) const GPU: i32 = 1001;

const WAIT: u64 = 1;
const SIGNAL: u64 = 2;

/// Whether a key may be set so.
pub(crate) fn may_set(key: i32, bytes: &[u8], _set: &Values) -> bool {
    match key {
        NEED_CPU_ACCESS | 4..=REQUIRE_DETERMINISTIC_FENCES => bytes.len() == 1 && bytes[0] <= 1,
        REQUIRED_PERM => {
            bytes.len() == 8 && Stored::new(bytes).u64s().iter().all(|perm| (WAIT..=(WAIT | SIGNAL)).contains(perm))
        }
        _ => false,
    }
}

/// Whether a key may be asked for.
pub(crate) fn may_get(key: i32, _reconciled: bool) -> bool {
    (NEED_CPU_ACCESS..=LAST).contains(&key)
}

/// What satisfies all of these; else the keys in conflict.
pub(crate) fn reconcile(lists: &[Values]) -> Result<Values, Values> {
    let perm = |list: &Values| list.get(&REQUIRED_PERM).and_then(|perm| perm.u64s().first().copied()).unwrap_or(0);
    let with = |bit: u64| lists.iter().filter(|list| perm(list) & bit != 0).count();
    // "No list with SignalOnly, more than one, no list with WaitOnly".
    if with(SIGNAL) != 1 || with(WAIT) == 0 {
        let all = lists.iter().map(perm).fold(0, |all, perm| all | perm);
        return Err(Values::from([(REQUIRED_PERM, Stored::new(&all.to_ne_bytes()))]));
    }
    let any_true = |key: i32| lists.iter().filter_map(|list| list.get(&key)).any(Stored::bool);
    let cpu = lists.iter().filter(|list| list.get(&NEED_CPU_ACCESS).is_some_and(Stored::bool));
    let cpu_perm = cpu.map(perm).fold(0, |all, perm| all | perm);
    Ok(Values::from([
        (NEED_CPU_ACCESS, Stored::new(&[any_true(NEED_CPU_ACCESS).into()])),
        (ACTUAL_PERM, Stored::new(&(WAIT | SIGNAL).to_ne_bytes())),
        (REQUIRE_DETERMINISTIC_FENCES, Stored::new(&[any_true(REQUIRE_DETERMINISTIC_FENCES).into()])),
        (MAX_PRIMITIVE_VALUE, Stored::new(&u64::MAX.to_ne_bytes())),
        (CPU_PERM, Stored::new(&cpu_perm.to_ne_bytes())),
    ]))
}
