//! Memory as the runtime finds it by an address, and the functions that free it.

/// Memory at an address that the runtime knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where the runtime's own copies, fills and words go, which is not always the address.
    pub(crate) address: usize,
    /// Bytes of the memory as the runtime has it, before the address, and of the memory as it is.
    pub(crate) size: usize,
    pub(crate) offset: usize,
    pub(crate) real: usize,
}

impl Found {
    /// How many bytes there are from the address on.
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
