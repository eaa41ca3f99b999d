//! Buffers shared between two devices: every word, in both directions.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use std::time::Duration;

use common::{USAGE, assert_same, contents, pattern, vulkan};
use gpu_interop_core::{ErrorKind, MemoryHandleKind, MemoryImport, SemaphoreHandleKind};
use gpu_interop_vulkan::{
    BufferImportOptions, BufferOptions, ExportableBuffer, ExportableSemaphore, HeadlessContext, ImportedBuffer,
    ImportedSemaphore, MemoryPlacement, SemaphoreOp,
};
use rustix::io::FdFlags;

/// Not a multiple of a page or of a staging buffer's alignment.
const SIZE: u64 = 74_564;

fn variants() -> impl Iterator<Item = BufferOptions> {
    [MemoryPlacement::HostVisible, MemoryPlacement::DeviceLocal].into_iter().flat_map(|memory| {
        [false, true].map(|dedicated| BufferOptions::new(SIZE, USAGE).memory(memory).dedicated(dedicated))
    })
}

fn import(context: &HeadlessContext, exporter: &ExportableBuffer, options: &BufferOptions) -> ImportedBuffer {
    let request = exporter.import_request().expect("export");
    assert_eq!(request.is_dedicated(), exporter.buffer().is_dedicated());
    let import = BufferImportOptions::new(options.size, options.usage)
        .memory(options.memory)
        .memory_type(exporter.buffer().memory_type());
    ImportedBuffer::new(context.interop(), request, &import).expect("import")
}

/// Transfers ownership of the buffer from one device to the other.
fn hand_over(from: (&HeadlessContext, &ExportableBuffer), to: (&HeadlessContext, &ImportedBuffer), to_importer: bool) {
    let (exporter, importer) = ((from.0, from.1.buffer()), (to.0, to.1.buffer()));
    let (source, target) = if to_importer { (exporter, importer) } else { (importer, exporter) };
    source.0.release(source.1).expect("release");
    target.0.acquire(target.1).expect("acquire");
}

fn both_directions(first: &HeadlessContext, second: &HeadlessContext) {
    for options in variants() {
        let exported = ExportableBuffer::new(first.interop(), &options).expect("create");
        assert!(exported.buffer().is_dedicated() || !options.dedicated);
        assert!(exported.buffer().allocation_size() >= SIZE);

        first.fill(exported.buffer(), 0, SIZE, 0xcafe_babe).expect("fill");
        let imported = import(second, &exported, &options);
        hand_over((first, &exported), (second, &imported), true);
        let filled: Vec<u8> = 0xcafe_babe_u32.to_le_bytes().repeat(usize::try_from(SIZE / 4).expect("small"));
        assert_same(&contents(second, imported.buffer()), &filled, &format!("the fill, {options:?}"));

        for (round, seed) in [0x1111, 0x2222, 0x3333].into_iter().enumerate() {
            let back = pattern(seed, SIZE);
            second.upload(imported.buffer(), 0, &back).expect("upload");
            hand_over((first, &exported), (second, &imported), false);
            assert_same(&contents(first, exported.buffer()), &back, &format!("back, round {round}, {options:?}"));

            let forth = pattern(seed ^ 0xffff, SIZE);
            first.upload(exported.buffer(), 0, &forth).expect("upload");
            hand_over((first, &exported), (second, &imported), true);
            assert_same(&contents(second, imported.buffer()), &forth, &format!("forth, round {round}, {options:?}"));
        }
    }
}

#[test]
fn two_contexts_share_buffers() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    both_directions(&first, &second);
}

/// One device's queue waits for the other's, without a host wait in between.
#[test]
fn shared_semaphores_order_two_queues() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let options = BufferOptions::new(SIZE, USAGE);
    let exported = ExportableBuffer::new(first.interop(), &options).expect("create");
    let imported = import(&second, &exported, &options);
    for kind in [SemaphoreHandleKind::OpaqueFd, SemaphoreHandleKind::TimelineFd] {
        let created = match kind {
            SemaphoreHandleKind::OpaqueFd => ExportableSemaphore::binary(first.interop()),
            _ => ExportableSemaphore::timeline(first.interop(), 0),
        };
        let features = first.interop().semaphore_features(kind).expect("Vulkan has it");
        if !(features.exportable && features.importable) {
            assert_eq!(created.expect_err("the device reports no support").kind(), ErrorKind::Unsupported, "{kind}");
            continue;
        }
        let signalled = created.expect("the device reports support");
        let request = signalled.import_request().expect("export");
        let waited = ImportedSemaphore::new(second.interop(), request).expect("import");
        for round in 1..=20_u32 {
            let value = u64::from(round);
            let signal = [SemaphoreOp { semaphore: signalled.semaphore(), value }];
            let wait = [SemaphoreOp { semaphore: waited.semaphore(), value }];
            let writes = first.submit(&[], &signal, |recording| {
                recording.fill(exported.buffer(), 0, SIZE, round)?;
                recording.release(exported.buffer())
            });
            let reads = second.submit(&wait, &[], |recording| recording.acquire(imported.buffer()));
            let (writes, reads) = (writes.expect("submit"), reads.expect("submit"));
            reads.wait(Duration::from_secs(30)).expect("the waiting device completes");
            let expected = round.to_le_bytes().repeat(usize::try_from(SIZE / 4).expect("small"));
            assert_same(&contents(&second, imported.buffer()), &expected, &format!("{kind}, round {round}"));
            second.release(imported.buffer()).expect("release");
            writes.wait(Duration::from_secs(30)).expect("the signalling device completed");
            first.acquire(exported.buffer()).expect("acquire");
        }
        println!("{kind}: 20 rounds");
    }
}

