//! Reconciled properties of NvSci objects.

use bitflags::bitflags;

use crate::error::{Error, ErrorKind, Result};
use crate::identity::{DeviceIdentity, Uuid};

bitflags! {
    /// Uses of an NvSciSync object by a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct NvSciSyncUse: u32 {
        /// Streams of the device signal it (`CUDA_NVSCISYNC_ATTR_SIGNAL`).
        const SIGNAL = 1;
        /// Streams of the device wait for it (`CUDA_NVSCISYNC_ATTR_WAIT`).
        const WAIT = 2;
    }
}

/// Access that NvSciBuf granted to one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NvSciBufGpu {
    /// The GPU (`NvSciRmGpuId`), by the UUID that its driver reports (`cuDeviceGetUuid`).
    pub id: Uuid,
    /// `true` if it may cache the buffer (`NvSciBufGeneralAttrKey_EnableGpuCache`); `None` if not reported.
    pub cache: Option<bool>,
    /// `true` if its cache must be kept coherent in software (`NvSciBufGeneralAttrKey_GpuSwNeedCacheCoherency`): then
    /// signals and waits must not skip the memory synchronisation. `None` if not reported.
    pub needs_memsync: Option<bool>,
    /// `true` if it keeps the buffer compressed (`NvSciBufGeneralAttrKey_EnableGpuCompression`); `None` if not
    /// reported.
    pub compression: Option<bool>,
}

/// Reconciled properties of an NvSciBuf object, for its import. [`MemoryImport`](crate::MemoryImport) contains the
/// size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NvSciBufProperties {
    /// Alignment of the first byte, in bytes.
    pub alignment: u64,
    /// Planes of an image; 0 for a raw buffer.
    pub planes: u32,
    /// `true` if this object is read-only (`NvSciBufAccessPerm_Readonly`). Writes are then rejected before they are
    /// enqueued.
    pub read_only: bool,
    /// GPUs that the object was made for. No other GPU can import it, and none if this is empty.
    pub gpus: Vec<NvSciBufGpu>,
}

impl NvSciBufProperties {
    /// Access granted to a device with a known UUID.
    #[must_use]
    pub fn gpu(&self, device: &DeviceIdentity) -> Option<&NvSciBufGpu> {
        self.gpus.iter().find(|gpu| Some(gpu.id) == device.uuid)
    }

    /// Rejects a device that the object was not made for. A device without a UUID cannot be compared and is accepted.
    pub(crate) fn check_gpu(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        let first = self.gpus.first().map(|gpu| gpu.id);
        if self.gpu(importer).is_some() || (first.is_some() && importer.uuid.is_none()) {
            return Ok(());
        }
        let made_for = DeviceIdentity { uuid: first, ..DeviceIdentity::default() };
        let message =
            "the NvSciBuf object was not created for this GPU; add its id to an attribute list before reconciliation";
        let error = Error::new(ErrorKind::DeviceMismatch, operation, message);
        Err(error.with_mismatch(made_for, importer.clone()))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn device(byte: u8) -> DeviceIdentity {
        DeviceIdentity { uuid: Uuid::from_bytes([byte; 16]), ..DeviceIdentity::default() }
    }

    #[test]
    fn only_the_named_gpus_may_import() {
        let gpu = |byte| {
            let id = Uuid::from_bytes([byte; 16]).expect("a UUID");
            NvSciBufGpu { id, cache: Some(byte == 1), needs_memsync: None, compression: None }
        };
        let both = NvSciBufProperties { alignment: 1, planes: 0, read_only: false, gpus: vec![gpu(1), gpu(2)] };
        for (byte, cached) in [(1, Some(true)), (2, Some(false)), (3, None)] {
            assert_eq!(both.gpu(&device(byte)).and_then(|gpu| gpu.cache), cached, "{byte}");
        }
        assert!(both.check_gpu("op", &device(2)).is_ok() && both.check_gpu("op", &device(0)).is_ok());
        let error = both.check_gpu("op", &device(3)).expect_err("another GPU");
        assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
        assert_eq!(error.mismatch().map(|mismatch| mismatch.importer.uuid), Some(device(3).uuid));
        // An object for the CPU alone. A device without a UUID is rejected, too: no GPU was named.
        let for_none = NvSciBufProperties { gpus: vec![], ..both };
        for byte in [0, 3] {
            let error = for_none.check_gpu("op", &device(byte)).expect_err("no GPU was named");
            assert_eq!(error.kind(), ErrorKind::DeviceMismatch, "{byte}");
        }
    }
}
