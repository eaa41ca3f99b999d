//! The runtime and its devices.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use cubecl_hip_sys as hip;
use gpu_interop_sim::{device, entries, settings, stream};

use crate::generation::Generation;
use crate::{code, give};

thread_local! {
    /// The current device of this thread.
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

/// `hipDeviceProp_t` of HIP 5: its size, and where name and architecture are.
const PROPERTIES_5: usize = 792;
const ARCHITECTURE_5: usize = 396;

/// Any function initialises the runtime. Fails without a device.
pub(crate) fn need() -> Result<(), u32> {
    device::initialise();
    if device::count() > 0 { Ok(()) } else { Err(code::NO_DEVICE) }
}

fn check(number: c_int) -> Result<(), u32> {
    need()?;
    if device::exists(number) { Ok(()) } else { Err(code::INVALID_DEVICE) }
}

/// The architecture's name.
pub(crate) fn architecture() -> String {
    settings::text("SIM_ARCH").unwrap_or_else(|| "gfx90a:sramecc+:xnack-".into())
}

fn name() -> String {
    settings::text("SIM_NAME").unwrap_or_else(|| "stand-in GPU (sim-hip)".into())
}

fn attribute(number: c_uint) -> c_int {
    let [domain, bus, slot] = device::pci();
    let value = match number {
        hip::hipDeviceAttribute_t_hipDeviceAttributePciDomainId => domain,
        hip::hipDeviceAttribute_t_hipDeviceAttributePciBusId => bus,
        hip::hipDeviceAttribute_t_hipDeviceAttributePciDeviceId => slot,
        hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported
        | hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue => 1,
        _ => 0,
    };
    c_int::try_from(number).ok().and_then(device::attribute).unwrap_or(value)
}

entries! {
    fn hipInit(flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        // As measured of HIP 5 and of HIP 6.
        need().map_err(|_| if Generation::now() == Generation::Five { code::INVALID_DEVICE } else { code::NO_DEVICE })
    }

    fn hipRuntimeGetVersion(version: *mut c_int) gives version {
        give(version, Generation::now().version())
    }

    fn hipDriverGetVersion(version: *mut c_int) gives version {
        give(version, Generation::now().version())
    }

    fn hipGetDeviceCount(count: *mut c_int) gives count {
        give(count, device::count())?;
        need()
    }

    fn hipDeviceGet(device: *mut c_int, ordinal: c_int) gives device {
        check(ordinal)?;
        give(device, ordinal)
    }

    fn hipGetDevice(device: *mut c_int) gives device {
        need()?;
        give(device, CURRENT.try_with(Cell::get).unwrap_or(0))
    }

    fn hipSetDevice(device: c_int) {
        check(device)?;
        CURRENT.try_with(|current| current.set(device)).map_err(|_| code::INVALID_DEVICE)
    }

    fn hipDeviceGetName(text: *mut c_char, length: c_int, device: c_int) {
        check(device)?;
        if text.is_null() || !device::write_text(text, length, &name()) {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }

    fn hipDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int) {
        check(device)?;
        let [domain, bus, slot] = device::pci();
        let address = format!("{domain:04x}:{bus:02x}:{slot:02x}.0");
        if text.is_null() || !device::write_text(text, length, &address) {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }

    fn hipDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) gives uuid {
        check(device)?;
        // 16 letters: never what Vulkan says.
        give(uuid, settings::bytes("SIM_UUID").unwrap_or(*b"5174d1ce0badcafe"))
    }

    fn hipDeviceGetAttribute(value: *mut c_int, number: c_uint, device: c_int) gives value {
        check(device)?;
        give(value, attribute(number))
    }

    fn hipGetDevicePropertiesR0600(properties: *mut hip::hipDeviceProp_tR0600, device: c_int) gives properties {
        check(device)?;
        if properties.is_null() {
            return Err(code::INVALID_VALUE);
        }
        properties.write_bytes(0, 1);
        let [domain, bus, slot] = device::pci();
        (&raw mut (*properties).pciDomainID).write(domain);
        (&raw mut (*properties).pciBusID).write(bus);
        (&raw mut (*properties).pciDeviceID).write(slot);
        device::write_text((&raw mut (*properties).name).cast(), 256, &name());
        device::write_text((&raw mut (*properties).gcnArchName).cast(), 256, &architecture());
        Ok(())
    }

    // The symbol without a version has the layout of HIP 5 in every version.
    fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) {
        check(device)?;
        if properties.is_null() {
            return Err(code::INVALID_VALUE);
        }
        properties.cast::<u8>().write_bytes(0, PROPERTIES_5);
        device::write_text(properties.cast(), 256, &name());
        device::write_text(properties.byte_add(ARCHITECTURE_5).cast(), 256, &architecture());
        Ok(())
    }

    fn hipDeviceSynchronize() {
        need()?;
        stream::synchronize_all()
    }
}
