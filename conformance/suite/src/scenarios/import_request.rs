//! Malformed import requests with a valid descriptor.

use std::ptr::NonNull;
use std::time::Duration;

#[cfg(unix)]
use gpu_interop::handle::{KmtHandle, NtHandle, ObjectName};
use gpu_interop::handle::{NvSciBufObject, NvSciSyncObject};
use gpu_interop::{
    DeviceIdentity, DeviceKind, ErrorKind, MemoryHandle, MemoryImport, PciAddress, SemaphoreHandle, Uuid,
};

use super::{rejected, rejected_before_driver};
use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::leak_check::{keeps_descriptors, leak_check};
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq, request};

scenarios! {
    "import.size_zero", Any, "A size of 0 is rejected; the handle works afterwards.", size_zero,
        mirrors("hip-tests: hipImportExternalMemory_Vulkan_Negative_Parameters; \
             OpenCL-CTS: test_consistency_external_buffer");
    "import.size_too_large", Any,
        "A size beyond the allocation is rejected, at the import or at the mapping of the excess; the handle survives.",
        size_too_large;
    "import.size_overflow", Any, "Sizes near 2^64 are rejected; the handle works afterwards.", size_overflow;
    "import.kinds_of_other_systems", None,
        "Handle kinds of another operating system are unsupported, without a driver call, and the handle comes back.",
        kinds_of_other_systems, mirrors("hip-tests: hipImportExternalMemory_Vulkan_Negative_Parameters");
    "import.nvsci", None, "NvSci objects are rejected by a device that does not import them.", nvsci;
    "import.failure_keeps_handle", Any,
        "One handle survives every kind of failed import, and then imports with the right data.", failure_keeps_handle;
    "import.success_closes_handle", Any,
        "A successful import consumes the descriptor: as many are open as before the export.", success_closes_handle,
        mirrors("CUDA driver API: cuImportExternalMemory takes the descriptor");
    "import.failures_leak_nothing", Any, "1,000 failed imports leave descriptors, mappings and memory as before.",
        failures_leak_nothing;
}

pub(super) const SIZE: u64 = 8192;

pub(super) fn prepared(context: &Context) -> Verdict<Box<dyn ExportedBuffer>> {
    let buffer = context.buffer(SIZE)?;
    buffer.put(context.pattern())?;
    Ok(buffer)
}

/// The same handle with another size.
pub(super) fn resized(request: MemoryImport, size: u64) -> MemoryImport {
    let (dedicated, trusted) = (request.is_dedicated(), request.is_peer_trusted());
    let resized = request::memory_with(request.into_handle(), size, dedicated);
    // SAFETY: the memory is the other request's, with the same guarantees.
    unsafe { resized.trusted_peer(trusted) }
}

/// A device of another machine, by every identifier.
pub(super) fn somewhere_else() -> DeviceIdentity {
    DeviceIdentity::new("a card in another machine", DeviceKind::Gpu)
        .with_uuid(Uuid::from_bytes(*b"not in this host"))
        .with_pci(Some(PciAddress { domain: 0xfffe, bus: 0xff, device: 0x1f, function: 7 }))
}

/// Imports a returned handle and verifies every byte through it.
pub(super) fn works(context: &Context, request: MemoryImport) -> Verdict {
    let mapped = context.device().import_memory(request)?.map_buffer(0..SIZE)?;
    let stream = context.stream()?;
    context.pattern().verify(0, &context.read(&stream, &mapped)?, "data through the handle that came back")
}

fn size_zero(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    let request = buffer.import_request()?;
    let size = request.size();
    let result = context.device().import_memory(resized(request, 0));
    let (_, request) = rejected(result, &[ErrorKind::InvalidArgument], "a size of 0")?;
    works(context, resized(request, size))
}

fn size_too_large(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    for factor in [16, 1024] {
        let request = buffer.import_request()?;
        let size = request.size();
        match context.device().import_memory(resized(request, size * factor)) {
            Err(failure) => {
                ensure!(
                    matches!(
                        failure.kind(),
                        ErrorKind::InvalidArgument | ErrorKind::ImportRejected | ErrorKind::OutOfMemory
                    ),
                    "{factor} times the size: {failure}"
                );
                works(context, resized(failure.into_request(), size))?;
            }
            // CUDA accepts the import; then the missing range must not be mappable.
            Ok(memory) => {
                ensure!(memory.map_buffer(size..size * factor).is_err(), "missing memory was mapped");
            }
        }
    }
    Ok(())
}

fn size_overflow(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    for wild in [u64::MAX, u64::MAX - 4095, 1 << 63, i64::MAX.unsigned_abs()] {
        let request = buffer.import_request()?;
        let size = request.size();
        let kinds = [ErrorKind::InvalidArgument, ErrorKind::ImportRejected, ErrorKind::OutOfMemory];
        let (error, request) = rejected(context.device().import_memory(resized(request, wild)), &kinds, "a wild size")?;
        ensure!(error.to_string().contains(&wild.to_string()), "the text does not name the size: {error}");
        works(context, resized(request, size))?;
    }
    Ok(())
}

