//! Buffers of the exporter.

use gpu_interop::vulkan::MemoryPlacement;
use gpu_interop::{Error, ErrorKind, MemoryImport};

use super::semaphore::{Exchange, Point, no_timelines};
use crate::outcome::{Stop, Verdict};
use crate::pattern::{Pattern, verify_bytes};

/// Placement of exported memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Host-visible: the exporter's host side maps it.
    HostVisible,
    /// Device-local: the exporter accesses it with GPU copies only.
    DeviceLocal,
}

impl From<Placement> for MemoryPlacement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::HostVisible => Self::HostVisible,
            Placement::DeviceLocal => Self::DeviceLocal,
        }
    }
}

/// The description of a requested object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSpec {
    /// Bytes.
    pub size: u64,
    /// Placement.
    pub placement: Placement,
    /// `true` if it is a dedicated allocation.
    pub dedicated: bool,
}

impl BufferSpec {
    /// A buffer that is device-local and not dedicated.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, placement: Placement::DeviceLocal, dedicated: false }
    }
}

/// Accesses to a buffer by the exporter's side.
pub trait BufferAccess: Send + Sync {
    /// The buffer's size, bytes; not more than the allocation's.
    fn size(&self) -> u64;

    /// Writes from the exporter's side, and blocks until completion.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn write(&self, offset: u64, data: &[u8]) -> Verdict;

    /// Reads from the exporter's side.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict;

    /// Fills the whole buffer with a pattern.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn put(&self, pattern: Pattern) -> Verdict {
        self.write(0, &pattern.bytes(0, usize::try_from(self.size())?))
    }

    /// Reads the whole buffer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn contents(&self) -> Verdict<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.size())?];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Checks that every byte of the buffer is that of a pattern.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if bytes differ: their number and the first one.
    fn verify(&self, pattern: Pattern, what: &str) -> Verdict {
        pattern.verify(0, &self.contents()?, what)
    }

    /// Checks that every byte of the buffer is `byte`.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    fn verify_all(&self, byte: u8, what: &str) -> Verdict {
        verify_bytes(&self.contents()?, byte, what)
    }

    /// Reads a 32-bit word.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn word(&self, offset: u64) -> Verdict<u32> {
        let mut word = [0; 4];
        self.read(offset, &mut word)?;
        Ok(u32::from_ne_bytes(word))
    }
}

/// A buffer allocated by the exporter.
pub trait ExportedBuffer: BufferAccess {
    /// Exports it as a new handle with the allocation's size, dedicated flag and exporter.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn import_request(&self) -> Verdict<MemoryImport>;

    /// Enqueues an exchange on the exporter's queue: waits until a timeline has reached `wait`, reads as many bytes as
    /// `data` has, writes `data`, and signals a timeline with `signal`. Does not block. The queue executes its work in
    /// order.
    ///
    /// # Errors
    /// If the exporter's driver fails; [`Stop::unsupported`] if this exporter has no timelines.
    fn exchange(&self, _wait: Point<'_>, _data: &[u8], _signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        Err(no_timelines())
    }

    /// As [`exchange`](Self::exchange), on the exporter's queue for copies alone, if it has one: that needs no switch
    /// between the contexts of the GPU's graphics and compute engine. Exchanges on the two queues are ordered by their
    /// timelines only.
    ///
    /// # Errors
    /// As for [`exchange`](Self::exchange).
    fn exchange_by_copying(&self, wait: Point<'_>, data: &[u8], signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        self.exchange(wait, data, signal)
    }
}

/// The outcome of a failed allocation: skipped above 4 GiB, which some devices lack.
pub(super) fn too_great(size: u64, error: Error) -> Stop {
    if error.kind() == ErrorKind::OutOfMemory && size > 1 << 32 {
        return Stop::skipped(format!("needs a device with {} MiB of free memory: {error}", size >> 20));
    }
    Stop::from(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::StopKind;

    /// A failure is not taken for a device that is too small.
    #[test]
    fn only_memory_that_many_devices_lack_is_skipped() {
        let of = |size, kind| too_great(size, Error::new(kind, "allocate", "a reason")).kind;
        assert_eq!(of((1 << 32) + 1, ErrorKind::OutOfMemory), StopKind::Skipped);
        assert_eq!(of(1 << 32, ErrorKind::OutOfMemory), StopKind::Failed);
        for kind in [ErrorKind::Driver, ErrorKind::Unsupported, ErrorKind::DeviceLost] {
            assert_eq!(of(1 << 33, kind), StopKind::Failed, "{kind:?}");
        }
    }
}
