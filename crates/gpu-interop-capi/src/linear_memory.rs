//! Linear device memory of every origin.

use gpu_interop::{BorrowedMemory, BufferSlice, ExportableMemory, MappedBuffer, Result};

/// Memory behind a `gpi_buffer`.
#[derive(Debug)]
pub(crate) enum LinearMemory {
    /// A mapped range of imported memory.
    Mapped(MappedBuffer),
    /// Exportable memory of the device.
    Exportable(ExportableMemory),
    /// Memory of the application.
    Borrowed(BorrowedMemory),
}

impl LinearMemory {
    /// All of it.
    pub(crate) fn whole(&self) -> BufferSlice<'_> {
        match self {
            Self::Mapped(memory) => memory.into(),
            Self::Exportable(memory) => memory.into(),
            Self::Borrowed(memory) => memory.into(),
        }
    }

    /// Releases it, and returns the driver's error.
    pub(crate) fn close(self) -> Result<()> {
        match self {
            Self::Mapped(memory) => memory.close(),
            Self::Exportable(memory) => memory.close(),
            Self::Borrowed(_) => Ok(()),
        }
    }
}