#[cfg(unix)]
fn kinds_of_other_systems(context: &Context) -> Verdict {
    // SAFETY: on systems without NT handles the value is never used or closed.
    let nt = || unsafe { NtHandle::from_raw(std::ptr::without_provenance_mut(0x1234)) };
    let memory = [
        MemoryHandle::OpaqueWin32(nt()?.into()),
        MemoryHandle::OpaqueWin32(ObjectName::new("Local\\conformance")?.into()),
        MemoryHandle::OpaqueWin32Kmt(KmtHandle::new(0x1234)?),
        MemoryHandle::D3d12Heap(nt()?.into()),
        MemoryHandle::D3d12Resource(nt()?.into()),
        MemoryHandle::D3d11Resource(nt()?.into()),
        MemoryHandle::D3d11ResourceKmt(KmtHandle::new(0x1234)?),
    ];
    for handle in memory {
        let kind = handle.kind();
        let request = request::memory_with(handle, 4096, kind.requires_dedicated());
        let (_, request) =
            rejected_before_driver(context.device().import_memory(request), &[ErrorKind::Unsupported], "memory")?;
        ensure_eq!(request.handle().kind(), kind, "the kind that came back");
    }
    let semaphores = [
        SemaphoreHandle::OpaqueWin32(nt()?.into()),
        SemaphoreHandle::OpaqueWin32Kmt(KmtHandle::new(0x1234)?),
        SemaphoreHandle::D3d12Fence(nt()?.into()),
        SemaphoreHandle::D3d11Fence(nt()?.into()),
        SemaphoreHandle::D3d11KeyedMutex(nt()?.into()),
        SemaphoreHandle::D3d11KeyedMutexKmt(KmtHandle::new(0x1234)?),
        SemaphoreHandle::TimelineWin32(ObjectName::new("Local\\timeline")?.into()),
    ];
    for handle in semaphores {
        let kind = handle.kind();
        let result = context.device().import_semaphore(request::semaphore(handle));
        let (_, request) = rejected(result, &[ErrorKind::Unsupported], "a semaphore")?;
        ensure_eq!(request.handle().kind(), kind, "the kind that came back");
    }
    Ok(())
}

/// Windows has no descriptors, and the types cannot be constructed there.
#[cfg(windows)]
fn kinds_of_other_systems(context: &Context) -> Verdict {
    for kind in [gpu_interop::MemoryHandleKind::OpaqueFd, gpu_interop::MemoryHandleKind::DmaBufFd] {
        ensure!(!context.device().capabilities().memory(kind).is_supported(), "{kind} is reported as supported");
    }
    for kind in [gpu_interop::SemaphoreHandleKind::OpaqueFd, gpu_interop::SemaphoreHandleKind::TimelineFd] {
        ensure!(!context.device().capabilities().semaphore(kind).is_supported(), "{kind} is reported as supported");
    }
    Ok(())
}

fn nvsci(context: &Context) -> Verdict {
    let kind = gpu_interop::MemoryHandleKind::NvSciBuf;
    if context.device().capabilities().memory(kind).is_supported() {
        return Err(Stop::skipped("the device imports NvSci objects, as `nvsci.*` shows".into()));
    }
    // SAFETY: the object is never dereferenced: the device does not import this kind.
    let object = unsafe { NvSciBufObject::from_raw(NonNull::dangling()) };
    let request = request::memory(MemoryHandle::NvSciBuf(object), 4096);
    let (_, request) =
        rejected_before_driver(context.device().import_memory(request), &[ErrorKind::Unsupported], "NvSciBuf")?;
    ensure_eq!(request.handle().kind(), kind, "the kind that came back");
    // SAFETY: as above.
    let object = unsafe { NvSciSyncObject::from_raw(NonNull::dangling()) };
    let result = context.device().import_semaphore(request::semaphore(SemaphoreHandle::NvSciSync(object)));
    rejected(result, &[ErrorKind::Unsupported], "NvSciSync")?;
    Ok(())
}

fn failure_keeps_handle(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    let request = buffer.import_request()?;
    let size = request.size();
    let result = context.device().import_memory(resized(request, 0));
    let (_, request) = rejected(result, &[ErrorKind::InvalidArgument], "a size of 0")?;
    let result = context.device().import_memory(resized(request, size).exported_by(somewhere_else()));
    let (_, request) = rejected(result, &[ErrorKind::DeviceMismatch], "another device")?;
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::ImportRejected, ErrorKind::OutOfMemory];
    let (_, request) = rejected(context.device().import_memory(resized(request, u64::MAX)), &kinds, "a wild size")?;
    works(context, resized(request, size))
}

fn success_closes_handle(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    // Resources of the first cycle may stay open.
    drop(context.import(&*buffer)?);
    (0..10).try_for_each(|_| {
        let import = || context.import(&*buffer).map(drop);
        keeps_descriptors(Duration::ZERO, "open descriptors after an import", import)
    })
}

fn failures_leak_nothing(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    leak_check(1000, |round| {
        let request = buffer.import_request()?;
        let wrong = if round % 2 == 0 { 0 } else { u64::MAX };
        let kinds = [ErrorKind::InvalidArgument, ErrorKind::ImportRejected, ErrorKind::OutOfMemory];
        let (_, request) = rejected(context.device().import_memory(resized(request, wrong)), &kinds, "a wrong size")?;
        ensure_eq!(request.size(), wrong, "the size of the request that came back");
        Ok(())
    })
}
