//! A buffer together with its memory.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::error::Checked;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Needs, Sharing};
use crate::placement::MemoryPlacement;
use crate::tracking::{Object, Ownership, State};

/// A `VkBuffer` bound at offset 0 of a `VkDeviceMemory` of its own. Destroyed with its memory once the last clone is
/// gone.
///
/// Dropping the last clone while submitted work still uses the buffer is an error of whoever submitted that work
/// through ash; work submitted through [`HeadlessContext`](crate::HeadlessContext) keeps what it uses alive.
///
/// [`HeadlessContext`](crate::HeadlessContext) keeps track of whose a shared buffer is:
///
/// * An [`ExportableBuffer`](crate::ExportableBuffer) is this device's at first. Release it
///   ([`Recording::release`](crate::Recording::release)) before the other side uses it, even if the other side is the
///   first to write it.
/// * An [`ImportedBuffer`](crate::ImportedBuffer) is the other side's at first:
///   [`Recording::acquire`](crate::Recording::acquire) makes it this device's.
/// * A released buffer is the other side's until it is acquired again, also where it is to be overwritten as a whole.
///
/// What is out of this order is refused before it is recorded. The state changes when commands are submitted, not when
/// they are recorded. It is about commands: [`read`](Self::read) and [`write`](Self::write) are the host's, which sees
/// what the other side wrote after an acquisition. Commands that an application submits through ash change nothing in
/// it; see [`assume_acquired`](Self::assume_acquired) and [`assume_released`](Self::assume_released).
#[derive(Debug, Clone)]
pub struct OwnedBuffer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: the buffer goes before its memory, also if the two could not be bound.
    buffer: Unbound,
    memory: Memory,
    /// Whose a shared buffer is after the commands that have been submitted.
    ownership: Option<Arc<Ownership>>,
}

/// A buffer without memory: the state between `vkCreateBuffer` and `vkBindBufferMemory`.
#[derive(Debug)]
pub(crate) struct Unbound {
    interop: VulkanInterop,
    raw: vk::Buffer,
    size: u64,
    usage: vk::BufferUsageFlags,
}

/// Refuses what no buffer is created with, before the device is asked about it.
pub(crate) fn check(operation: &'static str, size: u64, usage: vk::BufferUsageFlags) -> Result<()> {
    if size == 0 {
        return Err(Error::invalid(operation, "the buffer's size is 0 bytes; ask for at least one"));
    }
    if usage.is_empty() {
        return Err(Error::invalid(operation, NO_USAGE));
    }
    Ok(())
}

/// What no usage means to the user.
pub(crate) const NO_USAGE: &str = "the buffer has no usage; say what Vulkan uses it for, TRANSFER_SRC for example";

impl Unbound {
    /// The caller has [`check`]ed size and usage.
    pub(crate) fn new(
        interop: &VulkanInterop,
        size: u64,
        usage: vk::BufferUsageFlags,
        external: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<Self> {
        const OPERATION: &str = "vkCreateBuffer";
        let mut external_info = vk::ExternalMemoryBufferCreateInfo::default().handle_types(external);
        let mut info = vk::BufferCreateInfo::default().size(size).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        if !external.is_empty() {
            info = info.push_next(&mut external_info);
        }
        // SAFETY: the device is live (`VulkanInterop::new`); the caller has checked that size and usage are not empty, and
        // asked the device whether it shares such buffers.
        let raw = unsafe { interop.device().create_buffer(&info, None) }
            .checked(OPERATION)
            .map_err(|error| error.with_device(interop.identity()).with_context("size", size))?;
        Ok(Self { interop: interop.clone(), raw, size, usage })
    }

    pub(crate) fn needs(&self) -> Needs {
        // SAFETY: the buffer is this object's own, and was made with these.
        unsafe { Needs::of_buffer(&self.interop, self.raw, self.size, self.usage) }
    }

    /// Binds memory that was allocated for [`needs`](Self::needs). `state` is that of a shared buffer.
    pub(crate) fn bind(self, memory: Memory, state: Option<State>) -> Result<OwnedBuffer> {
        let ownership = state.map(|state| Arc::new(Ownership::new(Object::Buffer, state)));
        // Put together first, so that a failure too drops them in the right order.
        let inner = Inner { buffer: self, memory, ownership };
        // SAFETY: both are this crate's own, of one device, and neither is bound yet; the memory's type and size fit
        // the buffer, which was created for the memory's kind of handle if that is shared; the memory is a dedicated
        // allocation for this buffer, or for none where the driver demands none.
        unsafe { inner.buffer.interop.device().bind_buffer_memory(inner.buffer.raw, inner.memory.as_raw(), 0) }
            .checked("vkBindBufferMemory")
            .map_err(|error| error.with_device(inner.buffer.interop.identity()))?;
        Ok(OwnedBuffer { inner: Arc::new(inner) })
    }
}

impl OwnedBuffer {
    /// A buffer of `size` bytes that is not shared, for staging and scratch.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0 or no usage,
    /// `OutOfMemory`, `Unsupported` if the device has no memory in this place. Rests on `vkCreateBuffer`,
    /// `vkAllocateMemory`, `vkBindBufferMemory` and `vkMapMemory`.
    pub fn new(
        interop: &VulkanInterop,
        size: u64,
        usage: vk::BufferUsageFlags,
        placement: MemoryPlacement,
    ) -> Result<Self> {
        check("OwnedBuffer::new", size, usage)?;
        let buffer = Unbound::new(interop, size, usage, vk::ExternalMemoryHandleTypeFlags::empty())?;
        let memory = Memory::new(interop, &buffer.needs(), &Sharing::None, placement, false)?;
        buffer.bind(memory, None)
    }

