//! Imports of memory for a buffer or an image: checks of the request, then the allocation.

use ash::vk;
use gpu_interop_core::{Error, ImportError, MemoryHandleKind, MemoryImport, Result};

use crate::handles::Importable;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Needs, Sharing};
use crate::placement::{MemoryPlacement, memory_type};
use crate::query::{ExternalFeatures, memory_handle_type};

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
