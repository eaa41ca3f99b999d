//! Ioctls of events.

use std::time::Duration;

use rustix::io::Errno;

use crate::abi::kfd::{
    ById, CreateEvent, EVENT_LIMIT, EventData, MMAP_TYPE_EVENTS, MMAP_TYPE_SHIFT, WAIT_RESULT_FAIL, WaitEvents,
};
use crate::abi::{Result, read_user, write_user};
use crate::emulation::Emulation;
use crate::log::say;

pub(super) fn create(emulation: &Emulation, value: &mut CreateEvent) -> Result<()> {
    let id = emulation.events.create(value.event_type, value.auto_reset != 0)?;
    (value.event_id, value.slot_index, value.trigger_data) = (id, id, id);
    // Not 0, which the runtime interprets as "no mailbox". It is the offset of the page of slots, which ROCR allocates
    // itself.
    value.event_page_offset = MMAP_TYPE_EVENTS << MMAP_TYPE_SHIFT;
    say!(2, "event {id} of kind {}", value.event_type);
    Ok(())
}

pub(super) fn destroy(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.events.destroy(value.id)
}

pub(super) fn set(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.events.set(value.id)
}

pub(super) fn reset(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.events.reset(value.id)
}

pub(super) fn wait(emulation: &Emulation, value: &mut WaitEvents) -> Result<()> {
    if value.count > EVENT_LIMIT {
        return Err(Errno::INVAL);
    }
    let addresses = || (value.events..).step_by(size_of::<EventData>()).take(value.count as usize);
    // SAFETY: the caller of the ioctl passes an array of `count` events.
    let mut data = addresses().map(|at| unsafe { read_user(at) }).collect::<Result<Vec<EventData>>>()?;
    let timeout = (value.timeout != u32::MAX).then(|| Duration::from_millis(u64::from(value.timeout)));
    value.wait_result = WAIT_RESULT_FAIL;
    value.wait_result = emulation.events.wait(&mut data, value.wait_for_all != 0, timeout)?;
    for (at, data) in addresses().zip(data) {
        // SAFETY: as above.
        unsafe { write_user(at, data)? };
    }
    Ok(())
}
