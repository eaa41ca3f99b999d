//! The runtime and its devices.

use std::ffi::{c_int, c_uint};
use std::sync::LazyLock;

use cubecl_hip_sys as hip;
use gpu_interop_sim_abi::hip::device::{Runtime, current, initial};
use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_abi::hip_entries;
use gpu_interop_sim_device::{code, device, physical, settings};

use crate::die_because;
use crate::{graph, streams};

/// The runtime on the CPU.
#[derive(Debug)]
struct Sim;

/// The visible devices, by their numbers among all devices. An empty list shows none.
fn visible() -> &'static [c_int] {
    static VISIBLE: LazyLock<Vec<c_int>> = LazyLock::new(|| {
        let list = settings::text("HIP_VISIBLE_DEVICES").or_else(|| settings::text("CUDA_VISIBLE_DEVICES"));
        device::visible(list.as_deref())
    });
    &VISIBLE
}

/// A device's number among all devices.
fn physical(device: c_int) -> Result<c_int, u32> {
    usize::try_from(device).ok().and_then(|device| visible().get(device).copied()).ok_or(code::INVALID_DEVICE)
}

/// Every function initialises the runtime. Fails without a device; before HIP 5.5 the process aborts.
pub(crate) fn need() -> Result<(), u32> {
    if initial() != 0 && current() == initial() {
        die_because("the device of the work is not current");
    }
    ready().inspect_err(|_| {
        if Era::now() == Era::Early {
            die_because("before HIP 5.5 only queries of devices work without a device");
        }
    })
}

/// As [`need`], for calls that fail in every version.
pub(crate) fn ready() -> Result<(), u32> {
    device::initialise()?;
    // As recorded with an emulated kernel driver.
    physical::choose_granularity(4096);
    if visible().is_empty() { Err(code::NO_DEVICE) } else { Ok(()) }
}

/// `true` if virtual memory management is supported, unless the environment overrides it: since HIP 6.
pub(crate) fn has_virtual_memory() -> bool {
    let attribute = hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported;
    let given = c_int::try_from(attribute).ok().and_then(device::attribute);
    given.map_or(Era::now() >= Era::Six, |given| given.is_ok_and(|given| given != 0))
}

impl Runtime for Sim {
    fn ready(&self) -> Result<(), u32> {
        ready()
    }

    /// Fails without a GPU, but not if all GPUs are hidden.
    fn ready_early(&self) -> Result<(), u32> {
        device::initialise()?;
        if settings::number("GPU_INTEROP_SIM_DEVICES", 1) == 0 { Err(code::INVALID_DEVICE) } else { Ok(()) }
    }

    fn count(&self) -> c_int {
        c_int::try_from(visible().len()).unwrap_or(c_int::MAX)
    }

    fn name(&self, device: c_int) -> Result<String, u32> {
        if let Some((_, Err(code))) =
            settings::answers("GPU_INTEROP_SIM_FAILED_DEVICES").into_iter().find(|(failed, _)| *failed == device)
        {
            return Err(code);
        }
        Ok(settings::text("GPU_INTEROP_SIM_NAME").unwrap_or_else(|| "simulated GPU (sim-hip)".into()))
    }

    fn pci(&self, device: c_int) -> Result<[c_int; 3], u32> {
        Ok(device::pci(physical(device)?))
    }

    /// 16 characters, which never match Vulkan's UUID.
    fn uuid(&self, device: c_int) -> Result<[u8; 16], u32> {
        Ok(device::uuid(physical(device)?, *b"5174d1ce0badcafe"))
    }

    fn luid(&self, device: c_int) -> Option<[u8; 8]> {
        physical(device).ok().filter(|_| cfg!(windows)).map(device::luid)
    }

    fn attribute(&self, device: c_int, number: c_uint) -> Result<c_int, u32> {
        if let Some(answer) = c_int::try_from(number).ok().and_then(device::attribute) {
            return answer;
        }
        let [domain, bus, slot] = device::pci(physical(device)?);
        let value = match number {
            hip::hipDeviceAttribute_t_hipDeviceAttributePciDomainId => domain,
            hip::hipDeviceAttribute_t_hipDeviceAttributePciBusId => bus,
            hip::hipDeviceAttribute_t_hipDeviceAttributePciDeviceId => slot,
            // As the emulated GPUs of the recordings.
            hip::hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount => 4,
            // HIP 5.2 has the functions, which work, but reports no support.
            hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue => Era::now().pick([0, 1, 1, 1]),
            // Newer than HIP 5.2.
            hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported if Era::now() > Era::Early => {
                has_virtual_memory().into()
            }
            _ => return Err(code::INVALID_VALUE),
        };
        Ok(value)
    }

    fn synchronize(&self) -> Result<(), u32> {
        graph::check_device_permitted()?;
        streams::synchronize_all()
    }

    fn has_stream(&self, stream: usize) -> bool {
        streams::exists(stream)
    }
}

/// The device that is current on this thread. No function of the runtime: not counted, and without faults.
#[unsafe(no_mangle)]
pub extern "C" fn sim_current() -> usize {
    usize::try_from(current()).unwrap_or(usize::MAX)
}

hip_entries!(Sim);
#[cfg(target_os = "linux")]
gpu_interop_sim_abi::hip_semaphore_stubs!(Sim);
