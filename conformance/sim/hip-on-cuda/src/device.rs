//! The runtime and its devices: CUDA's, in HIP's terms.

use std::ffi::{CStr, c_char, c_int, c_uint};

use cubecl_hip_sys as hip;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute_enum as Attribute, CUuuid};
use gpu_interop_sim_abi::code::INVALID_DEVICE;
use gpu_interop_sim_abi::hip::device::Runtime;
use gpu_interop_sim_abi::{hip_entries, hip_semaphore_stubs};

use crate::cuda::{INVALID_VALUE, call, check, cuda};

/// The runtime on NVIDIA's driver.
#[derive(Debug)]
struct OnCuda;

/// Attributes with the same meaning.
const ATTRIBUTES: &[(c_uint, Attribute)] = &[
    (hip::hipDeviceAttribute_t_hipDeviceAttributePciDomainId, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
    (hip::hipDeviceAttribute_t_hipDeviceAttributePciBusId, Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
    (hip::hipDeviceAttribute_t_hipDeviceAttributePciDeviceId, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
    (
        hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported,
        Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    ),
    (
        hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue,
        Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
    ),
    (
        hip::hipDeviceAttribute_t_hipDeviceAttributeMaxThreadsPerBlock,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    ),
    (
        hip::hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount,
        Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    ),
    (hip::hipDeviceAttribute_t_hipDeviceAttributeWarpSize, Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
];

fn device_of(device: c_int) -> Result<CUdevice, u32> {
    let devices = &cuda()?.devices;
    usize::try_from(device).ok().and_then(|device| devices.get(device)).map(|(device, _)| *device).ok_or(INVALID_DEVICE)
}

fn attribute(device: c_int, attribute: Attribute) -> Result<c_int, u32> {
    let (device, mut value) = (device_of(device)?, 0);
    // SAFETY: the pointer is valid for the call.
    check(unsafe { (cuda()?.functions.cuDeviceGetAttribute)(&raw mut value, attribute, device) })?;
    Ok(value)
}

/// 16 characters made of 16 bytes. HIP's are a serial number in hexadecimal, unknown to other APIs.
fn letters(uuid: [u8; 16]) -> [u8; 16] {
    let number = u128::from_be_bytes(uuid);
    let digit = |place: usize| {
        // Both halves contribute.
        let both = (number >> (4 * place)) ^ (number >> (4 * place + 64));
        b"0123456789abcdef"[usize::try_from(both & 0xf).unwrap_or(0)]
    };
    std::array::from_fn(|index| digit(15 - index))
}

impl Runtime for OnCuda {
    fn ready(&self) -> Result<(), u32> {
        cuda().map(drop)
    }

    fn count(&self) -> c_int {
        cuda().map_or(0, |cuda| cuda.count())
    }

    fn name(&self, device: c_int) -> Result<String, u32> {
        let (device, mut text) = (device_of(device)?, [0 as c_char; 256]);
        // SAFETY: the buffer is longer than the stated size.
        check(unsafe { (cuda()?.functions.cuDeviceGetName)(text.as_mut_ptr(), 255, device) })?;
        // SAFETY: the last byte is a NUL, whatever the call wrote.
        let name = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        Ok(format!("{name} (HIP on CUDA)"))
    }

    fn pci(&self, device: c_int) -> Result<[c_int; 3], u32> {
        Ok([
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
        ])
    }

    fn uuid(&self, device: c_int) -> Result<[u8; 16], u32> {
        let (device, mut uuid) = (device_of(device)?, CUuuid { bytes: [0; 16] });
        // SAFETY: the pointer is valid for the call.
        check(unsafe { (cuda()?.functions.cuDeviceGetUuid_v2)(&raw mut uuid, device) })?;
        Ok(letters(uuid.bytes.map(|byte| byte.to_ne_bytes()[0])))
    }

    fn attribute(&self, device: c_int, number: c_uint) -> Result<c_int, u32> {
        let same = ATTRIBUTES.iter().find(|(hip, _)| *hip == number);
        attribute(device, same.ok_or(INVALID_VALUE)?.1)
    }

    fn synchronize(&self) -> Result<(), u32> {
        // SAFETY: the function has no arguments.
        unsafe { call!(cuCtxSynchronize()) }
    }

    /// CUDA validates it in the calls that use it.
    fn has_stream(&self, _stream: usize) -> bool {
        true
    }
}

hip_entries!(OnCuda);
hip_semaphore_stubs!(OnCuda);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_hexadecimal_and_depend_on_every_byte() {
        let uuid = *b"GPU-of-the-tests";
        let all = letters(uuid);
        assert!(all.iter().all(u8::is_ascii_hexdigit));
        for index in 0..16 {
            let mut other = uuid;
            other[index] ^= 0x10;
            assert_ne!(letters(other), all, "byte {index}");
        }
    }
}
