//! Buffers with their memory.

use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::error::Checked;
use crate::heap::space::Lease;
use crate::interop::VulkanInterop;
use crate::memory::{Backing, Memory, Needs, Sharing};
use crate::placement::MemoryPlacement;
use crate::tracking::{Object, Ownership, State};

/// A `VkBuffer` bound to its own `VkDeviceMemory`, or to a range of that of a [`SharedHeap`](crate::SharedHeap). The
/// buffer is destroyed and its memory freed with the last clone.
///
/// The last clone must not be dropped while work submitted through ash uses the buffer; work submitted through
/// [`HeadlessContext`](crate::HeadlessContext) keeps its buffers alive.
///
/// [`HeadlessContext`](crate::HeadlessContext) tracks the owner of a shared buffer:
///
/// * This device owns a new [`ExportableBuffer`](crate::ExportableBuffer). Release it
///   ([`Recording::release`](crate::Recording::release)) before the other API uses it, even if the other API writes it
///   first.
/// * The other API owns a new [`ImportedBuffer`](crate::ImportedBuffer).
///   [`Recording::acquire`](crate::Recording::acquire) makes this device the owner.
/// * The other API owns a released buffer until it is acquired again, even if it is then overwritten as a whole.
///
/// Commands out of this order are rejected before they are recorded. The state changes when commands are submitted, not
/// when they are recorded. It covers commands only: [`read`](Self::read) and [`write`](Self::write) are host accesses,
/// and see the other API's writes after an acquire. Commands submitted through ash do not change the state; see
/// [`assume_acquired`](Self::assume_acquired) and [`assume_released`](Self::assume_released).
#[derive(Debug, Clone)]
pub struct OwnedBuffer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Field order is drop order: the buffer is destroyed before its memory, also after a failed bind.
    buffer: Unbound,
    memory: Backing,
    /// Owner of a shared buffer after the submitted commands.
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

/// Rejects sizes and usages that no buffer of the device has, before the device is queried.
pub(crate) fn check(
    operation: &'static str,
    interop: &VulkanInterop,
    size: u64,
    usage: vk::BufferUsageFlags,
) -> Result<()> {
    if size == 0 {
        return Err(Error::invalid(operation, "the buffer's size is 0 bytes; request at least 1"));
    }
    interop.check_buffer_usage(operation, usage)
}

impl Unbound {
    /// Creates the buffer. The caller has [`check`]ed size and usage.
    pub(crate) fn new(
        interop: &VulkanInterop,
        size: u64,
        usage: vk::BufferUsageFlags,
        external: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<Self> {
        const OPERATION: &str = "vkCreateBuffer";
        interop.check_process(OPERATION)?;
        let mut external_info = vk::ExternalMemoryBufferCreateInfo::default().handle_types(external);
        let mut info = vk::BufferCreateInfo::default().size(size).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        if !external.is_empty() {
            info = info.push_next(&mut external_info);
        }
        // SAFETY: the device is live (`VulkanInterop::new`); the caller has checked that the size is not 0, and that
        // the device has the usage and can share such buffers.
        let raw = unsafe { interop.device().create_buffer(&info, None) }
            .checked(OPERATION)
            .map_err(|error| error.with_device(interop.identity()).with_context("size", size))?;
        Ok(Self { interop: interop.clone(), raw, size, usage })
    }

    pub(crate) fn needs(&self) -> Needs {
        // SAFETY: this object owns the buffer, which was created with this size and usage.
        unsafe { Needs::of_buffer(&self.interop, self.raw, self.size, self.usage) }
    }

    /// Binds memory that was allocated for [`needs`](Self::needs). `state` is the initial owner of a shared buffer.
    pub(crate) fn bind(self, memory: Memory, state: Option<State>) -> Result<OwnedBuffer> {
        self.bind_to(Backing::Own(memory), state)
    }

    /// Binds a range of a heap's memory, which was allocated for such buffers and has the size and alignment of
    /// [`needs`](Self::needs). This device owns the buffer.
    pub(crate) fn bind_lease(self, lease: Arc<Lease>) -> Result<OwnedBuffer> {
        let memory = Backing::of_lease(lease, self.size);
        self.bind_to(memory, Some(State::Owned))
    }

    fn bind_to(self, memory: Backing, state: Option<State>) -> Result<OwnedBuffer> {
        let ownership = state.map(|state| Arc::new(Ownership::new(Object::Buffer, self.raw, state)));
        // Built before the bind, so that a failure drops both in the right order.
        let inner = Inner { buffer: self, memory, ownership };
        let (device, memory) = (inner.buffer.interop.device(), &inner.memory);
        // SAFETY: both objects belong to this crate and to one device, and the buffer is not bound yet; the memory's type
        // and size, and the offset's alignment fit the buffer, which was created for the memory's handle type if that is
        // shared; the allocation is dedicated to this buffer, or to nothing where the driver does not require
        // dedication; no live buffer is bound to the same range.
        unsafe { device.bind_buffer_memory(inner.buffer.raw, memory.as_raw(), memory.offset()) }
            .checked("vkBindBufferMemory")
            .map_err(|error| error.with_device(inner.buffer.interop.identity()))?;
        Ok(OwnedBuffer { inner: Arc::new(inner) })
    }
}

memory_accessors!(OwnedBuffer, buffer);

impl OwnedBuffer {
    /// Creates a buffer of `size` bytes that is not shared, for staging and scratch.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0 or no usage,
    /// `OutOfMemory`, `Unsupported` if the device has no memory of this placement or not the usage. Calls `vkCreateBuffer`,
    /// `vkAllocateMemory`, `vkBindBufferMemory` and `vkMapMemory`.
    pub fn new(
        interop: &VulkanInterop,
        size: u64,
        usage: vk::BufferUsageFlags,
        placement: MemoryPlacement,
    ) -> Result<Self> {
        check("OwnedBuffer::new", interop, size, usage)?;
        let buffer = Unbound::new(interop, size, usage, vk::ExternalMemoryHandleTypeFlags::empty())?;
        let memory = Memory::new(interop, &buffer.needs(), &Sharing::None, placement, false)?;
        buffer.bind(memory, None)
    }

