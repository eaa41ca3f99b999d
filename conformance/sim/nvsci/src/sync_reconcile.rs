//! Reconciliation of the attributes of synchronisation objects, by the rules that `nvscisync.h` states for each key.

use crate::attributes::{Stored, Values};
use crate::behaviour::Behaviour;
use crate::error;

// Values of `NvSciSyncAttrKey`, in the order of the header.
pub(crate) const NEED_CPU_ACCESS: i32 = 1;
pub(crate) const REQUIRED_PERM: i32 = 2;
const ACTUAL_PERM: i32 = 3;
const REQUIRE_DETERMINISTIC_FENCES: i32 = 6;
const MAX_PRIMITIVE_VALUE: i32 = 9;
/// Private key: the CPU's permissions.
pub(crate) const CPU_PERM: i32 = 1000;
/// Private key: the id of the GPU whose driver has filled the list.
pub(crate) const GPU: i32 = 1001;
/// Private key: each GPU's permissions, as its id and 8 bytes.
pub(crate) const GPU_PERMS: i32 = 1002;

const GPU_BYTES: usize = 16;

pub(crate) const WAIT: u64 = 1;
pub(crate) const SIGNAL: u64 = 2;

/// Whether a key may be set to these bytes.
pub(crate) fn may_set(behaviour: &Behaviour, key: i32, bytes: &[u8]) -> bool {
    match key {
        _ if key > behaviour.last_sync_key() => false,
        NEED_CPU_ACCESS | 4..=REQUIRE_DETERMINISTIC_FENCES => bytes.len() == 1 && bytes[0] <= 1,
        REQUIRED_PERM => {
            bytes.len() == 8 && Stored::new(bytes).u64s().iter().all(|perm| (WAIT..=(WAIT | SIGNAL)).contains(perm))
        }
        _ => false,
    }
}

/// Whether a key may be queried.
pub(crate) fn may_get(behaviour: &Behaviour, key: i32) -> bool {
    (NEED_CPU_ACCESS..=behaviour.last_sync_key()).contains(&key)
}

/// A GPU's permissions in the value of [`GPU_PERMS`].
pub(crate) fn gpu_perm(perms: &[u8], gpu: &[u8]) -> u64 {
    let of_gpu = perms.chunks_exact(GPU_BYTES + 8).filter(|entry| &entry[..GPU_BYTES] == gpu);
    of_gpu
        .filter_map(|entry| entry[GPU_BYTES..].try_into().ok())
        .map(u64::from_ne_bytes)
        .fold(0, |all, perm| all | perm)
}

/// Returns the attributes that satisfy all lists, or the status code.
pub(crate) fn reconcile(behaviour: &Behaviour, lists: &[Values]) -> Result<Values, u32> {
    let perm = |list: &Values| list.get(&REQUIRED_PERM).and_then(|perm| perm.u64s().first().copied()).unwrap_or(0);
    let with = |bit: u64| lists.iter().filter(|list| perm(list) & bit != 0).count();
    // "No list with SignalOnly, more than one, no list with WaitOnly".
    if with(SIGNAL) != 1 || with(WAIT) == 0 {
        return Err(error::RECONCILIATION_FAILED);
    }
    // As if signaller and waiters had no common type of primitive.
    if behaviour.has("no_common_primitive") {
        return Err(error::UNSUPPORTED_CONFIG);
    }
    let any_true = |key: i32| lists.iter().filter_map(|list| list.get(&key)).any(Stored::bool);
    let cpu = lists.iter().filter(|list| list.get(&NEED_CPU_ACCESS).is_some_and(Stored::bool));
    let cpu_perm = cpu.map(perm).fold(0, |all, perm| all | perm);
    let gpus = lists.iter().filter_map(|list| Some((list.get(&GPU)?.bytes(), perm(list))));
    let gpu_perms: Vec<u8> = gpus.flat_map(|(id, perm)| id.iter().copied().chain(perm.to_ne_bytes())).collect();
    let mut out = Values::from([
        (NEED_CPU_ACCESS, Stored::new(&[any_true(NEED_CPU_ACCESS).into()])),
        (ACTUAL_PERM, Stored::new(&(WAIT | SIGNAL).to_ne_bytes())),
        (REQUIRE_DETERMINISTIC_FENCES, Stored::new(&[any_true(REQUIRE_DETERMINISTIC_FENCES).into()])),
        (MAX_PRIMITIVE_VALUE, Stored::new(&behaviour.greatest_value().to_ne_bytes())),
        (CPU_PERM, Stored::new(&cpu_perm.to_ne_bytes())),
        (GPU_PERMS, Stored::new(&gpu_perms)),
    ]);
    out.retain(|key, _| *key <= behaviour.last_sync_key() || *key >= CPU_PERM);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(perm: u64, gpu: Option<u8>) -> Values {
        let perm = (REQUIRED_PERM, Stored::new(&perm.to_ne_bytes()));
        Values::from_iter([perm].into_iter().chain(gpu.map(|byte| (GPU, Stored::new(&[byte; 16])))))
    }

    #[test]
    fn a_gpu_may_do_what_its_own_lists_say() {
        let lists = [list(SIGNAL, Some(1)), list(WAIT, Some(2)), list(WAIT, Some(1)), list(WAIT, None)];
        let out = reconcile(&Behaviour::default(), &lists).expect("one signals");
        let perms = out[&GPU_PERMS].bytes();
        let of = |byte: u8| gpu_perm(perms, &[byte; 16]);
        assert_eq!((of(1), of(2), of(3)), (SIGNAL | WAIT, WAIT, 0));
    }

    #[test]
    fn primitives_have_32_bits_unless_asked_for_more() {
        for (words, greatest) in [("", Some(0xffff_ffff)), ("wide", Some(u64::MAX)), ("sync_2.0", None)] {
            let behaviour = Behaviour::of(words);
            let out = reconcile(&behaviour, &[list(SIGNAL | WAIT, None)]).expect("one signals");
            assert_eq!(out.get(&MAX_PRIMITIVE_VALUE).map(|value| value.u64s()[0]), greatest, "{words}");
            assert_eq!(may_get(&behaviour, MAX_PRIMITIVE_VALUE), greatest.is_some(), "{words}");
            let settable = may_set(&behaviour, REQUIRE_DETERMINISTIC_FENCES, &[1]);
            assert_eq!(settable, greatest.is_some(), "{words}");
        }
    }

    #[test]
    fn failures_have_their_codes() {
        let code = |words: &str, lists: &[Values]| reconcile(&Behaviour::of(words), lists).err();
        assert_eq!(code("", &[list(SIGNAL, None)]), Some(error::RECONCILIATION_FAILED));
        assert_eq!(code("", &[list(SIGNAL, None), list(SIGNAL | WAIT, None)]), Some(error::RECONCILIATION_FAILED));
        assert_eq!(code("no_common_primitive", &[list(SIGNAL | WAIT, None)]), Some(error::UNSUPPORTED_CONFIG));
    }
}
