//! Buffers on imported memory, and imported semaphores.

use ash::vk;
use gpu_interop_core::{Error, ImportError, MemoryHandleKind, MemoryImport, Result, SemaphoreImport, SemaphorePayload};

use crate::buffer::{self, OwnedBuffer, Unbound};
use crate::handles::{Importable, ImportableSemaphore};
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Needs, Sharing};
use crate::placement::{MemoryPlacement, memory_type};
use crate::query::{ExternalFeatures, memory_handle_type, semaphore_handle_type};
use crate::semaphore::OwnedSemaphore;
use crate::tracking::State;

/// The operations in errors.
const BUFFER: &str = "ImportedBuffer::new";
const SEMAPHORE: &str = "ImportedSemaphore::new";

/// Options of an [`ImportedBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferImportOptions {
    /// The buffer's size, bytes; at most the size of the imported allocation.
    pub size: u64,
    /// Vulkan's use of the buffer. Must be the exporter's usage for a dedicated allocation of Vulkan.
    pub usage: vk::BufferUsageFlags,
    /// Placement that the exporter used. Vulkan requires the same memory type on both sides; the same placement and
    /// usage select the same type on the same device.
    pub memory: MemoryPlacement,
    /// The exporter's memory type, if known; overrides the selection by placement.
    pub memory_type: Option<u32>,
}

impl BufferImportOptions {
    /// Options for a buffer of `size` bytes for `usage` in device-local memory.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { size, usage, memory: MemoryPlacement::DeviceLocal, memory_type: None }
    }
}

setters! {
    BufferImportOptions {
        /// Sets the placement that the exporter used.
        memory: MemoryPlacement;
        /// Sets the memory type that the exporter used.
        memory_type: u32;
    }
}

/// A buffer on memory that was exported elsewhere. Destroyed on drop; the exporter's memory is unaffected.
#[derive(Debug, Clone)]
pub struct ImportedBuffer {
    buffer: OwnedBuffer,
}

impl ImportedBuffer {
    /// Imports memory and binds a new buffer to it at offset 0. Calls `vkAllocateMemory` with `VkImportMemoryFdInfoKHR`
    /// or `VkImportMemoryWin32HandleInfoKHR`.
    ///
    /// The other API owns the buffer: acquire it ([`Recording::acquire`](crate::Recording::acquire)) before commands
    /// use it, even to write it first. A Vulkan exporter has released it by then.
    ///
    /// On success the import owns the handle. On failure the request is returned with its handle open, whatever the
    /// driver did: the driver only gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: a size of 0 or no usage; a buffer larger than the allocation; a dedicated allocation of
    ///   another size than the buffer needs; a descriptor that is closed or cannot be GPU memory; a missing dedicated
    ///   flag that the device or the driver requires; an unfit memory type. The driver was not called.
    /// * `Unsupported`: the device does not import this kind. The driver was not called.
    /// * `DeviceMismatch`: the request names another exporter. The driver was not called.
    /// * `ImportRejected` or `OutOfMemory`: the driver rejected the import. Drivers also report "out of memory" for a
    ///   size larger than the exported allocation.
    #[doc(alias(
        "VkImportMemoryFdInfoKHR",
        "VkImportMemoryWin32HandleInfoKHR",
        "vkGetMemoryFdPropertiesKHR",
        "vkGetMemoryWin32HandlePropertiesKHR"
    ))]
    pub fn new(
        interop: &VulkanInterop,
        request: MemoryImport,
        options: &BufferImportOptions,
    ) -> Result<Self, ImportError<MemoryImport>> {
        match import_buffer(interop, &request, options) {
            Ok(buffer) => Ok(Self { buffer }),
            Err(error) => Err(failed(error, interop, request)),
        }
    }

    /// The buffer itself.
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }
}