    /// The `VkBuffer`, valid as long as a clone of this object lives.
    #[must_use]
    pub fn as_raw(&self) -> vk::Buffer {
        self.inner.buffer.raw
    }

    /// The `VkDeviceMemory`, valid as long as a clone of this object lives. Host-visible memory is mapped already;
    /// mapping it again is an error.
    #[must_use]
    pub fn memory(&self) -> vk::DeviceMemory {
        self.inner.memory.as_raw()
    }

    /// The buffer's size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.buffer.size
    }

    /// What it was created to be used for.
    #[must_use]
    pub fn usage(&self) -> vk::BufferUsageFlags {
        self.inner.buffer.usage
    }

    /// The size of the memory behind it, bytes: what an importer must be told.
    #[must_use]
    pub fn allocation_size(&self) -> u64 {
        self.inner.memory.size()
    }

    /// The index of its memory type among [`VulkanInterop::memory_types`].
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.inner.memory.memory_type()
    }

    /// Whether the memory is a dedicated allocation, which an importer must be told.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.inner.memory.is_dedicated()
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.inner.buffer.interop
    }

    /// The address of the first byte, if the buffer is host-visible. Valid as long as a clone of this object lives.
    #[must_use]
    pub fn mapped_ptr(&self) -> Option<NonNull<u8>> {
        self.inner.memory.mapped_ptr()
    }

    /// Copies `out.len()` bytes from byte `offset` on. The memory is coherent, so nothing is flushed; it is the
    /// caller's to have waited for whoever wrote it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is not host-visible,
    /// or the range goes past its end.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "OwnedBuffer::read";
        self.inner.memory.mapping(OPERATION)?.read(OPERATION, offset, out)
    }

    /// Copies `data` to byte `offset`. Work submitted later sees it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is not host-visible,
    /// or the range goes past its end.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        const OPERATION: &str = "OwnedBuffer::write";
        self.inner.memory.mapping(OPERATION)?.write(OPERATION, offset, data)
    }

    /// Says that the buffer belongs to the context's queue family now, after commands of the application's own that
    /// [`HeadlessContext`](crate::HeadlessContext) does not know of: an acquisition ([`record_acquire`](Self::record_acquire)). It can be
    /// used and released then. Says nothing about a buffer that is not shared.
    ///
    /// Said before the commands that rely on it are recorded, and not of a buffer that a recording under way has used:
    /// that recording would not notice, and its submission be refused.
    ///
    /// # Safety
    /// It must be true by the time the commands run that are recorded next.
    pub unsafe fn assume_acquired(&self) {
        self.assume(State::Owned);
    }

    /// Says that the buffer belongs to the other side now, after a release of the application's own
    /// ([`record_release`](Self::record_release)) that [`HeadlessContext`](crate::HeadlessContext) does not know of. It can be acquired
    /// then. Otherwise as [`assume_acquired`](Self::assume_acquired).
    ///
    /// # Safety
    /// As [`assume_acquired`](Self::assume_acquired).
    pub unsafe fn assume_released(&self) {
        self.assume(State::External);
    }

    fn assume(&self, state: State) {
        if let Some(ownership) = self.ownership() {
            ownership.set(state);
        }
    }

    /// Whose the buffer is; `None` if it is not shared.
    pub(crate) fn ownership(&self) -> Option<&Arc<Ownership>> {
        self.inner.ownership.as_ref()
    }

    pub(crate) fn memory_object(&self) -> &Memory {
        &self.inner.memory
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        // SAFETY: the buffer is this object's own and live; nothing uses it any more, by the contract of `OwnedBuffer`.
        unsafe { self.interop.device().destroy_buffer(self.raw, None) };
    }
}
