//! Contexts: the primary context, and the threads on which it is current.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};
use std::sync::LazyLock;

use gpu_interop_sim_device::{device, entries, settings, stream};

use crate::driver::{check as check_device, initialised};
use crate::{code, give};

/// The primary context's handle.
const PRIMARY: usize = 0x51_0000_0100;

/// The handle of a foreign context, which supports no operation.
const FOREIGN: usize = 0x51_0000_0200;

/// The setting for what is current on each thread at first.
const SETTING: &str = "GPU_INTEROP_SIM_CONTEXT";

thread_local! {
    /// The contexts of this thread; the last is current. [`SETTING`] sets the initial one.
    static STACK: RefCell<Vec<usize>> = RefCell::new(match settings::text(SETTING).as_deref() {
        Some("foreign" | "needed") => vec![FOREIGN],
        _ => Vec::new(),
    });
}

/// The context that is current on this thread. Not a function of the driver: not counted, and without faults.
#[unsafe(no_mangle)]
pub extern "C" fn sim_current() -> usize {
    with_stack(|stack| stack.last().copied()).ok().flatten().unwrap_or(0)
}

/// Makes the primary context current on this thread and does not restore it, for tests that detect this.
#[unsafe(no_mangle)]
pub extern "C" fn sim_leave_current() {
    let _ = with_stack(|stack| stack.push(PRIMARY));
}

fn with_stack<T>(run: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, u32> {
    STACK.try_with(|stack| run(&mut stack.borrow_mut())).map_err(|_| code::INVALID_CONTEXT)
}

/// Fails unless a live context is current on this thread.
///
/// # Errors
/// [`code::NOT_INITIALIZED`], [`code::INVALID_CONTEXT`].
pub fn need() -> Result<(), u32> {
    initialised()?;
    let current = with_stack(|stack| stack.last().copied())?;
    if current == Some(PRIMARY) && device::retained() > 0 { alive().map(drop) } else { Err(code::INVALID_CONTEXT) }
}

/// The primary context's number.
///
/// # Errors
/// [`code::CONTEXT_IS_DESTROYED`] after a reset of the device, until the context is retained.
fn alive() -> Result<u64, u32> {
    device::context().ok_or(code::CONTEXT_IS_DESTROYED)
}

/// As [`need`], for a signal or a wait. A stream's handle names its context; handles 0, 1 and 2, the default streams, name
/// one of the current context.
///
/// # Errors
/// As of [`need`]; [`code::INVALID_VALUE`] if a foreign context is current.
pub fn need_for(stream: usize) -> Result<(), u32> {
    initialised()?;
    static NEEDED: LazyLock<bool> = LazyLock::new(|| settings::text(SETTING).as_deref() == Some("needed"));
    if stream > 2 && !*NEEDED {
        return Ok(());
    }
    let foreign = with_stack(|stack| stack.last() == Some(&FOREIGN))?;
    if foreign { Err(code::INVALID_VALUE) } else { need() }
}

/// Waits as driver 580 does in `cuMemFree`, `cuMemFreeHost`, `cuMipmappedArrayDestroy`, `cuModuleUnload` and
/// `cuModuleLoadData`: until every stream has run its work.
pub(crate) fn drain() {
    stream::drain_all();
}

/// Fails unless the handle is that of the primary context, retained.
fn check(context: usize) -> Result<(), u32> {
    initialised()?;
    if context == PRIMARY && device::retained() > 0 { alive().map(drop) } else { Err(code::INVALID_CONTEXT) }
}

entries! {
    fn cuDevicePrimaryCtxRetain(context: *mut usize, ordinal: c_int) gives context {
        check_device(ordinal)?;
        give(context, PRIMARY)?;
        device::retain();
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) {
        check_device(ordinal)?;
        if device::release() { Ok(()) } else { Err(code::INVALID_CONTEXT) }
    }

    fn cuDevicePrimaryCtxReset_v2(ordinal: c_int) {
        check_device(ordinal)?;
        device::reset();
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(ordinal: c_int, flags: *mut c_uint, active: *mut c_int) gives active {
        check_device(ordinal)?;
        give(flags, 0)?;
        give(active, c_int::from(device::retained() > 0 && device::context().is_some()))
    }

    fn cuCtxGetId(context: usize, id: *mut u64) gives id {
        check(context)?;
        give(id, alive()?)
    }

    fn cuCtxGetCurrent(context: *mut usize) gives context {
        initialised()?;
        give(context, with_stack(|stack| stack.last().copied())?.unwrap_or(0))
    }

    fn cuCtxSetCurrent(context: usize) {
        if context != 0 {
            check(context)?;
        }
        with_stack(|stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        })
    }

    fn cuCtxPushCurrent_v2(context: usize) {
        check(context)?;
        with_stack(|stack| stack.push(context))
    }

    fn cuCtxPopCurrent_v2(context: *mut usize) gives context {
        initialised()?;
        let popped = with_stack(Vec::pop)?.ok_or(code::INVALID_CONTEXT)?;
        if context.is_null() { Ok(()) } else { give(context, popped) }
    }

    fn cuCtxSynchronize() {
        need()?;
        stream::synchronize_all()
    }
}
