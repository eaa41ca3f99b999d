//! Memory of the application as an operand of streams.

use std::sync::Arc;

use super::recorder::Call;
use super::{assert_invalid, mapped, open};
use crate::backend::DevicePtr;

#[test]
fn the_owner_lives_until_the_work_has_completed() {
    let (recorder, device) = open();
    let (stream, owner) = (device.create_stream().expect("stream"), Arc::new(()));
    recorder.hold(stream.as_raw());
    let (mapped, lent) = (mapped(&device), mapped(&device));
    // SAFETY: the recorder accesses no memory.
    let borrow = || unsafe { device.borrow_memory(lent.as_raw(), 64, owner.clone()) }.expect("a range");
    let (borrowed, again) = (borrow(), borrow());
    assert_eq!((borrowed.as_raw(), borrowed.size()), (lent.as_raw(), 64));
    stream.copy(mapped.slice(..16).expect("a range"), borrowed.slice(48..).expect("a range")).expect("copy");
    let copy = Call::Copy { stream: stream.as_raw(), dst: mapped.as_raw(), src: lent.as_raw().offset(48), size: 16 };
    assert_eq!(recorder.calls().last(), Some(&copy));
    drop((borrowed, again));
    assert_eq!(Arc::strong_count(&owner), 2, "one unused, one in use by the copy");
    recorder.finish(stream.as_raw());
    device.collect();
    assert_eq!(Arc::strong_count(&owner), 1);
    assert!(!recorder.calls().iter().any(|call| matches!(call, Call::FreeBuffer(_))), "the owner frees the memory");
}

#[test]
fn ranges_that_are_no_memory_are_rejected() {
    let (recorder, device) = open();
    let owner = Arc::new(());
    for (ptr, size) in [(DevicePtr::new(0), 64), (DevicePtr::new(64), 0), (DevicePtr::new(64), u64::MAX)] {
        // SAFETY: as above.
        let borrow = || unsafe { device.borrow_memory(ptr, size, owner.clone()) };
        assert_invalid(&recorder, "Device::borrow_memory", &["address space", &format!("size: {size}")], borrow);
    }
    assert_eq!(Arc::strong_count(&owner), 1);
}
