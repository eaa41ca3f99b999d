//! Streams, events, the order of their work, and the kernels that streams run.

use std::ffi::{CStr, c_char, c_uint, c_void};

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::kernel::{MODULES, Module};
use gpu_interop_sim_device::stream::{EVENTS, Event};
use gpu_interop_sim_device::work::HostFunction;
use gpu_interop_sim_device::work::{Condition, Word};
use gpu_interop_sim_device::{entries, kernels_of_ptx, work};

use crate::{code, driver, give, graph};

/// The only simulated operation of batches.
const BARRIER: u32 = cuda::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_BARRIER as u32;

/// The stream of [`driver::FOREIGN`].
const FOREIGN_STREAM: usize = driver::FOREIGN + 1;

/// `CUstreamWaitValue_flags`.
fn condition(flags: u32) -> Option<Condition> {
    Condition::of(Condition::Reached, flags)
}

entries! {
    // In the other context, whose stream does no work.
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) gives stream {
        code::reject_if(stream.is_null())?;
        if driver::is_foreign()? {
            return give(stream, FOREIGN_STREAM);
        }
        driver::need_context()?;
        give(stream, work::create_stream(flags)?)
    }

    fn cuStreamDestroy_v2(stream: usize) {
        if stream == FOREIGN_STREAM {
            return Ok(());
        }
        driver::need_context()?;
        graph::forget_capture(stream);
        work::destroy_stream(stream)
    }
}

entries! {
    after driver::need_context;

    fn cuStreamGetCtx(stream: usize, context: *mut usize) gives context {
        if stream == FOREIGN_STREAM {
            return give(context, driver::FOREIGN);
        }
        work::stream_of(stream)?;
        give(context, driver::PRIMARY)
    }

    fn cuStreamSynchronize(stream: usize) {
        graph::check_permitted()?;
        work::stream_of(stream)?.synchronize()
    }

    fn cuStreamQuery(stream: usize) {
        graph::check_permitted()?;
        work::query_stream(stream)
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        work::wait_event(stream, event, flags)
    }

    fn cuEventCreate(event: *mut usize, flags: c_uint) gives event {
        code::reject_if(flags > 7 || event.is_null())?;
        give(event, EVENTS.insert(Event::default()))
    }

    fn cuEventDestroy_v2(event: usize) {
        work::destroy_event(event)
    }

    fn cuEventRecord(event: usize, stream: usize) {
        work::stream_of(stream)?.record(&*work::event_of(event)?)
    }

    fn cuEventQuery(event: usize) {
        graph::check_permitted()?;
        work::query_event(event)
    }

    fn cuEventSynchronize(event: usize) {
        graph::check_permitted()?;
        if let Some(record) = work::event_of(event)?.last() {
            record.wait();
        }
        Ok(())
    }

    fn cuStreamWaitValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        work::wait_value(stream, pointer, Word::Narrow(value), u64::MAX, condition(flags))
    }

    fn cuStreamWaitValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        work::wait_value(stream, pointer, Word::Wide(value), u64::MAX, condition(flags))
    }

    fn cuStreamWriteValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is the only flag.
        code::reject_if(flags > 1)?;
        work::write_value(stream, pointer, Word::Narrow(value))
    }

    fn cuStreamWriteValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        code::reject_if(flags > 1)?;
        work::write_value(stream, pointer, Word::Wide(value))
    }

    fn cuStreamBatchMemOp_v2(
        stream: usize, count: c_uint, operations: *mut cuda::CUstreamBatchMemOpParams, flags: c_uint,
    ) {
        code::reject_if(operations.is_null() || flags != 0)?;
        // The union begins with the operation's number, which may have any value.
        let of = |index| operations.wrapping_add(index).cast::<u32>().read();
        code::reject_if((0..count as usize).any(|index| of(index) != BARRIER))?;
        // Later work does not overtake earlier work.
        work::stream_of(stream)?.enqueue(|| Ok(()));
        Ok(())
    }

    fn cuLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        work::host_function(stream, function, data)
    }
}

entries! {
    after driver::need_context;

    fn cuModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        code::reject_if(module.is_null() || image.is_null())?;
        driver::drain();
        // A compiled image would end at its first NUL.
        let text = CStr::from_ptr(image.cast::<c_char>()).to_bytes();
        if text.starts_with(b"\x7fELF") {
            return Err(code::INVALID_IMAGE);
        }
        if !text.windows(8).any(|part| part == b".version") {
            return Err(code::INVALID_PTX);
        }
        give(module, MODULES.insert(Module::new(kernels_of_ptx(&String::from_utf8_lossy(text)))))
    }

    fn cuModuleUnload(module: usize) {
        graph::check_permitted()?;
        driver::drain();
        MODULES.remove(module).map(drop).ok_or(code::INVALID_HANDLE)
    }

    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) gives function {
        give(function, work::module_kernel(module, name)?)
    }

    fn cuLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, _shared_bytes: c_uint, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        work::launch(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream, [arguments, extra])
    }
}