    /// The `VkBuffer`, valid as long as a clone of this object lives.
    #[must_use]
    pub fn as_raw(&self) -> vk::Buffer {
        self.inner.buffer.raw
    }

    /// The buffer's size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.buffer.size
    }

    /// The buffer's offset in [`memory`](Self::memory), bytes: 0 unless a [`SharedHeap`](crate::SharedHeap) allocated it.
    #[must_use]
    pub fn memory_offset(&self) -> u64 {
        self.inner.memory.offset()
    }

    /// The usage that the buffer was created with.
    #[must_use]
    pub fn usage(&self) -> vk::BufferUsageFlags {
        self.inner.buffer.usage
    }

    /// Copies `out.len()` bytes starting at byte `offset` to `out`. The memory is coherent, so nothing is flushed; the
    /// caller must have waited for the last writer.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is not host-visible,
    /// or the range exceeds it.
    #[doc(alias("vkMapMemory", "vkInvalidateMappedMemoryRanges"))]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "OwnedBuffer::read";
        self.inner.memory.mapping(OPERATION)?.read(OPERATION, offset, out)
    }

    /// Copies `data` to the buffer at byte `offset`. Later submissions see it. The other API sees it only after a release
    /// that follows: on NVIDIA it may find the bytes from before in the cache of the GPU.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is not host-visible,
    /// or the range exceeds it.
    #[doc(alias("vkMapMemory", "vkFlushMappedMemoryRanges"))]
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        const OPERATION: &str = "OwnedBuffer::write";
        self.inner.memory.mapping(OPERATION)?.write(OPERATION, offset, data)
    }

    /// Declares that the context's queue family owns the buffer, after an acquire that the application submitted itself
    /// ([`record_acquire`](Self::record_acquire)). The buffer can then be used and released. No effect on a buffer that
    /// is not shared.
    ///
    /// Call it before recording the commands that rely on it. A recording in progress that has already used the buffer
    /// does not see the change, and its submission fails.
    ///
    /// # Safety
    /// The declaration must hold when the commands recorded next execute.
    pub unsafe fn assume_acquired(&self) {
        self.assume(State::Owned);
    }

    /// Declares that the other API owns the buffer, after a release that the application submitted itself
    /// ([`record_release`](Self::record_release)). The buffer can then be acquired. Otherwise as
    /// [`assume_acquired`](Self::assume_acquired).
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

    /// The tracked owner; `None` if the buffer is not shared.
    pub(crate) fn ownership(&self) -> Option<&Arc<Ownership>> {
        self.inner.ownership.as_ref()
    }

    pub(crate) fn memory_object(&self) -> &Memory {
        self.inner.memory.memory()
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        if self.interop.is_forked() {
            return;
        }
        // SAFETY: this object owns the buffer, which is live; nothing uses it any more, by the contract of
        // `OwnedBuffer`.
        unsafe { self.interop.device().destroy_buffer(self.raw, None) };
    }
}