fn import_buffer(
    interop: &VulkanInterop,
    request: &MemoryImport,
    options: &BufferImportOptions,
) -> Result<OwnedBuffer> {
    let incoming = Incoming::new(BUFFER, interop, request)?;
    buffer::check(BUFFER, interop, options.size, options.usage)?;
    if options.size > request.size() {
        return Err(Error::invalid(BUFFER, "the buffer is larger than the imported memory")
            .with_context("buffer", format_args!("{} bytes", options.size)));
    }
    if request.is_dedicated() && request.image().is_some() {
        return Err(Error::invalid(BUFFER, "the memory is dedicated to an image; import it as an `ImportedImage`"));
    }
    request.check_buffer(BUFFER, ..options.size)?;
    let features = interop.buffer_features(incoming.kind(), options.usage)?;
    let types = incoming
        .handle_type(&features)
        .map_err(|error| error.with_context("usage", format_args!("{:?}", options.usage)))?;
    let buffer = Unbound::new(interop, options.size, options.usage, types)?;
    let memory = incoming.allocate(&buffer.needs(), types, options.memory, options.memory_type)?;
    // The other API owns the buffer until it is acquired.
    buffer.bind(memory, Some(State::External))
}

/// An import request that passed every check that needs no buffer or image.
pub(crate) struct Incoming<'a> {
    operation: &'static str,
    interop: &'a VulkanInterop,
    request: &'a MemoryImport,
    handle: Importable<'a>,
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(operation: &'static str, interop: &'a VulkanInterop, request: &'a MemoryImport) -> Result<Self> {
        let handle = Importable::new(operation, request.handle())?;
        request.validate(operation, interop.identity())?;
        if request.is_native_of_the_cpu() {
            return Err(Error::unsupported(
                operation,
                "memory of a CPU backend cannot be imported into Vulkan; export it from Vulkan and import it into the backend",
            ));
        }
        Ok(Self { operation, interop, request, handle })
    }

    pub(crate) fn kind(&self) -> MemoryHandleKind {
        self.request.handle().kind()
    }

    /// Vulkan's flag for the kind, if the device imports it for this object.
    pub(crate) fn handle_type(
        &self,
        features: &ExternalFeatures<MemoryHandleKind>,
    ) -> Result<vk::ExternalMemoryHandleTypeFlags> {
        let Some(types) = memory_handle_type(self.kind()).filter(|_| features.importable) else {
            return Err(Error::unsupported(
                self.operation,
                "the device does not import this kind of handle for this object",
            ));
        };
        if features.dedicated_only && !self.request.is_dedicated() {
            return Err(Error::invalid(
                self.operation,
                "the device imports this kind only as a dedicated allocation; set the flag",
            ));
        }
        Ok(types)
    }

    /// Imports the memory for an object with these requirements. The driver gets a duplicate of a descriptor.
    pub(crate) fn allocate(
        self,
        needs: &Needs,
        types: vk::ExternalMemoryHandleTypeFlags,
        placement: MemoryPlacement,
        wanted_type: Option<u32>,
    ) -> Result<Memory> {
        let Self { operation, interop, request, handle } = self;
        check_needs(operation, request, needs)?;
        let lent = handle.lend()?;
        let importable = lent.memory_types(interop, request.handle().kind(), types)?;
        let allowed = needs.requirements.memory_type_bits & importable;
        let memory_type = memory_type(interop, allowed, placement, wanted_type)?;
        let sharing = Sharing::Import(types, &lent);
        let outcome = Memory::allocate(interop, needs, &sharing, request.size(), memory_type, request.is_dedicated());
        let mut memory = lent.finish(outcome)?;
        memory.map(needs, placement)?;
        Ok(memory)
    }
}

/// Checks that the object can be bound to this memory, by size and dedicated flag.
fn check_needs(operation: &'static str, request: &MemoryImport, needs: &Needs) -> Result<()> {
    if needs.requires_dedicated && !request.is_dedicated() {
        return Err(Error::invalid(
            operation,
            "the driver requires a dedicated allocation for this object; export one and set the flag",
        ));
    }
    let needed = needs.requirements.size;
    let fits = if request.is_dedicated() { needed == request.size() } else { needed <= request.size() };
    if fits {
        return Ok(());
    }
    Err(Error::invalid(operation, "the imported memory does not have the required size")
        .with_context("needed", format_args!("{needed} bytes"))
        .with_context("dedicated", request.is_dedicated()))
}

/// Returns the request with an error that describes it.
pub(crate) fn failed(error: Error, interop: &VulkanInterop, request: MemoryImport) -> ImportError<MemoryImport> {
    let error = error
        .with_device(interop.identity())
        .with_context("handle", request.handle().kind())
        .with_object_name(request.handle().as_win32())
        .with_context("import size", format_args!("{} bytes", request.size()));
    ImportError::new(error, request)
}