#[test]
fn one_context_imports_its_own_export() {
    let Some(context) = vulkan() else { return };
    both_directions(&context, &context);
}

#[test]
fn host_and_device_see_writes_of_each_other() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let options = BufferOptions::new(SIZE, USAGE).memory(MemoryPlacement::HostVisible);
    let exported = ExportableBuffer::new(first.interop(), &options).expect("create");
    let imported = import(&second, &exported, &options);
    let data = pattern(7, SIZE);
    exported.buffer().write(0, &data).expect("write");
    let mut found = vec![0; data.len()];
    imported.buffer().read(0, &mut found).expect("read");
    assert_same(&found, &data, "host to host");
    hand_over((&*first, &exported), (&*second, &imported), true);
    second.fill(imported.buffer(), 8, 4, 0x0403_0201).expect("fill");
    hand_over((&*first, &exported), (&*second, &imported), false);
    let mut found = [0; 6];
    exported.buffer().read(7, &mut found).expect("read");
    assert_eq!(found, [data[7], 1, 2, 3, 4, data[12]], "device to host, unaligned");
}

#[test]
fn device_local_buffers_are_not_mapped() {
    let Some(context) = vulkan() else { return };
    let buffer = ExportableBuffer::new(context.interop(), &BufferOptions::new(SIZE, USAGE)).expect("create");
    assert!(buffer.buffer().mapped_ptr().is_none());
    let error = buffer.buffer().read(0, &mut [0; 4]).expect_err("not mapped");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn exports_are_separate_descriptors_that_close_on_exec() {
    let Some(context) = vulkan() else { return };
    for options in variants() {
        let buffer = ExportableBuffer::new(context.interop(), &options).expect("create");
        let (first, second) = (buffer.export().expect("export"), buffer.export().expect("export"));
        assert_eq!(first.kind(), MemoryHandleKind::OpaqueFd);
        for handle in [&first, &second] {
            let fd = handle.as_fd().expect("a descriptor");
            assert!(rustix::io::fcntl_getfd(fd).expect("flags").contains(FdFlags::CLOEXEC));
        }
        // Closing one descriptor leaves the other usable.
        drop(first);
        let size = buffer.buffer().allocation_size();
        // SAFETY: the buffer just exported the handle, and was created with these options.
        let request = unsafe { MemoryImport::new(second, size).dedicated(options.dedicated) };
        let import = BufferImportOptions::new(SIZE, USAGE).memory(options.memory);
        ImportedBuffer::new(context.interop(), request, &import).expect("import");
    }
}

#[test]
fn imported_buffers_outlive_the_exporter() {
    let Some(second) = vulkan() else { return };
    let data = pattern(3, SIZE);
    let imported = {
        let Some(first) = vulkan() else { return };
        let options = BufferOptions::new(SIZE, USAGE);
        let exported = ExportableBuffer::new(first.interop(), &options).expect("create");
        first.upload(exported.buffer(), 0, &data).expect("upload");
        first.release(exported.buffer()).expect("release");
        import(&second, &exported, &options)
    };
    second.acquire(imported.buffer()).expect("acquire");
    assert_same(&contents(&second, imported.buffer()), &data, "after the exporter is gone");
}

#[test]
fn buffers_keep_the_device_alive() {
    let Some(context) = vulkan() else { return };
    let options = BufferOptions::new(64, USAGE).memory(MemoryPlacement::HostVisible);
    let exported = ExportableBuffer::new(context.interop(), &options).expect("create");
    exported.buffer().write(60, &[1, 2, 3, 4]).expect("write");
    drop(context);
    let mut found = [0; 4];
    exported.buffer().read(60, &mut found).expect("read");
    assert_eq!(found, [1, 2, 3, 4]);
}
