//! Identity of a device.

use std::ffi::c_char;

use gpu_interop::{DeviceIdentity, DeviceKind, Error, Luid, PciAddress, Result, Uuid};

use crate::call::call;
use crate::pointer::{self, Out};
use crate::status::gpi_status;
use crate::text;

/// Kind of processor: not reported.
pub const GPI_DEVICE_UNKNOWN: i32 = 0;
/// Kind of processor: a GPU.
pub const GPI_DEVICE_GPU: i32 = 1;
/// Kind of processor: the CPU, as used by lavapipe, SwiftShader and the host backend.
pub const GPI_DEVICE_CPU: i32 = 2;

/// Field of `gpi_identity` that is known: `uuid`.
pub const GPI_IDENTITY_UUID: u32 = 1;
/// Field of `gpi_identity` that is known: `luid` and `luid_node_mask`.
pub const GPI_IDENTITY_LUID: u32 = 2;
/// Field of `gpi_identity` that is known: the PCI address.
pub const GPI_IDENTITY_PCI: u32 = 4;

/// Identity of a physical device, in terms shared by Vulkan, CUDA, HIP and Direct3D. Plain data: it may be copied and sent
/// to another process. All zero is the identity of an unknown device.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_identity {
    /// Marketing name, UTF-8, ends with NUL. Never compared.
    pub name: [c_char; 256],
    /// A `GPI_DEVICE_*`.
    pub kind: i32,
    /// Known fields: `GPI_IDENTITY_*`.
    pub fields: u32,
    /// Device UUID: `VkPhysicalDeviceIDProperties::deviceUUID`, `cuDeviceGetUuid`.
    pub uuid: [u8; 16],
    /// Adapter LUID, on Windows.
    pub luid: [u8; 8],
    /// Node mask of the LUID.
    pub luid_node_mask: u32,
    /// PCI domain.
    pub pci_domain: u32,
    /// PCI bus.
    pub pci_bus: u8,
    /// PCI device.
    pub pci_device: u8,
    /// PCI function.
    pub pci_function: u8,
    /// Must be 0.
    pub reserved: u8,
}

impl gpi_identity {
    /// The identity of an unknown device.
    pub(crate) const UNKNOWN: Self = Self {
        name: [0; 256],
        kind: GPI_DEVICE_UNKNOWN,
        fields: 0,
        uuid: [0; 16],
        luid: [0; 8],
        luid_node_mask: 0,
        pci_domain: 0,
        pci_bus: 0,
        pci_device: 0,
        pci_function: 0,
        reserved: 0,
    };
}

impl From<&DeviceIdentity> for gpi_identity {
    fn from(identity: &DeviceIdentity) -> Self {
        let kind = match identity.kind {
            DeviceKind::Gpu => GPI_DEVICE_GPU,
            DeviceKind::Cpu => GPI_DEVICE_CPU,
            _ => GPI_DEVICE_UNKNOWN,
        };
        let mut result = Self { name: text::to_array(&identity.name), kind, ..Self::UNKNOWN };
        if let Some(uuid) = identity.uuid {
            result.fields |= GPI_IDENTITY_UUID;
            result.uuid = *uuid.as_bytes();
        }
        if let Some(luid) = identity.luid {
            result.fields |= GPI_IDENTITY_LUID;
            (result.luid, result.luid_node_mask) = (luid.bytes, luid.node_mask);
        }
        if let Some(pci) = identity.pci {
            result.fields |= GPI_IDENTITY_PCI;
            result.pci_domain = pci.domain;
            (result.pci_bus, result.pci_device, result.pci_function) = (pci.bus, pci.device, pci.function);
        }
        result
    }
}

/// Every `GPI_IDENTITY_*`.
const FIELDS: u32 = GPI_IDENTITY_UUID | GPI_IDENTITY_LUID | GPI_IDENTITY_PCI;

