//! Exceptions of the GPU, as the kernel reports them.
//!
//! A page fault is an event of the kind "memory" with the address. For work that the queue cannot execute, an error
//! code is written to the queue's own signal, for which the runtime has a handler. A reset is an event of the kind
//! "hardware exception", and ends the queues of the GPU.

use crate::abi::kfd::{EVENT_HW_EXCEPTION, EVENT_MEMORY};
use crate::emulation::Emulation;
use crate::log;
use crate::memory::PageFault;
use crate::queue::{Queue, Stop, signal};

/// The error code of `amd_queue_t`'s signal that the runtime translates to "invalid code object".
const INVALID_CODE_OBJECT: i64 = 16;

/// Reports the reason why a queue stopped.
pub(crate) fn report(emulation: &Emulation, queue: &Queue, stop: &Stop) {
    let id = queue.id;
    let gpu = emulation.gpus.get(queue.gpu).map_or(0, crate::gpu::Gpu::id);
    match stop {
        Stop::Destroyed => {}
        Stop::Hang => log::failure(format_args!("queue {id} hangs")),
        Stop::PageFault(PageFault { address, read_only, .. }) => {
            let why = if *read_only { "read-only" } else { "not mapped" };
            log::failure(format_args!("queue {id}: GPU page fault at {address:#x}, {why}"));
            emulation.counters.add("page_faults", why);
            emulation.events.raise(EVENT_MEMORY, memory_exception(*address, gpu, *read_only));
        }
        Stop::Invalid(why) => {
            log::failure(format_args!("queue {id}: {why}"));
            emulation.counters.add("queue_errors", why);
            match queue.error_signal(emulation) {
                Some(signal) => _ = signal::store(emulation, queue.gpu, signal, INVALID_CODE_OBJECT),
                None => emulation.events.raise(EVENT_HW_EXCEPTION, hardware_exception(gpu)),
            }
        }
        Stop::Reset => {
            log::failure(format_args!("queue {id}: GPU {} is reset", queue.gpu));
            emulation.counters.add("resets", "reset");
            for other in emulation.queues.of_gpu(queue.gpu) {
                other.kill();
            }
            emulation.events.raise(EVENT_HW_EXCEPTION, hardware_exception(gpu));
        }
    }
}

/// `kfd_hsa_memory_exception_data`.
fn memory_exception(address: u64, gpu: u32, read_only: bool) -> [u64; 4] {
    let (not_present, read_only) = (u64::from(!read_only), u64::from(read_only));
    [not_present | read_only << 32, 0, address & !0xfff, u64::from(gpu)]
}

/// `kfd_hsa_hw_exception_data`: the whole GPU was reset after a hang, and its memory is lost.
fn hardware_exception(gpu: u32) -> [u64; 4] {
    [0, 1 | u64::from(gpu) << 32, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_laid_out_as_in_the_kernels_header() {
        assert_eq!(memory_exception(0x1234_5678, 0x4321, false), [1, 0, 0x1234_5000, 0x4321]);
        assert_eq!(memory_exception(0x1000, 7, true), [1 << 32, 0, 0x1000, 7]);
        assert_eq!(hardware_exception(0x4321), [0, 0x4321_0000_0001, 0, 0]);
    }
}
