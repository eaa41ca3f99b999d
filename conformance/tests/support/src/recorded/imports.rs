//! Expected arguments of the driver's import functions. Used by the backends' tests.

use gpu_interop_core::backend::{RawMemory, RawSemaphore};
use gpu_interop_core::handle::{KmtHandle, NvSciBufObject, NvSciSyncObject, ObjectName, Win32Object};
use gpu_interop_core::{BackendDevice, MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport};

use super::recorder::{MEMORY, Recorder, SEMAPHORE};
use super::values::{SIZE, file, pointer};
use crate::call;

fn name(text: &str) -> Win32Object {
    Win32Object::Name(ObjectName::new(text).expect("a name"))
}

fn kmt(value: usize) -> KmtHandle {
    KmtHandle::new(value).expect("a handle")
}

/// Each handle kind has its number and its member of the union; the other bytes of the union and the reserved fields
/// are 0.
pub fn memory(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let fd = "fd of 4096 bytes, close-on-exec 1, rest 0";
    // SAFETY: the mock reads nothing behind the address.
    let nv_sci = unsafe { NvSciBufObject::from_raw(pointer(0x5c1)) };
    // HIP has no number for dma-bufs and inspects the file descriptor.
    let dma_buf = recorder.pick(9, 1);
    let kinds = [
        (MemoryHandle::OpaqueFd(file(SIZE)), 1, fd),
        (MemoryHandle::OpaqueWin32(name("opaque")), 2, "handle 0, name opaque"),
        (MemoryHandle::OpaqueWin32Kmt(kmt(0x41)), 3, "handle 0x41"),
        (MemoryHandle::D3d12Heap(name("heap")), 4, "handle 0, name heap"),
        (MemoryHandle::D3d12Resource(name("resource 12")), 5, "handle 0, name resource 12"),
        (MemoryHandle::D3d11Resource(name("resource 11")), 6, "handle 0, name resource 11"),
        (MemoryHandle::D3d11ResourceKmt(kmt(0x42)), 7, "handle 0x42"),
        (MemoryHandle::NvSciBuf(nv_sci), 8, "handle 0x5c1"),
        (MemoryHandle::DmaBufFd(file(SIZE)), dma_buf, fd),
    ];
    for (handle, number, shown) in kinds {
        // SAFETY: the mock imports nothing.
        let request = unsafe { MemoryImport::new(handle, SIZE) };
        import_one(device, recorder, &request, number, shown, false);
        // SAFETY: the mock imports nothing.
        let request = unsafe { request.dedicated(true) };
        import_one(device, recorder, &request, number, shown, true);
    }
}

fn import_one(
    device: &dyn BackendDevice,
    recorder: &mut Recorder,
    request: &MemoryImport,
    number: u32,
    shown: &str,
    dedicated: bool,
) {
    // SAFETY: the mock imports nothing; the memory is not used.
    let memory = unsafe { device.import_memory(request) }.expect("imports");
    assert_eq!(memory, RawMemory::new(MEMORY));
    let flags = u32::from(dedicated);
    let import = call!(
        "cuImportExternalMemory",
        "hipImportExternalMemory",
        "{{type {number}, {shown}, size 4096, flags {flags}, reserved 0}}"
    );
    recorder.entered("an import", &[import]);
    // SAFETY: imported above, and destroyed once.
    unsafe { device.destroy_memory(memory) }.expect("destroys");
    let destroy = call!("cuDestroyExternalMemory", "hipDestroyExternalMemory", "{MEMORY:#x}");
    recorder.entered("the end of an import", &[destroy]);
    if let Some(fd) = request.handle().as_fd() {
        assert!(rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size == 4096), "the request keeps its file descriptor");
    }
}

pub fn semaphores(device: &dyn BackendDevice, recorder: &mut Recorder) {
    let fd = "fd of 4096 bytes, close-on-exec 1, rest 0";
    // SAFETY: the mock reads nothing behind the address.
    let nv_sci = unsafe { NvSciSyncObject::from_raw(pointer(0x5c2)) };
    let of_timeline = recorder.pick(10, 2);
    let kinds = [
        (SemaphoreHandle::OpaqueFd(file(SIZE)), 1, fd),
        (SemaphoreHandle::OpaqueWin32(name("opaque")), 2, "handle 0, name opaque"),
        (SemaphoreHandle::OpaqueWin32Kmt(kmt(0x51)), 3, "handle 0x51"),
        (SemaphoreHandle::D3d12Fence(name("fence 12")), 4, "handle 0, name fence 12"),
        (SemaphoreHandle::D3d11Fence(name("fence 11")), 5, "handle 0, name fence 11"),
        (SemaphoreHandle::NvSciSync(nv_sci), 6, "handle 0x5c2"),
        (SemaphoreHandle::D3d11KeyedMutex(name("mutex")), 7, "handle 0, name mutex"),
        (SemaphoreHandle::D3d11KeyedMutexKmt(kmt(0x52)), 8, "handle 0x52"),
        (SemaphoreHandle::TimelineFd(file(SIZE)), 9, fd),
        // HIP rejects its header's number for timelines.
        (SemaphoreHandle::TimelineWin32(name("timeline")), of_timeline, "handle 0, name timeline"),
    ];
    for (handle, number, shown) in kinds {
        // SAFETY: the mock imports nothing.
        let semaphore = unsafe { device.import_semaphore(&SemaphoreImport::new(handle)) }.expect("imports");
        assert_eq!(semaphore, RawSemaphore::new(SEMAPHORE));
        let arguments = format!("{{type {number}, {shown}, flags 0, reserved 0}}");
        let import = call!("cuImportExternalSemaphore", "hipImportExternalSemaphore", "{arguments}");
        recorder.entered("an import of a semaphore", &[import]);
        // SAFETY: imported above, and destroyed once.
        unsafe { device.destroy_semaphore(semaphore) }.expect("destroys");
        let destroy = call!("cuDestroyExternalSemaphore", "hipDestroyExternalSemaphore", "{SEMAPHORE:#x}");
        recorder.entered("the end of a semaphore", &[destroy]);
    }
}
