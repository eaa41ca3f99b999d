//! The driver and its devices.

use std::ffi::{c_char, c_int, c_uint};

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use gpu_interop_sim_device::{device, driver, entries, settings};

use crate::{code, give};

/// The UUID of the first device.
const UUID: [u8; 16] = *b"sim-cuda stand-i";

/// The visible devices, by their numbers among all devices. An empty list shows none.
fn visible() -> Vec<c_int> {
    device::visible(std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref())
}

/// A device's number among all devices. Fails before `cuInit`, and for devices that do not exist.
pub(crate) fn check(device: c_int) -> Result<c_int, u32> {
    initialised()?;
    usize::try_from(device).ok().and_then(|device| visible().get(device).copied()).ok_or(code::INVALID_DEVICE)
}

/// Fails before `cuInit`.
pub(crate) fn initialised() -> Result<(), u32> {
    if driver::is_initialised() { Ok(()) } else { Err(code::NOT_INITIALIZED) }
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
        driver::initialise()
    }

    fn cuDriverGetVersion(version: *mut c_int) gives version {
        give(version, settings::number("GPU_INTEROP_SIM_VERSION", 13000))
    }

    fn cuDeviceGetCount(count: *mut c_int) gives count {
        initialised()?;
        give(count, c_int::try_from(visible().len()).unwrap_or(c_int::MAX))
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) gives device {
        check(ordinal)?;
        give(device, ordinal)
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        check(device)?;
        let text = settings::text("GPU_INTEROP_SIM_NAME").unwrap_or_else(|| "simulated GPU (sim-cuda)".into());
        code::reject_if(name.is_null() || !device::write_text(name, length, &text))?;
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut c_int, number: c_int, device: c_int) gives value {
        let device = check(device)?;
        code::reject_if(number <= 0 || number >= Attribute::CU_DEVICE_ATTRIBUTE_MAX as c_int)?;
        give(value, attribute(device, number)?)
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) gives uuid {
        give(uuid, device::uuid(check(device)?, UUID))
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) gives uuid {
        give(uuid, device::uuid(check(device)?, UUID))
    }

    fn cuDeviceGetLuid(luid: *mut [u8; 8], node_mask: *mut c_uint, device: c_int) gives luid {
        let device = check(device)?;
        if cfg!(not(windows)) {
            return Err(code::NOT_SUPPORTED);
        }
        give(luid, device::luid(device))?;
        give(node_mask, 1)
    }
}
