//! Identity of a Direct3D adapter, comparable with that of other APIs' devices.

#[cfg(any(windows, test))]
use gpu_interop_core::{DeviceIdentity, DeviceKind, Error, ErrorKind, IdentityMatch, Luid, Result};

/// Converts a `LUID` to the byte order of CUDA, HIP and Vulkan: `LowPart`, then `HighPart`, each little-endian.
#[must_use]
pub fn luid_bytes(low: u32, high: i32) -> [u8; 8] {
    let (low, high) = (low.to_le_bytes(), high.to_le_bytes());
    [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
}

/// Description of an adapter by Direct3D and DXGI.
#[cfg(any(windows, test))]
#[derive(Debug, Clone, Default)]
pub(crate) struct Adapter {
    /// Empty if unknown to DXGI.
    pub(crate) name: String,
    /// `DXGI_ADAPTER_FLAG_SOFTWARE`; `None` if the adapter is unknown to DXGI.
    pub(crate) software: Option<bool>,
    pub(crate) luid: [u8; 8],
}

#[cfg(any(windows, test))]
impl Adapter {
    /// The identity of the node of this adapter with the bit `node_mask`. A LUID of zeros means no LUID.
    pub(crate) fn identity(self, node_mask: u32) -> DeviceIdentity {
        DeviceIdentity::new(
            self.name,
            match self.software {
                None => DeviceKind::Unknown,
                Some(true) => DeviceKind::Cpu,
                Some(false) => DeviceKind::Gpu,
            },
        )
        .with_luid((self.luid != [0; 8]).then_some(Luid { bytes: self.luid, node_mask }))
    }
}

/// Returns the bit of the node that an importer shares with a device of `node_count` nodes. NVIDIA's programming guide
/// requires devices of one node; for a linked adapter the importer must name one node.
#[cfg(any(windows, test))]
pub(crate) fn node_mask(operation: &'static str, node_count: u32, importer: Option<Luid>) -> Result<u32> {
    if node_count == 1 {
        return Ok(1);
    }
    let unsupported = |message: &str| {
        Err(Error::unsupported(operation, message).with_context("nodes", node_count).with_context(
            "importer's node mask",
            importer.map_or_else(|| "unknown".into(), |luid| format!("{:#x}", luid.node_mask)),
        ))
    };
    if node_count == 0 {
        return unsupported("the device has no nodes");
    }
    match importer.map(|luid| luid.node_mask) {
        Some(mask) if mask.is_power_of_two() && mask.trailing_zeros() < node_count => Ok(mask),
        Some(_) => unsupported("the importer does not name one node of the linked adapter"),
        None => unsupported(
            "the adapter is several linked GPUs; create the device on a GPU that is not linked, or pass the importer, \
             whose node mask names one of them",
        ),
    }
}

/// Rejects an importer that is known to be another device.
#[cfg(any(windows, test))]
pub(crate) fn check_importer(
    operation: &'static str,
    exporter: &DeviceIdentity,
    importer: &DeviceIdentity,
) -> Result<()> {
    if exporter.compare(importer) != IdentityMatch::Different {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::DeviceMismatch,
        operation,
        "the Direct3D device and the importer are different devices; open the importer's device that has this LUID",
    )
    .with_mismatch(exporter.clone(), importer.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luid(node_mask: u32) -> Option<Luid> {
        Some(Luid { bytes: luid_bytes(0x1234_5678, 1), node_mask })
    }

    #[test]
    fn luid_bytes_begin_with_the_low_part() {
        assert_eq!(luid_bytes(0x0403_0201, 0x0807_0605), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(luid_bytes(0, -1), [0, 0, 0, 0, 255, 255, 255, 255]);
    }

    #[test]
    fn adapters_match_devices_with_the_same_luid() {
        let adapter = Adapter { name: "card".into(), software: Some(false), luid: luid_bytes(0x1234_5678, 1) };
        let identity = adapter.clone().identity(1);
        let compute = DeviceIdentity::default().with_luid(luid(1));
        check_importer("op", &identity, &compute).expect("the same");
        for other in [luid(2), Some(Luid { bytes: [9; 8], node_mask: 1 })] {
            let other = DeviceIdentity::default().with_luid(other);
            let error = check_importer("op", &identity, &other).expect_err("another");
            assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
            assert_eq!(error.mismatch().expect("both").importer, other);
        }
        // An unknown LUID does not prove a mismatch.
        check_importer("op", &identity, &DeviceIdentity::default()).expect("unknown");
        assert_eq!(Adapter { luid: [0; 8], ..adapter.clone() }.identity(1).luid, None);
        let kinds =
            [None, Some(true), Some(false)].map(|software| Adapter { software, ..adapter.clone() }.identity(1).kind);
        assert_eq!(kinds, [DeviceKind::Unknown, DeviceKind::Cpu, DeviceKind::Gpu]);
    }

    #[test]
    fn linked_adapters_require_an_importer_with_one_node() {
        assert_eq!(node_mask("op", 1, None).expect("one node"), 1);
        assert_eq!(node_mask("op", 1, luid(4)).expect("one node"), 1);
        for (mask, nodes) in [(1, 2), (2, 2), (4, 3)] {
            assert_eq!(node_mask("op", nodes, luid(mask)).expect("a node"), mask);
        }
        for (mask, nodes) in [(0, 2), (3, 2), (4, 2), (1 << 31, 4), (1, 0)] {
            let error = node_mask("op", nodes, luid(mask)).expect_err("no node");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{mask:#x} of {nodes}");
        }
        let error = node_mask("op", 2, None).expect_err("which?");
        assert!(error.message().contains("linked") && error.to_string().contains("nodes: 2"), "{error}");
    }
}
