//! The driver, its devices, their primary contexts, and the threads on which a context is current.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::LazyLock;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use gpu_interop_sim_device::{device, entries, settings, stream};

use crate::{code, give};

/// The UUID of the first device.
const UUID: [u8; 16] = *b"sim-cuda stand-i";

/// The visible devices, by their numbers among all devices. An empty list shows none.
fn visible() -> Vec<c_int> {
    device::visible(std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref())
}

/// A device's number among all devices. Fails before `cuInit`, and for devices that do not exist.
pub(crate) fn check_device(device: c_int) -> Result<c_int, u32> {
    initialised()?;
    usize::try_from(device).ok().and_then(|device| visible().get(device).copied()).ok_or(code::INVALID_DEVICE)
}

/// Fails before `cuInit`.
pub(crate) fn initialised() -> Result<(), u32> {
    if device::is_initialised() { Ok(()) } else { Err(code::NOT_INITIALIZED) }
}

fn attribute(device: c_int, number: c_int) -> Result<c_int, u32> {
    let [domain, bus, slot] = device::pci(device);
    let known = [
        (Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, domain),
        (Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, bus),
        (Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, slot),
        (Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, c_int::from(cfg!(unix))),
        (Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, c_int::from(cfg!(windows))),
        (Attribute::CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1),
    ];
    let value = known.into_iter().find(|(name, _)| *name as c_int == number).map_or(0, |(_, value)| value);
    device::attribute(number).unwrap_or(Ok(value))
}

/// `true` if the devices report that they are part of an embedded system: with `GPU_INTEROP_SIM_ATTRIBUTES=18:1`.
pub(crate) fn is_integrated() -> bool {
    attribute(0, Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED as c_int).is_ok_and(|value| value != 0)
}

pub(crate) fn uuid(device: c_int) -> [u8; 16] {
    device::uuid(device, UUID)
}

entries! {
    fn cuInit(flags: c_uint) {
        code::reject_if(flags != 0)?;
        if visible().is_empty() {
            return Err(code::NO_DEVICE);
        }
        device::initialise()
    }

    fn cuDriverGetVersion(version: *mut c_int) gives version {
        give(version, settings::number("GPU_INTEROP_SIM_VERSION", 13000))
    }

    fn cuDeviceGetCount(count: *mut c_int) gives count {
        initialised()?;
        give(count, c_int::try_from(visible().len()).unwrap_or(c_int::MAX))
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) gives device {
        check_device(ordinal)?;
        give(device, ordinal)
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        check_device(device)?;
        let text = settings::text("GPU_INTEROP_SIM_NAME").unwrap_or_else(|| "simulated GPU (sim-cuda)".into());
        code::reject_if(name.is_null() || !device::write_text(name, length, &text))?;
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut c_int, number: c_int, device: c_int) gives value {
        let device = check_device(device)?;
        code::reject_if(number <= 0 || number >= Attribute::CU_DEVICE_ATTRIBUTE_MAX as c_int)?;
        give(value, attribute(device, number)?)
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) gives uuid {
        give(uuid, device::uuid(check_device(device)?, UUID))
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) gives uuid {
        give(uuid, device::uuid(check_device(device)?, UUID))
    }

    fn cuDeviceGetLuid(luid: *mut [u8; 8], node_mask: *mut c_uint, device: c_int) gives luid {
        let device = check_device(device)?;
        if cfg!(not(windows)) {
            return Err(code::NOT_SUPPORTED);
        }
        give(luid, device::luid(device))?;
        give(node_mask, 1)
    }
}

/// The primary context's handle.
pub(crate) const PRIMARY: usize = 0x51_0000_0100;

/// The handle of a foreign context, which supports no operation.
pub(crate) const FOREIGN: usize = 0x51_0000_0200;

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
pub fn need_context() -> Result<(), u32> {
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

/// As [`need_context`], for a signal or a wait. A stream's handle names its context; handles 0, 1 and 2, the default
/// streams, name one of the current context.
///
/// # Errors
/// As of [`need_context`]; [`code::INVALID_VALUE`] if a foreign context is current.
pub fn need_context_for(stream: usize) -> Result<(), u32> {
    initialised()?;
    static NEEDED: LazyLock<bool> = LazyLock::new(|| settings::text(SETTING).as_deref() == Some("needed"));
    if stream > 2 && !*NEEDED {
        return Ok(());
    }
    if is_foreign()? { Err(code::INVALID_VALUE) } else { need_context() }
}

/// Returns whether the other context is current on this thread.
///
/// # Errors
/// [`code::NOT_INITIALIZED`], [`code::INVALID_CONTEXT`].
pub(crate) fn is_foreign() -> Result<bool, u32> {
    initialised()?;
    with_stack(|stack| stack.last() == Some(&FOREIGN))
}

/// Waits as driver 580 does in `cuMemFree`, `cuMemFreeHost`, `cuMipmappedArrayDestroy`, `cuModuleUnload` and
/// `cuModuleLoadData`: until every stream has run its work.
pub(crate) fn drain() {
    stream::drain_all();
}

/// Fails unless the handle is that of the primary context, retained.
fn check_context(context: usize) -> Result<(), u32> {
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

    fn cuCtxCreate_v2(context: *mut usize, _flags: c_uint, device: c_int) gives context {
        check_device(device)?;
        give(context, FOREIGN)?;
        with_stack(|stack| stack.push(FOREIGN))
    }

    fn cuCtxDestroy_v2(context: usize) {
        initialised()?;
        code::reject_if(context != FOREIGN)?;
        with_stack(|stack| {
            if stack.last() == Some(&FOREIGN) {
                stack.pop();
            }
        })
    }

    fn cuCtxGetId(context: usize, id: *mut u64) gives id {
        check_context(context)?;
        give(id, alive()?)
    }

    fn cuCtxGetCurrent(context: *mut usize) gives context {
        initialised()?;
        give(context, with_stack(|stack| stack.last().copied())?.unwrap_or(0))
    }

    fn cuCtxSetCurrent(context: usize) {
        if context != 0 {
            check_context(context)?;
        }
        with_stack(|stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        })
    }

    fn cuCtxPushCurrent_v2(context: usize) {
        check_context(context)?;
        with_stack(|stack| stack.push(context))
    }

    fn cuCtxPopCurrent_v2(context: *mut usize) gives context {
        initialised()?;
        let popped = with_stack(Vec::pop)?.ok_or(code::INVALID_CONTEXT)?;
        if context.is_null() { Ok(()) } else { give(context, popped) }
    }

    fn cuCtxSynchronize() {
        need_context()?;
        stream::synchronize_all()
    }
}
