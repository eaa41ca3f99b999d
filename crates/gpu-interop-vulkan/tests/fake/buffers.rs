//! Buffers and their memory.

use ash::vk;
use gpu_interop_core::{ErrorKind, MemoryHandle, MemoryHandleKind};
use gpu_interop_test_support::request::{dedicated_request, memory_request};
use gpu_interop_vulkan::{
    BufferImportOptions, BufferOptions, ExportableBuffer, ImportedBuffer, MemoryPlacement, OwnedBuffer, VulkanInterop,
};
use rustix::io::FdFlags;

use crate::assert_calls;
use crate::driver::{Settings, calls, file, lend, start};

/// `VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT`.
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(0x21);

fn export(interop: &VulkanInterop, options: BufferOptions) -> ExportableBuffer {
    ExportableBuffer::new(interop, &options).expect("a buffer")
}

#[test]
fn exportable_buffers() {
    let interop = start(Settings::default());
    let buffer = export(&interop, BufferOptions::new(4100, USAGE));
    assert_calls(&[
        "vkGetPhysicalDeviceExternalBufferProperties 1000071002{flags 0x0, usage 0x21, type 0x1}",
        "vkCreateBuffer 12{flags 0x0, size 4100, usage 0x21, sharing 0, families 0} 1000072000{types 0x1}",
        "vkGetBufferMemoryRequirements2 1000146000{buffer 0xb1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkBindBufferMemory 0xb1, 0xd1, 0",
    ]);
    let handle = buffer.export().expect("a descriptor");
    assert_calls(&["vkGetMemoryFdKHR 1000074002{memory 0xd1, type 0x1}"]);
    // The fake driver returns an inheritable descriptor.
    let fd = handle.as_fd().expect("a descriptor");
    assert!(rustix::io::fcntl_getfd(fd).expect("flags").contains(FdFlags::CLOEXEC), "the descriptor is inheritable");
    drop(buffer);
    assert_calls(&["vkDestroyBuffer 0xb1", "vkFreeMemory 0xd1"]);
}

#[test]
fn dedicated_allocations_name_their_buffer() {
    let expected =
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1} 1000127001{image 0x0, buffer 0xb1}";
    let default = Settings::default();
    for (settings, requested) in [
        (default, true),
        (Settings { dedicated_only: true, ..default }, false),
        (Settings { requires_dedicated: true, ..default }, false),
    ] {
        let interop = start(settings);
        let buffer = export(&interop, BufferOptions::new(64, USAGE).dedicated(requested));
        assert_eq!(calls()[3], expected, "{settings:?}");
        assert!(buffer.import_request().expect("a request").is_dedicated());
    }
}

#[test]
fn host_visible_memory_is_mapped_as_a_whole() {
    let interop = start(Settings::default());
    drop(export(&interop, BufferOptions::new(64, USAGE).memory(MemoryPlacement::HostVisible)));
    let found = calls();
    assert_eq!(found[3], "vkAllocateMemory 5{size 8192, memory type 3} 1000072002{types 0x1}");
    assert_eq!(found[4], "vkMapMemory 0xd1, offset 0, size 0xffffffffffffffff, flags 0x0");
}

#[test]
fn device_address_usage_sets_the_allocation_flag() {
    let interop = start(Settings::default());
    // VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT.
    let usage = vk::BufferUsageFlags::from_raw(0x0002_0001);
    drop(export(&interop, BufferOptions::new(64, usage)));
    let expected =
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1} 1000060000{flags 0x2, devices 0x0}";
    assert_eq!(calls()[3], expected);
    let interop = start(Settings { addresses: false, ..Settings::default() });
    let error = ExportableBuffer::new(&interop, &BufferOptions::new(64, usage)).expect_err("without the feature");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("bufferDeviceAddress"), "{error}");
    assert_calls(&[]);
}

#[test]
fn dma_bufs_are_exported() {
    let interop = start(Settings::default());
    let buffer = export(&interop, BufferOptions::new(64, USAGE).handle(MemoryHandleKind::DmaBufFd));
    buffer.export().expect("a descriptor");
    assert_calls(&[
        "vkGetPhysicalDeviceExternalBufferProperties 1000071002{flags 0x0, usage 0x21, type 0x200}",
        "vkCreateBuffer 12{flags 0x0, size 64, usage 0x21, sharing 0, families 0} 1000072000{types 0x200}",
        "vkGetBufferMemoryRequirements2 1000146000{buffer 0xb1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x200}",
        "vkBindBufferMemory 0xb1, 0xd1, 0",
        "vkGetMemoryFdKHR 1000074002{memory 0xd1, type 0x200}",
    ]);
}

#[test]
fn unshared_buffers() {
    let interop = start(Settings::default());
    drop(OwnedBuffer::new(&interop, 64, USAGE, MemoryPlacement::DeviceLocal).expect("a buffer"));
    assert_calls(&[
        "vkCreateBuffer 12{flags 0x0, size 64, usage 0x21, sharing 0, families 0}",
        "vkGetBufferMemoryRequirements2 1000146000{buffer 0xb1}",
        "vkAllocateMemory 5{size 8192, memory type 1}",
        "vkBindBufferMemory 0xb1, 0xd1, 0",
        "vkDestroyBuffer 0xb1",
        "vkFreeMemory 0xd1",
    ]);
}

#[test]
fn imported_buffers() {
    let interop = start(Settings::default());
    let fd = file(8192);
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).expect("flags");
    lend(&fd);
    let request = memory_request(MemoryHandle::OpaqueFd(fd), 8192);
    drop(ImportedBuffer::new(&interop, request, &BufferImportOptions::new(4100, USAGE)).expect("imported"));
    assert_calls(&[
        "vkGetPhysicalDeviceExternalBufferProperties 1000071002{flags 0x0, usage 0x21, type 0x1}",
        "vkCreateBuffer 12{flags 0x0, size 4100, usage 0x21, sharing 0, families 0} 1000072000{types 0x1}",
        "vkGetBufferMemoryRequirements2 1000146000{buffer 0xb1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000074000{type 0x1, a duplicate of the file, closed on exec}",
        "vkBindBufferMemory 0xb1, 0xd1, 0",
        "vkDestroyBuffer 0xb1",
        "vkFreeMemory 0xd1",
    ]);
}

#[test]
fn imported_dedicated_allocations_name_their_buffer() {
    let interop = start(Settings::default());
    let fd = file(8192);
    lend(&fd);
    let request = dedicated_request(MemoryHandle::OpaqueFd(fd), 8192, true);
    drop(ImportedBuffer::new(&interop, request, &BufferImportOptions::new(64, USAGE)).expect("imported"));
    let expected = "vkAllocateMemory 5{size 8192, memory type 1} 1000074000{type 0x1, a duplicate of the file, closed on \
                    exec} 1000127001{image 0x0, buffer 0xb1}";
    assert_eq!(calls()[3], expected);
}
