//! Export of memory and semaphores by their Vulkan handles.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::{USAGE, assert_same, contents, pattern, vulkan};
use gpu_interop_core::{ErrorKind, MemoryHandleKind, SemaphoreHandleKind};
use gpu_interop_vulkan::{
    BufferImportOptions, BufferOptions, ExportableBuffer, ExportableSemaphore, ImportedBuffer, ImportedSemaphore,
    RawMemory,
};

#[test]
fn exported_memory_has_the_data_and_description_of_the_original() {
    let Some(context) = vulkan() else { return };
    let interop = context.interop();
    let original = ExportableBuffer::new(interop, &BufferOptions::new(4096, USAGE).dedicated(true)).expect("create");
    let data = pattern(7, 4096);
    context.upload(original.buffer(), 0, &data).expect("upload");
    context.release(original.buffer()).expect("release");
    let buffer = original.buffer();
    let raw = RawMemory::new(buffer.memory(), buffer.allocation_size()).dedicated(buffer.is_dedicated());
    // SAFETY: the buffer's own live memory, with its size and flag.
    let request = unsafe { interop.export_memory(&raw) }.expect("export");
    assert_eq!(request.size(), buffer.allocation_size());
    assert!(request.is_dedicated() && request.is_peer_trusted());
    assert_eq!(request.exporter(), Some(interop.identity()));
    let options = BufferImportOptions::new(4096, USAGE).memory_type(buffer.memory_type());
    let imported = ImportedBuffer::new(interop, request, &options).expect("import");
    context.acquire(imported.buffer()).expect("acquire");
    assert_same(&contents(&context, imported.buffer()), &data, "imported");
}

#[test]
fn exported_timelines_share_the_value_of_the_original() {
    let Some(context) = vulkan() else { return };
    let (interop, kind) = (context.interop(), SemaphoreHandleKind::TimelineFd);
    let export = |semaphore: vk::Semaphore| {
        // SAFETY: null, or a live exportable timeline.
        unsafe { interop.export_semaphore(semaphore, kind) }
    };
    assert_eq!(export(vk::Semaphore::null()).expect_err("null").kind(), ErrorKind::InvalidArgument);
    let Ok(original) = ExportableSemaphore::timeline(interop, 5) else {
        println!("skipped: the device exports no timelines");
        return;
    };
    let request = export(original.semaphore().as_raw()).expect("export");
    assert_eq!((request.handle().kind(), request.exporter()), (kind, Some(interop.identity())));
    let imported = ImportedSemaphore::new(interop, request).expect("import");
    original.semaphore().signal(9).expect("signal");
    assert_eq!(imported.semaphore().value().expect("value"), 9);
}

#[test]
fn null_memory_and_foreign_handle_types_are_rejected() {
    let Some(context) = vulkan() else { return };
    let interop = context.interop();
    let buffer = ExportableBuffer::new(interop, &BufferOptions::new(64, USAGE)).expect("create");
    let memory = buffer.buffer().memory();
    for (raw, kind) in [
        (RawMemory::new(vk::DeviceMemory::null(), 64), ErrorKind::InvalidArgument),
        (RawMemory::new(memory, 0), ErrorKind::InvalidArgument),
        (RawMemory::new(memory, 64).handle(MemoryHandleKind::NvSciBuf), ErrorKind::Unsupported),
    ] {
        // SAFETY: rejected before the driver is called.
        let error = unsafe { interop.export_memory(&raw) }.expect_err("invalid");
        assert_eq!((error.kind(), error.operation()), (kind, "VulkanInterop::export_memory"), "{error}");
    }
}
