//! Exporting devices and owners recorded in a request.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::handle::Owner;
use crate::identity::{DeviceIdentity, IdentityMatch};

/// Exporting devices named in a request, and owners of its object. Entries are only added, so that safe code cannot
/// remove a check that the exporter added.
#[derive(Default)]
pub(super) struct Origin {
    first: Option<DeviceIdentity>,
    others: Vec<DeviceIdentity>,
    owners: Vec<Owner>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exporters: Vec<_> = self.first.iter().chain(&self.others).collect();
        f.debug_struct("Origin").field("exporters", &exporters).field("owners", &self.owners.len()).finish()
    }
}

impl Origin {
    pub(super) fn add_exporter(&mut self, exporter: DeviceIdentity) {
        match &self.first {
            None => self.first = Some(exporter),
            Some(_) => self.others.push(exporter),
        }
    }

    pub(super) fn exporter(&self) -> Option<&DeviceIdentity> {
        self.first.as_ref()
    }

    pub(super) fn keep(&mut self, owner: Owner) {
        self.owners.push(owner);
    }

    /// Rejects an importer that differs from a named exporter.
    pub(super) fn check(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        let differs = |exporter: &&DeviceIdentity| exporter.compare(importer) == IdentityMatch::Different;
        match self.first.iter().chain(&self.others).find(differs) {
            Some(exporter) => Err(Error::new(
                ErrorKind::DeviceMismatch,
                operation,
                "the handle was exported by another device; open the device that matches the exporter",
            )
            .with_mismatch(exporter.clone(), importer.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::handle::{KmtHandle, MemoryHandle, SemaphoreHandle};
    use crate::identity::Uuid;
    use crate::import::{MemoryImport, SemaphoreImport};

    fn requests() -> (MemoryImport, SemaphoreImport) {
        let kmt = KmtHandle::new(0x40).expect("a handle");
        // SAFETY: the request is never passed to a driver.
        let memory = unsafe { MemoryImport::new(MemoryHandle::OpaqueWin32Kmt(kmt), 4096) };
        // SAFETY: as above.
        let semaphore = unsafe { SemaphoreImport::new(SemaphoreHandle::OpaqueWin32Kmt(kmt)) };
        (memory, semaphore)
    }

    #[test]
    fn a_later_exporter_does_not_undo_an_earlier_one() {
        let gpu = |byte| DeviceIdentity { uuid: Uuid::from_bytes([byte; 16]), ..Default::default() };
        let unknown = DeviceIdentity::default();
        for (said, importer, valid) in [
            ([gpu(1), gpu(1)], gpu(1), true),
            ([gpu(1), gpu(2)], gpu(1), false),
            ([gpu(1), gpu(2)], gpu(2), false),
            ([gpu(1), unknown.clone()], gpu(2), false),
            ([unknown.clone(), gpu(1)], gpu(2), false),
            ([unknown.clone(), unknown], gpu(2), true),
        ] {
            let [first, second] = said;
            let (memory, semaphore) = requests();
            let memory = memory.exported_by(first.clone()).exported_by(second.clone());
            let semaphore = semaphore.exported_by(first.clone()).exported_by(second);
            assert_eq!((memory.exporter(), semaphore.exporter()), (Some(&first), Some(&first)));
            for checked in [memory.origin.check("op", &importer), semaphore.origin.check("op", &importer)] {
                let kind = checked.err().map(|error| error.kind());
                assert_eq!(kind, (!valid).then_some(ErrorKind::DeviceMismatch), "{first}, {importer}");
            }
        }
    }

    #[test]
    fn owners_of_a_request_live_as_long_as_the_request() {
        let owners = [Arc::new(()), Arc::new(())];
        let counts = || owners.each_ref().map(Arc::strong_count);
        let (mut memory, mut semaphore) = requests();
        for owner in &owners {
            memory = memory.keeping(owner.clone());
            semaphore = semaphore.keeping(owner.clone());
        }
        assert_eq!(counts(), [3, 3]);
        drop(semaphore);
        assert_eq!(counts(), [2, 2]);
        drop(memory.into_handle());
        assert_eq!(counts(), [1, 1]);
    }
}