impl gpi_identity {
    /// The identity in Rust's types. Rejects unknown kinds and fields, as of a structure that was not set to 0.
    pub(crate) fn checked(&self, operation: &'static str) -> Result<DeviceIdentity> {
        let identity = self;
        let kind = match identity.kind {
            GPI_DEVICE_GPU => DeviceKind::Gpu,
            GPI_DEVICE_CPU => DeviceKind::Cpu,
            GPI_DEVICE_UNKNOWN => DeviceKind::Unknown,
            unknown => {
                let message = "the identity has an unknown kind; pass a GPI_DEVICE_*, and set the structure to 0 first";
                return Err(Error::invalid(operation, message).with_context("kind", unknown));
            }
        };
        if identity.fields & !FIELDS != 0 || identity.reserved != 0 {
            let message = "the identity has unknown fields, or a reserved field that is not 0; set the structure to 0 first, \
                           and pass GPI_IDENTITY_*";
            return Err(Error::invalid(operation, message)
                .with_context("fields", format_args!("{:#x}", identity.fields))
                .with_context("reserved", identity.reserved));
        }
        let has = |field| identity.fields & field != 0;
        let luid = Luid { bytes: identity.luid, node_mask: identity.luid_node_mask };
        let pci = PciAddress {
            domain: identity.pci_domain,
            bus: identity.pci_bus,
            device: identity.pci_device,
            function: identity.pci_function,
        };
        Ok(DeviceIdentity::new(text::from_array(&identity.name), kind)
            .with_uuid(Uuid::from_bytes(identity.uuid).filter(|_| has(GPI_IDENTITY_UUID)))
            .with_luid(has(GPI_IDENTITY_LUID).then_some(luid))
            .with_pci(has(GPI_IDENTITY_PCI).then_some(pci)))
    }
}

/// Writes the identity of the device with a UUID to `*identity`, for `gpi_device_open_matching` and `gpi_device_open_for`:
/// 32 hexadecimal digits with or without dashes, or the text of `nvidia-smi -L` (`GPU-...`, `MIG-...`). Other fields are
/// unknown.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for another text, or one of zeros.
///
/// # Safety
/// `text` is null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_identity_from_uuid(text: *const c_char, identity: *mut gpi_identity) -> gpi_status {
    call("gpi_identity_from_uuid", |operation| {
        // SAFETY: the caller's promise.
        let (out, text) =
            unsafe { (Out::new(operation, "identity", identity)?, pointer::utf8(operation, "text", text)?) };
        let uuid: Uuid = text.parse().map_err(|error| Error::invalid(operation, format!("{error}")))?;
        out.set((&DeviceIdentity::default().with_uuid(uuid)).into());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_round_trip() {
        let uuid = Uuid::from_bytes([7; 16]);
        let luid = Luid { bytes: [1, 2, 3, 4, 5, 6, 7, 8], node_mask: 2 };
        let pci = PciAddress { domain: 1, bus: 0x17, device: 3, function: 1 };
        let full = DeviceIdentity::new("card", DeviceKind::Gpu).with_uuid(uuid).with_luid(luid).with_pci(pci);
        for identity in [full.clone(), full.with_uuid(None), DeviceIdentity::default()] {
            assert_eq!(gpi_identity::from(&identity).checked("test").expect("known"), identity);
        }
        assert_eq!(gpi_identity::UNKNOWN.checked("test").expect("known"), DeviceIdentity::default());
    }

    #[test]
    fn unknown_kinds_and_fields_are_rejected() {
        for wrong in [
            gpi_identity { kind: 77, ..gpi_identity::UNKNOWN },
            gpi_identity { fields: 64, ..gpi_identity::UNKNOWN },
            gpi_identity { reserved: 1, ..gpi_identity::UNKNOWN },
        ] {
            let error = wrong.checked("test").expect_err("unknown");
            assert_eq!(error.kind(), gpu_interop::ErrorKind::InvalidArgument);
        }
    }
}
