//! Identity of a physical device in terms shared by Vulkan, CUDA, HIP and Direct3D.

use std::fmt;
use std::str::FromStr;

/// Device UUID: CUDA's `cuDeviceGetUuid`, Vulkan's `VkPhysicalDeviceIDProperties::deviceUUID`.
///
/// Never all zero: drivers report that for an unknown UUID, which is `None` here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("format" = "uuid")))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Creates a UUID; `None` if all bytes are zero.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The sixteen bytes in the driver's order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

/// Error of parsing an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseIdentityError {
    text: String,
    expected: &'static str,
}

/// Parses an even number of hexadecimal digits, dashes ignored, into exactly `N` bytes.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u32> = text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(pair[0] * 16 + pair[1]).ok()?;
    }
    Some(bytes)
}

/// Accepts 32 hexadecimal digits with or without dashes, and the forms of `nvidia-smi -L`: `GPU-` or `MIG-` before them.
impl FromStr for Uuid {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-")).unwrap_or(text);
        parse_hex(digits).and_then(Self::from_bytes).ok_or_else(|| ParseIdentityError {
            text: text.into(),
            expected: "a UUID of 32 hexadecimal digits, not all zero, alone or after `GPU-` or `MIG-`; `nvidia-smi -L` \
                       prints them",
        })
    }
}

impl TryFrom<String> for Uuid {
    type Error = ParseIdentityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

/// A Windows adapter LUID with the node mask that selects one GPU of a linked adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Luid {
    /// The eight bytes in the driver's order.
    pub bytes: [u8; 8],
    /// One bit per node of a linked adapter; exactly one bit set for a single GPU.
    pub node_mask: u32,
}

impl fmt::Display for Luid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.bytes {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "/node {:#x}", self.node_mask)
    }
}

/// A PCI address: `domain:bus:device.function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(extend("pattern" = r"^[0-9a-fA-F]+(:[0-9a-fA-F]{1,2}){2}\.[0-9a-fA-F]{1,2}$")))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct PciAddress {
    /// PCI domain (segment).
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device (slot) number.
    pub device: u8,
    /// Function number.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            Some(Self {
                domain: u32::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                device: u8::from_str_radix(device, 16).ok()?,
                function: u8::from_str_radix(function, 16).ok()?,
            })
        };
        parse().ok_or_else(|| ParseIdentityError { text: text.into(), expected: "a PCI address like 0000:17:00.0" })
    }
}

impl TryFrom<String> for PciAddress {
    type Error = ParseIdentityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> Self {
        address.to_string()
    }
}

/// Type of processor, as reported by the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DeviceKind {
    /// Not reported.
    #[default]
    Unknown,
    /// A GPU.
    Gpu,
    /// The host's processor, as used by lavapipe, SwiftShader and the host backend.
    Cpu,
}

/// Identity of a device.
///
/// Fields that a driver does not report are `None`; [`DeviceIdentity::compare`] uses the fields known for both devices.
#[doc(alias(
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDeviceGetLuid",
    "cuDeviceGetPCIBusId",
    "cudaGetDeviceProperties",
    "cudaDeviceGetPCIBusId",
    "hipGetDeviceProperties",
    "hipDeviceGetName",
    "hipDeviceGetUuid",
    "hipDeviceGetLuid",
    "hipDeviceGetPCIBusId",
    "vkGetPhysicalDeviceProperties2",
    "VkPhysicalDeviceIDProperties",
    "vkEnumeratePhysicalDeviceGroups"
))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DeviceIdentity {
    /// Marketing name. Never compared: two cards of one model have equal names.
    pub name: String,
    /// Type of processor.
    pub kind: DeviceKind,
    /// UUID, equal in CUDA and Vulkan. HIP reports a different value, so the HIP backend leaves it out.
    pub uuid: Option<Uuid>,
    /// Adapter LUID, on Windows only.
    pub luid: Option<Luid>,
    /// PCI address; the field that HIP and Vulkan share on Linux.
    pub pci: Option<PciAddress>,
}

/// Result of [`DeviceIdentity::compare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum IdentityMatch {
    /// Both identities are of one device.
    Same,
    /// The identities are of different devices.
    Different,
    /// No field is known for both, so they cannot be compared.
    Unknown,
}

impl DeviceIdentity {
    /// A device known by its name and kind only.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: DeviceKind) -> Self {
        Self { name: name.into(), kind, ..Self::default() }
    }

    /// Compares the strongest field known for both: UUID, then LUID with node mask, then PCI address.
    ///
    /// Without a common field, two CPU devices are the same (there is one host) and a CPU differs from a GPU.
    #[must_use]
    pub fn compare(&self, other: &Self) -> IdentityMatch {
        fn known<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<IdentityMatch> {
            let (a, b) = a.zip(b)?;
            Some(if a == b { IdentityMatch::Same } else { IdentityMatch::Different })
        }
        known(self.uuid, other.uuid)
            .or_else(|| known(self.luid, other.luid))
            .or_else(|| known(self.pci, other.pci))
            .unwrap_or(match (self.kind, other.kind) {
                (DeviceKind::Cpu, DeviceKind::Cpu) => IdentityMatch::Same,
                (DeviceKind::Unknown, _) | (_, DeviceKind::Unknown) | (DeviceKind::Gpu, DeviceKind::Gpu) => {
                    IdentityMatch::Unknown
                }
                (DeviceKind::Cpu, DeviceKind::Gpu) | (DeviceKind::Gpu, DeviceKind::Cpu) => IdentityMatch::Different,
            })
    }
}

