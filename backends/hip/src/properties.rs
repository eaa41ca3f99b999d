//! Properties available only from `hipDeviceProp_t`. The struct has two layouts, from which three fields are read.

use std::ffi::{CStr, c_char, c_void};

use gpu_interop_core::Luid;
use gpu_interop_driver::{DeviceNumber, Driver, DriverFunction, Status, Vendor};

use crate::Hip;
use crate::sys::attribute;

/// Offsets of fields in bytes.
mod offset {
    /// `gcnArchName` of `hipDeviceProp_t` of HIP 5.
    pub(super) const ARCHITECTURE_GENERATION_5: usize = 396;
    /// `gcnArchName` of `hipDeviceProp_tR0600`.
    pub(super) const ARCHITECTURE: usize = 1160;
    /// `pciBusID` of `hipDeviceProp_tR0600`; `pciDeviceID` follows.
    pub(super) const PCI_BUS: usize = 584;
    /// `luid`, since HIP 6.
    pub(super) const LUID: usize = 272;
    /// `luidDeviceNodeMask`, since HIP 6.
    pub(super) const LUID_NODE_MASK: usize = 280;
}

/// Size of `gcnArchName` in bytes.
const ARCHITECTURE_LENGTH: usize = 256;
/// Name of the function for both layouts.
const NAME: &str = "hipGetDeviceProperties";
/// Size of the buffer in 64-bit words: larger than both layouts (792 and 1472 bytes), in case a runtime appends fields.
const WORDS: usize = 1024;

/// A `hipDeviceProp_t` as bytes.
struct Properties {
    bytes: Vec<u8>,
    architecture: usize,
    has_luid: bool,
}

impl Properties {
    fn of(driver: &Driver<Hip>, device: DeviceNumber) -> Option<Self> {
        let functions = &driver.own;
        let (get, architecture, has_luid) = match functions.get_properties.get() {
            Some(get) => (get, offset::ARCHITECTURE, true),
            None => (functions.get_properties_generation_5.get()?, offset::ARCHITECTURE_GENERATION_5, false),
        };
        // Words give the buffer the struct's alignment.
        let mut words = vec![0_u64; WORDS];
        // SAFETY: the buffer is larger than the struct, has its alignment, and is plain data.
        let result = unsafe { get.traced(NAME, (words.as_mut_ptr().cast::<c_void>(), device)) };
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        (result == Status::SUCCESS).then_some(Self { bytes, architecture, has_luid })
    }

    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at + N)?.try_into().ok()
    }
}

/// Returns the architecture's name with its features: `gfx90a:sramecc+:xnack-`.
pub(crate) fn architecture(driver: &Driver<Hip>, device: DeviceNumber) -> Option<String> {
    let properties = Properties::of(driver, device)?;
    let bytes: [u8; ARCHITECTURE_LENGTH] = properties.field(properties.architecture)?;
    let name = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
    // An unknown layout would yield arbitrary bytes.
    (name.starts_with("gfx") && name.is_ascii()).then(|| name.to_owned())
}

/// `true` if this runtime's numbers of attributes and the layout of its properties are those of HIP 6 and 7: the first
/// device's PCI address is the same by name, by attribute and in the properties, and its architecture is a name.
///
/// AMD renames a function when its struct changes (`hipGetDevicePropertiesR0600`): a runtime without the name has another
/// layout. Without a device no struct is used.
pub(crate) fn layout_is_known(driver: &Driver<Hip>) -> bool {
    const FIRST: DeviceNumber = 0;
    if driver.own.get_properties.get().is_none() {
        return false;
    }
    let (Some(properties), Some(pci)) = (Properties::of(driver, FIRST), Hip::pci(driver, FIRST)) else {
        return driver.attribute(FIRST, attribute::PCI_BUS_ID).is_none();
    };
    let expected = [pci.bus, pci.device].map(i32::from);
    let field = |at: usize| properties.field(at).map(i32::from_ne_bytes);
    let attributes = [attribute::PCI_BUS_ID, attribute::PCI_DEVICE_ID].map(|number| driver.attribute(FIRST, number));
    let fields = [offset::PCI_BUS, offset::PCI_BUS + size_of::<i32>()].map(field);
    attributes == expected.map(Some) && fields == expected.map(Some) && architecture(driver, FIRST).is_some()
}

/// Returns the LUID, which only Windows reports.
pub(crate) fn luid(driver: &Driver<Hip>, device: DeviceNumber) -> Option<Luid> {
    if cfg!(not(windows)) {
        return None;
    }
    from_properties(driver, device).or_else(|| from_function(driver, device))
}

fn from_properties(driver: &Driver<Hip>, device: DeviceNumber) -> Option<Luid> {
    let properties = Properties::of(driver, device).filter(|properties| properties.has_luid)?;
    let bytes: [u8; 8] = properties.field(offset::LUID)?;
    let node_mask = u32::from_ne_bytes(properties.field(offset::LUID_NODE_MASK)?);
    (bytes != [0; 8]).then_some(Luid { bytes, node_mask })
}

/// Queries the LUID by its own function, because the runtime on ROCr may omit it from the properties.
fn from_function(driver: &Driver<Hip>, device: DeviceNumber) -> Option<Luid> {
    let get = driver.own.get_luid.get()?;
    let (mut bytes, mut node_mask) = ([0_u8; 8], 0);
    let arguments = (bytes.as_mut_ptr().cast::<c_char>(), &raw mut node_mask, device);
    // SAFETY: the pointers are valid for the call, which writes a LUID's 8 bytes.
    let result = unsafe { get.traced("hipDeviceGetLuid", arguments) };
    (result == Status::SUCCESS && bytes != [0; 8]).then_some(Luid { bytes, node_mask })
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cubecl_hip_sys::hipDeviceProp_tR0600 as Theirs;

    use super::*;

    #[test]
    fn field_offsets_match_the_header() {
        assert_eq!(offset::ARCHITECTURE, offset_of!(Theirs, gcnArchName));
        assert_eq!(offset::PCI_BUS, offset_of!(Theirs, pciBusID));
        assert_eq!(offset::PCI_BUS + 4, offset_of!(Theirs, pciDeviceID));
        assert_eq!(offset::LUID, offset_of!(Theirs, luid));
        assert_eq!(offset::LUID_NODE_MASK, offset_of!(Theirs, luidDeviceNodeMask));
        assert!(size_of::<Theirs>() < WORDS * 8);
    }
}
