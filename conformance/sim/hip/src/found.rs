//! Memory as the runtime finds it by an address, and the functions that free it.

/// The memory at an address known to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The address that the runtime's copies, fills and words access, which may differ.
    pub(crate) address: usize,
    /// Size of the memory known to the runtime, offset of the address in it, and real size; bytes.
    pub(crate) size: usize,
    pub(crate) offset: usize,
    pub(crate) real: usize,
}

impl Found {
    /// Bytes from the address to the end.
    pub(crate) fn rest(&self) -> usize {
        self.size.saturating_sub(self.offset)
    }
}

/// Who frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// `hipFree`.
    Device,
    /// `hipHostFree`.
    Host,
}
