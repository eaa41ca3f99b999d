//! Buffers in imported memory.

use std::ffi::c_uint;
use std::ops::RangeBounds;

use gpu_interop_core::{Error, Result, byte_range, check_buffer};

use crate::error;
use crate::functions::{integer, need};
use crate::memory::{ImportedMemory, object_in_memory};
use crate::sys;

/// An OpenGL buffer object whose data store is a range of imported memory. Deleted on drop.
///
/// Drivers cannot map such buffers: copy from and to them (`glCopyBufferSubData`), or use them in shaders.
#[doc(alias("glDeleteBuffers", "glCopyBufferSubData"))]
#[derive(Debug)]
pub struct ImportedBuffer {
    memory: ImportedMemory,
    name: c_uint,
    offset: u64,
    size: u64,
}

impl ImportedMemory {
    /// Creates a buffer over a range of the memory, in bytes; `..` is all of it. The exporter's driver determines the
    /// valid offsets (`VkMemoryRequirements::alignment`).
    ///
    /// Calls `glNamedBufferStorageMemEXT`; without direct state access, `glBufferStorageMemEXT`, and restores the
    /// binding of `GL_COPY_WRITE_BUFFER` afterwards.
    ///
    /// # Errors
    /// * `InvalidArgument`: an empty range, a range past the end or with texels of an image of optimal tiling, no current
    ///   context. The driver was not called.
    /// * `ImportRejected`: the driver accepted the import but has no memory behind the handle. `Unsupported`: the
    ///   driver supports no buffer at this offset. `OutOfMemory`, `Driver`.
    #[doc(alias(
        "glBufferStorageMemEXT",
        "glNamedBufferStorageMemEXT",
        "glCreateBuffers",
        "glGenBuffers",
        "glBindBuffer"
    ))]
    pub fn map_buffer(&self, range: impl RangeBounds<u64>) -> Result<ImportedBuffer> {
        const OPERATION: &str = "ImportedMemory::map_buffer";
        let interop = self.interop();
        let (offset, size) = byte_range(OPERATION, range, self.size())?;
        check_buffer(OPERATION, self.image(), offset, size)?;
        let bytes = isize::try_from(size).map_err(|_| {
            Error::invalid(OPERATION, "the range exceeds the address space of this process")
                .with_context("length", size)
        })?;
        interop.check_current(OPERATION)?;
        interop.check_offset(OPERATION, offset)?;
        // Created first, so that its drop deletes the name after any failure.
        let mut buffer = ImportedBuffer { memory: self.clone(), name: 0, offset, size };
        match &interop.functions().direct_access {
            Some(direct) => {
                // SAFETY: the context is current and has the function; `name` has space for one name.
                interop.named("glCreateBuffers", &mut buffer.name, |name| unsafe {
                    (direct.create_buffers)(1, name);
                })?;
                // SAFETY: buffer and memory belong to this context and are live, and the range is inside the memory.
                interop.call("glNamedBufferStorageMemEXT", error::storage, |_| unsafe {
                    (direct.buffer_storage)(buffer.name, bytes, self.as_raw(), offset);
                })
            }
            None => buffer.bind_storage(bytes),
        }
        .map_err(|error| error.with_context("offset", offset).with_context("length", size))?;
        Ok(buffer)
    }
}

impl ImportedBuffer {
    /// Creates name and storage through a binding point, then restores the binding.
    fn bind_storage(&mut self, bytes: isize) -> Result<()> {
        let interop = self.memory.interop().clone();
        let functions = need(&interop.functions().memory_object, "glBufferStorageMemEXT")?;
        let base = &interop.functions().base;
        let bound = integer(base, sys::COPY_WRITE_BUFFER).cast_unsigned();
        // SAFETY: the context is current; `name` has space for one name.
        interop.named("glGenBuffers", &mut self.name, |name| unsafe { (base.gen_buffers)(1, name) })?;
        // SAFETY: buffer and memory belong to this context and are live, and the range is inside the memory.
        let outcome = interop.call("glBufferStorageMemEXT", error::storage, |_| unsafe {
            (base.bind_buffer)(sys::COPY_WRITE_BUFFER, self.name);
            (functions.buffer_storage)(sys::COPY_WRITE_BUFFER, bytes, self.memory.as_raw(), self.offset);
        });
        // SAFETY: restores the earlier binding.
        unsafe { (base.bind_buffer)(sys::COPY_WRITE_BUFFER, bound) };
        outcome
    }

    /// Offset in the memory, bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

object_in_memory!(ImportedBuffer, "buffer", "glDeleteBuffers", delete_buffers);
