//! Ioctls of queues.

use rustix::io::Errno;

use super::memory::doorbell_offset;
use crate::abi::Result;
use crate::abi::kfd::{ById, CreateQueue, SetCuMask, UpdateQueue};
use crate::emulation::Emulation;
use crate::queue::Description;

pub(super) fn create(emulation: &'static Emulation, value: &mut CreateQueue) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    let description = Description {
        gpu: gpu.index,
        kind: value.queue_type,
        ring: value.ring_base_address,
        ring_size: u64::from(value.ring_size),
        read_pointer: value.read_pointer_address,
        write_pointer: value.write_pointer_address,
    };
    value.queue_id = emulation.queues.create(emulation, &description)?;
    value.doorbell_offset = doorbell_offset(gpu) | (u64::from(value.queue_id) * 8);
    Ok(())
}

pub(super) fn destroy(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.queues.destroy(value.id)
}

/// A share of 0 percent pauses the queue.
pub(super) fn update(emulation: &Emulation, value: &mut UpdateQueue) -> Result<()> {
    let paused = value.queue_percentage & 0xff == 0;
    emulation.queues.update(value.queue_id, value.ring_base_address, u64::from(value.ring_size), paused)
}

/// The mask of a queue's compute units is ignored: one thread executes the queue.
pub(super) fn set_cu_mask(emulation: &Emulation, value: &mut SetCuMask) -> Result<()> {
    if value.mask_bits == 0 || !value.mask_bits.is_multiple_of(32) || !emulation.queues.contains(value.queue_id) {
        return Err(Errno::INVAL);
    }
    Ok(())
}
