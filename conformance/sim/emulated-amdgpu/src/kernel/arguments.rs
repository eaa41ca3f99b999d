//! Arguments of a kernel: little-endian values at natural offsets.

/// The first `N` bytes of a kernel's arguments.
#[derive(Debug)]
pub(super) struct Arguments<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Arguments<N> {
    fn bytes<const M: usize>(&self, offset: usize) -> [u8; M] {
        // An offset out of range is an error in a layout below, detected by its first launch.
        self.0.get(offset..offset + M).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; M])
    }

    pub(super) fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(offset))
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }
}