setters! {
    DeviceIdentity {
        /// Sets the name.
        with_name => name: impl Into<String>;
        /// Sets the kind of processor.
        with_kind => kind: DeviceKind;
        /// Sets the UUID.
        with_uuid => uuid: impl Into<Option<Uuid>>;
        /// Sets the LUID.
        with_luid => luid: impl Into<Option<Luid>>;
        /// Sets the PCI address.
        with_pci => pci: impl Into<Option<PciAddress>>;
    }
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.name.is_empty() { "unnamed device" } else { &self.name })?;
        if let Some(uuid) = self.uuid {
            write!(f, ", uuid {uuid}")?;
        }
        if let Some(luid) = self.luid {
            write!(f, ", luid {luid}")?;
        }
        if let Some(pci) = self.pci {
            write!(f, ", pci {pci}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn with_uuid(byte: u8) -> DeviceIdentity {
        DeviceIdentity { uuid: Uuid::from_bytes([byte; 16]), kind: DeviceKind::Gpu, ..Default::default() }
    }

    fn with_pci(bus: u8) -> DeviceIdentity {
        let pci = Some(PciAddress { domain: 0, bus, device: 0, function: 0 });
        DeviceIdentity { pci, kind: DeviceKind::Gpu, ..Default::default() }
    }

    #[test]
    fn all_zero_uuid_is_unknown() {
        assert_eq!(Uuid::from_bytes([0; 16]), None);
        assert_eq!(with_uuid(0).compare(&with_uuid(0)), IdentityMatch::Unknown);
    }

    #[test]
    fn the_strongest_common_field_decides() {
        assert_eq!(with_uuid(1).compare(&with_uuid(1)), IdentityMatch::Same);
        assert_eq!(with_uuid(1).compare(&with_uuid(2)), IdentityMatch::Different);
        assert_eq!(with_uuid(1).compare(&with_pci(1)), IdentityMatch::Unknown);
        assert_eq!(with_pci(1).compare(&with_pci(1)), IdentityMatch::Same);
        let both = DeviceIdentity { uuid: with_uuid(1).uuid, ..with_pci(3) };
        // Same slot, other UUID: a card that was swapped, or a MIG instance. The UUID decides.
        assert_eq!(both.compare(&DeviceIdentity { uuid: with_uuid(2).uuid, ..with_pci(3) }), IdentityMatch::Different);
    }

    #[test]
    fn uuids_of_nvidia_smi_parse() {
        let parse = |text: &str| text.parse::<Uuid>().map(|uuid| uuid.to_string());
        let plain = "8f2c1d3e-0001-a2b3-c4d5-0123456789ab";
        for text in ["GPU-8f2c1d3e-0001-a2b3-c4d5-0123456789ab", "MIG-8F2C1D3E-0001-A2B3-C4D5-0123456789AB", plain] {
            assert_eq!(parse(text).as_deref(), Ok(plain), "{text}");
        }
        // That of a MIG device before driver 470 names its GPU, not itself.
        for text in ["GPU-", "GPU-MIG-8f2c1d3e-0001-a2b3-c4d5-0123456789ab", &format!("MIG-GPU-{plain}/1/0"), "TPU-1"] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("nvidia-smi -L"), "{error}");
        }
    }

    #[test]
    fn a_node_mask_is_part_of_a_luid() {
        let node = |node_mask| DeviceIdentity { luid: Some(Luid { bytes: [7; 8], node_mask }), ..Default::default() };
        assert_eq!(node(1).compare(&node(1)), IdentityMatch::Same);
        assert_eq!(node(1).compare(&node(2)), IdentityMatch::Different);
    }

    #[test]
    fn cpu_devices_are_one_host() {
        let cpu = DeviceIdentity { kind: DeviceKind::Cpu, ..Default::default() };
        let lavapipe = DeviceIdentity { uuid: Uuid::from_bytes([9; 16]), ..cpu.clone() };
        assert_eq!(cpu.compare(&lavapipe), IdentityMatch::Same);
        assert_eq!(cpu.compare(&with_uuid(9)), IdentityMatch::Different);
    }

    #[test]
    fn identities_round_trip_through_json() {
        let identity = DeviceIdentity {
            name: "card".into(),
            luid: Some(Luid { bytes: [1, 2, 3, 4, 5, 6, 7, 8], node_mask: 1 }),
            pci: "0001:17:00.3".parse().ok(),
            ..with_uuid(0xab)
        };
        let json = serde_json::to_string(&identity).expect("serializes");
        assert!(json.contains("abababab-abab-abab-abab-abababababab") && json.contains("0001:17:00.3"), "{json}");
        assert_eq!(serde_json::from_str::<DeviceIdentity>(&json).expect("deserializes"), identity);
        assert!("00000000-0000-0000-0000-000000000000".parse::<Uuid>().is_err());
        assert!("17:00.0".parse::<PciAddress>().is_err());
    }
}
