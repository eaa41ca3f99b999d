//! Each constructor that takes a request returns it on failure, with the same files open.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

mod common;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use gpu_interop::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    BufferImportOptions, ImageImportOptions, ImageSpec, ImportedBuffer, ImportedImage, ImportedSemaphore,
};
use gpu_interop::{
    ArrayFormat, ChannelType, Error, ErrorKind, MappedPlanes, MemoryHandle, MemoryHandleKind, MemoryImport,
    PlaneLayout, SemaphoreHandle,
};
use gpu_interop_test_support::request::{anonymous_memory, memory_request, semaphore_request};

use common::open;

const PAGE: u64 = 4096;

/// The inode of an open file.
fn inode(fd: BorrowedFd<'_>) -> u64 {
    let file = std::fs::File::from(fd.try_clone_to_owned().expect("open"));
    file.metadata().expect("open").ino()
}

/// Anonymous memory of a page, and its inode.
fn file() -> (OwnedFd, u64) {
    let fd = anonymous_memory(PAGE);
    let inode = inode(fd.as_fd());
    (fd, inode)
}

fn memory(size: u64) -> (MemoryImport, u64) {
    let (fd, inode) = file();
    (memory_request(MemoryHandle::OpaqueFd(fd), size), inode)
}

fn inode_of(request: &MemoryImport) -> u64 {
    inode(request.handle().as_fd().expect("a descriptor"))
}

fn fails(error: &Error) {
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Unsupported | ErrorKind::ImportRejected),
        "{error}"
    );
}

#[test]
fn memories_and_semaphores_come_back() {
    let Some((context, device)) = open(false) else { return };
    let interop = context.interop();
    // The request is larger than the file.
    let (request, expected) = memory(2 * PAGE);
    let (error, request) = device.import_memory(request).map(drop).expect_err("too large").into_parts();
    fails(&error);
    assert_eq!(inode_of(&request), expected);
    let usage = vk::BufferUsageFlags::TRANSFER_DST;
    let options = BufferImportOptions::new(2 * PAGE, usage);
    let (error, request) =
        ImportedBuffer::new(interop, request, &options).map(drop).expect_err("too large").into_parts();
    fails(&error);
    assert_eq!(inode_of(&request), expected);
    let spec = ImageSpec::new(
        vk::ImageViewType::TYPE_2D,
        [4096, 4096, 1],
        vk::Format::R8_UNORM,
        vk::ImageUsageFlags::TRANSFER_DST,
    );
    let options = ImageImportOptions::new(spec);
    let (error, request) =
        ImportedImage::new(interop, request, &options).map(drop).expect_err("too large").into_parts();
    fails(&error);
    assert_eq!(inode_of(&request), expected);
    // Memory is no semaphore.
    let (fd, expected) = file();
    let request = semaphore_request(SemaphoreHandle::OpaqueFd(fd));
    let (error, request) = ImportedSemaphore::new(interop, request).map(drop).expect_err("memory").into_parts();
    fails(&error);
    let inode_of_semaphore = |fd: Option<BorrowedFd<'_>>| inode(fd.expect("a descriptor"));
    assert_eq!(inode_of_semaphore(request.handle().as_fd()), expected);
    let (error, request) = device.import_semaphore(request).map(drop).expect_err("memory").into_parts();
    fails(&error);
    assert_eq!(inode_of_semaphore(request.handle().as_fd()), expected);
}

#[test]
fn memories_of_planes_come_back() {
    let Some((_, device)) = open(false) else { return };
    let texel = ArrayFormat::new(ChannelType::Unorm8, 1).expect("a format");
    let plane = |memory, offset| (memory, PlaneLayout::new(offset, 64, [64, 16], texel));
    let import = |sizes: [u64; 3], planes| {
        let (requests, inodes): (Vec<_>, Vec<_>) = sizes.into_iter().map(memory).unzip();
        let failure = MappedPlanes::import(&device, requests, planes).map(drop).expect_err("rejected");
        let (error, requests) = failure.into_parts();
        fails(&error);
        (inodes, requests.iter().map(inode_of).collect::<Vec<_>>())
    };
    // Before a driver is called: no plane, a plane past the end, a plane in a missing memory.
    for planes in [vec![], vec![plane(0, 0), plane(1, PAGE)], vec![plane(3, 0)]] {
        let (inodes, returned) = import([PAGE; 3], planes);
        assert_eq!(returned, inodes);
    }
    // By the import of each memory: the earlier ones were imported, and are released.
    for failing in 0..3 {
        let mut sizes = [PAGE; 3];
        sizes[failing] = 2 * PAGE;
        let (inodes, returned) = import(sizes, vec![plane(0, 0), plane(1, 0), plane(2, 0)]);
        assert_eq!(returned, inodes[failing..], "memory {failing}");
    }
}

#[test]
fn pictures_of_dma_bufs_come_back() {
    let Some((_, device)) = open(false) else { return };
    let nv12 = DrmFourcc::from_code("NV12");
    // A plane past the end, a kind that is none of descriptors, and an import that the device rejects.
    let cases = [
        (MemoryHandleKind::OpaqueFd, 2 * PAGE),
        (MemoryHandleKind::OpaqueWin32, 0),
        (MemoryHandleKind::DmaBufFd, 2 * PAGE),
    ];
    for (kind, offset) in cases {
        let (files, inodes): (Vec<_>, Vec<_>) = [file(), file()].into_iter().unzip();
        let planes = files.into_iter().map(|fd| DmaBufPlane::new(fd, offset, 64)).collect();
        let picture = DmaBufPicture::new(nv12, DrmModifier::LINEAR, [64, 16], planes);
        // SAFETY: the planes are anonymous memory of this test; the import fails before a driver uses them.
        let failure = unsafe { picture.import_as(&device, kind) }.map(drop).expect_err("rejected");
        let (error, picture) = failure.into_parts();
        fails(&error);
        let returned: Vec<_> = picture.planes.iter().map(|plane| inode(plane.fd.as_fd())).collect();
        assert_eq!(returned, inodes, "{kind}");
    }
}