/// A semaphore that shares its payload with one that was exported elsewhere. Destroyed on drop; the exporter's
/// semaphore is unaffected.
#[derive(Debug, Clone)]
pub struct ImportedSemaphore {
    semaphore: OwnedSemaphore,
}

impl ImportedSemaphore {
    /// Imports a binary or timeline semaphore, permanently. Calls `vkImportSemaphoreFdKHR` with `OPAQUE_FD`, or
    /// `vkImportSemaphoreWin32HandleKHR`.
    ///
    /// On success the import owns the handle. On failure the request is returned with its handle open, whatever the
    /// driver did: the driver only gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: the descriptor is closed or cannot be a semaphore. The driver was not called.
    /// * `Unsupported`: the device does not import this kind, has no timeline semaphores, or
    ///   `VK_KHR_external_semaphore_fd` is not enabled. The driver was not called.
    /// * `DeviceMismatch`: the request names another exporter. The driver was not called.
    /// * `ImportRejected` or `OutOfMemory`: the driver rejected the import.
    #[doc(alias("vkImportSemaphoreFdKHR", "vkImportSemaphoreWin32HandleKHR"))]
    pub fn new(interop: &VulkanInterop, request: SemaphoreImport) -> Result<Self, ImportError<SemaphoreImport>> {
        match import_semaphore(interop, &request) {
            Ok(semaphore) => Ok(Self { semaphore }),
            Err(error) => {
                let handle = request.handle();
                let error = error
                    .with_device(interop.identity())
                    .with_context("handle", handle.kind())
                    .with_object_name(handle.as_win32());
                Err(ImportError::new(error, request))
            }
        }
    }

    #[cfg(unix)]
    pub(crate) fn of(semaphore: OwnedSemaphore) -> Self {
        Self { semaphore }
    }

    /// The semaphore itself.
    #[must_use]
    pub fn semaphore(&self) -> &OwnedSemaphore {
        &self.semaphore
    }
}

fn import_semaphore(interop: &VulkanInterop, request: &SemaphoreImport) -> Result<OwnedSemaphore> {
    let kind = request.handle().kind();
    let handle = ImportableSemaphore::new(SEMAPHORE, request.handle())?;
    request.validate(SEMAPHORE, interop.identity())?;
    if kind.payload() == SemaphorePayload::Timeline {
        interop.timeline(SEMAPHORE)?;
    }
    let features = interop.semaphore_features(kind)?;
    let Some(types) = semaphore_handle_type(kind).filter(|_| features.importable) else {
        return Err(Error::unsupported(SEMAPHORE, "the device does not import this kind of semaphore"));
    };
    interop.functions().semaphore(SEMAPHORE)?;
    let not_exported = vk::ExternalSemaphoreHandleTypeFlags::empty();
    let semaphore = OwnedSemaphore::create(SEMAPHORE, interop, kind.payload(), 0, not_exported)?;
    // SAFETY: the semaphore is live, has the payload type of the handle, and was just created, so nothing uses it.
    unsafe { handle.import(interop, semaphore.raw(), types) }?;
    semaphore.share();
    Ok(semaphore)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use gpu_interop_core::{ErrorKind, MemoryHandle};

    use super::*;

    #[test]
    fn memory_fits_by_size_and_by_dedication() {
        let message = |size, dedicated, requires_dedicated| {
            let file = std::fs::File::open("/dev/null").expect("open");
            let handle = MemoryHandle::OpaqueFd(file.into());
            // SAFETY: only its parameters are checked; it is not imported.
            let request = unsafe { MemoryImport::new(handle, size).dedicated(dedicated) };
            let outcome = check_needs("op", &request, &Needs::of_bytes(4096, requires_dedicated));
            outcome.map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                error.message().to_owned()
            })
        };
        // A dedicated allocation is allowed where the driver does not require one.
        for (size, dedicated, required) in [(4096, false, false), (8192, false, false), (4096, true, false)] {
            assert_eq!(message(size, dedicated, required), Ok(()));
        }
        assert_eq!(message(4096, true, true), Ok(()));
        for size in [4096, 8192] {
            let message = message(size, false, true).expect_err("not dedicated");
            assert!(message.contains("requires a dedicated allocation"), "{message}");
        }
        for (size, dedicated, required) in [(4095, false, false), (4095, true, true), (8192, true, false)] {
            let message = message(size, dedicated, required).expect_err("unfit");
            assert!(message.contains("required size"), "{message}");
        }
    }
}
