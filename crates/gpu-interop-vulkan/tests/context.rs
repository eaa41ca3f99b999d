//! Contexts: submissions, timeouts, lifetimes, and the validation layer's checks.

#![allow(clippy::expect_used)]

mod common;

use std::time::{Duration, Instant};

use ash::vk;
use common::{USAGE, assert_same, contents, pattern, unvalidated, validated, vulkan};
use gpu_interop_core::{ErrorKind, SemaphorePayload};
use gpu_interop_vulkan::{HeadlessOptions, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp, load_entry_from};

const MILLISECOND: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(30);

#[test]
fn missing_loader_is_named() {
    // SAFETY: no such library exists.
    let error = unsafe { load_entry_from("libnope-vulkan.so.1") }.err().expect("no such library");
    assert_eq!(error.kind(), ErrorKind::DriverNotFound);
    let attempts = error.attempts();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].target, "libnope-vulkan.so.1");
    let words = if cfg!(windows) { "os error 126" } else { "libnope-vulkan.so.1: " };
    assert!(attempts[0].reason.contains(words), "the dynamic linker's text: {}", attempts[0].reason);
    let advice = if cfg!(windows) { "your GPU's driver" } else { "libvulkan1" };
    assert!(error.message().contains(advice), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[cfg(target_os = "linux")]
#[test]
fn other_libraries_are_not_loaders() {
    // SAFETY: the C library is already loaded in every process.
    let error = unsafe { load_entry_from("libc.so.6") }.err().expect("not a Vulkan loader");
    assert_eq!(error.kind(), ErrorKind::SymbolMissing);
}

#[test]
fn validation_errors_are_collected() {
    let Some(context) = validated(HeadlessOptions::default()) else { return };
    assert_eq!(context.validation_errors(), Vec::<String>::new());
    let info = vk::BufferCreateInfo::default().size(0).usage(USAGE).sharing_mode(vk::SharingMode::EXCLUSIVE);
    let device = context.interop().device();
    // SAFETY: deliberately invalid: the size is 0, which the layer must report. Drivers tolerate it.
    if let Ok(buffer) = unsafe { device.create_buffer(&info, None) } {
        // SAFETY: just created, never used.
        unsafe { device.destroy_buffer(buffer, None) };
    }
    let errors = context.validation_errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("VUID-VkBufferCreateInfo-size"), "{errors:?}");
}

#[test]
fn missing_barriers_are_reported() {
    let Some(context) = validated(HeadlessOptions::default()) else { return };
    let buffer = OwnedBuffer::new(context.interop(), 64, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let hazard = context.run(|recording| {
        recording.keep(&buffer);
        let device = context.interop().device();
        for word in 0..2 {
            // SAFETY: deliberately invalid: no barrier orders the two writes. Both are inside the buffer, which is kept
            // alive.
            unsafe { device.cmd_fill_buffer(recording.as_raw(), buffer.as_raw(), 0, 64, word) };
        }
        Ok(())
    });
    hazard.expect("run");
    let errors = context.validation_errors();
    assert!(errors.iter().any(|error| error.contains("SYNC-HAZARD-WRITE")), "{errors:?}");
}

#[test]
fn leaked_objects_are_reported() {
    let Some(context) = validated(HeadlessOptions::default()) else { return };
    let log = context.validation_log().expect("validation is on");
    // SAFETY: the device is alive. The fence is leaked on purpose; destroying the device frees it.
    unsafe { context.interop().device().create_fence(&vk::FenceCreateInfo::default(), None) }.expect("a fence");
    assert_eq!(log.errors(), Vec::<String>::new());
    drop(context);
    assert!(!log.errors().is_empty(), "a leaked object must be reported");
}

#[test]
fn commands_of_one_recording_execute_in_order() {
    let Some(context) = vulkan() else { return };
    let new = || OwnedBuffer::new(context.interop(), 4096, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let (first, second) = (new(), new());
    context
        .run(|recording| {
            recording.fill(&first, 0, 4096, 1)?;
            recording.copy(&first, 0, &second, 0, 4096)?;
            recording.fill(&first, 0, 2048, 2)?;
            recording.copy(&first, 0, &second, 1024, 1024)
        })
        .expect("run");
    let word = |value: u32, count: usize| value.to_le_bytes().repeat(count);
    let expected = [word(1, 256), word(2, 256), word(1, 512)].concat();
    assert_same(&contents(&context, &second), &expected, "the copy");
}

#[test]
fn uploads_and_downloads_of_any_range_are_exact() {
    let Some(context) = vulkan() else { return };
    let buffer = OwnedBuffer::new(context.interop(), 1 << 16, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let mut expected = pattern(1, 1 << 16);
    context.upload(&buffer, 0, &expected).expect("upload");
    for (seed, offset, length) in [(2, 1, 1), (3, 4093, 7), (4, 65_535, 1), (5, 100, 60_000), (6, 7, 0)] {
        let part = pattern(seed, length);
        context.upload(&buffer, offset, &part).expect("upload");
        let start = usize::try_from(offset).expect("small");
        expected[start..start + part.len()].copy_from_slice(&part);
        let mut found = vec![0; part.len()];
        context.download(&buffer, offset, &mut found).expect("download");
        assert_same(&found, &part, "the part");
    }
    assert_same(&contents(&context, &buffer), &expected, "the whole");
    let error = context.upload(&buffer, 65_530, &[0; 7]).expect_err("past the end");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = context.download(&buffer, u64::MAX, &mut [0; 7]).expect_err("past the end");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_same(&contents(&context, &buffer), &expected, "a rejected upload copies nothing");
}

#[test]
fn transfers_larger_than_the_staging_buffer_are_exact() {
    let Some(context) = vulkan() else { return };
    let size = (16 << 20) + 104;
    let buffer = OwnedBuffer::new(context.interop(), size, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let data = pattern(8, size);
    context.upload(&buffer, 0, &data).expect("upload");
    assert_same(&contents(&context, &buffer), &data, "the whole");
}

#[test]
fn invalid_commands_do_not_reach_the_driver() {
    let Some(context) = vulkan() else { return };
    let Some(other) = vulkan() else { return };
    let new = |context: &gpu_interop_vulkan::HeadlessContext, usage| {
        OwnedBuffer::new(context.interop(), 64, usage, MemoryPlacement::DeviceLocal).expect("buffer")
    };
    let buffer = new(&context, USAGE);
    let source = new(&context, vk::BufferUsageFlags::TRANSFER_SRC);
    let foreign = new(&other, USAGE);
    let outcomes = [
        context.fill(&buffer, 2, 4, 0),
        context.fill(&buffer, 0, 3, 0),
        context.fill(&buffer, 0, 0, 0),
        context.fill(&buffer, 60, 8, 0),
        context.fill(&source, 0, 4, 0),
        context.fill(&foreign, 0, 4, 0),
        context.copy(&buffer, 0, &buffer, 8, 16),
        context.copy(&buffer, 0, &source, 0, 4),
        context.copy(&buffer, u64::MAX, &buffer, 0, 4),
        context.release(&foreign),
        context.acquire(&foreign),
    ];
    for (index, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.expect_err("rejected").kind(), ErrorKind::InvalidArgument, "case {index}");
    }
    context.copy(&buffer, 0, &buffer, 16, 16).expect("adjacent ranges do not overlap");
}

#[test]
fn timelines_order_host_and_device() {
    let Some(context) = vulkan() else { return };
    let timeline = OwnedSemaphore::timeline(context.interop(), 3).expect("a timeline");
    assert_eq!((timeline.payload(), timeline.value().expect("value")), (SemaphorePayload::Timeline, 3));
    let buffer = OwnedBuffer::new(context.interop(), 64, USAGE, MemoryPlacement::HostVisible).expect("buffer");
    buffer.write(0, &[0; 64]).expect("write");
    let at = |value| [SemaphoreOp { semaphore: &timeline, value }];
    let work = context.submit(&at(4), &at(5), |recording| recording.fill(&buffer, 0, 64, u32::MAX)).expect("submit");
    assert_eq!(timeline.wait(5, 20 * MILLISECOND).expect_err("the work is blocked").kind(), ErrorKind::Timeout);
    assert_eq!(work.wait(MILLISECOND).expect_err("the work is blocked").kind(), ErrorKind::Timeout);
    assert!(!work.is_finished());
    let mut found = [1; 64];
    buffer.read(0, &mut found).expect("read");
    assert_eq!(found, [0; 64], "the device waits");
    timeline.signal(4).expect("signal");
    timeline.wait(5, LONG).expect("the device signals");
    work.wait(LONG).expect("the work ends");
    assert!(work.is_finished());
    buffer.read(0, &mut found).expect("read");
    assert_eq!(found, [0xff; 64]);
    assert_eq!(timeline.signal(5).expect_err("backwards").kind(), ErrorKind::InvalidArgument);
    assert_eq!(timeline.value().expect("value"), 5);
}

#[test]
fn timelines_accept_the_largest_difference_of_the_device() {
    let Some(context) = vulkan() else { return };
    let timeline = OwnedSemaphore::timeline(context.interop(), 5).expect("a timeline");
    let most = context.interop().max_timeline_difference();
    assert!(most >= 0x7fff_ffff, "below Vulkan's minimum: {most}");
    let at = |value| [SemaphoreOp { semaphore: &timeline, value }];
    if let Some(beyond) = most.checked_add(6) {
        let submit = |waits: &[_], signals: &[_]| context.submit(waits, signals, |_| Ok(()));
        let rejected = [submit(&at(beyond), &[]).err(), submit(&[], &at(beyond)).err(), timeline.signal(beyond).err()];
        rejected
            .into_iter()
            .for_each(|error| assert_eq!(error.expect("beyond the limit").kind(), ErrorKind::InvalidArgument));
        assert_eq!(timeline.value().expect("value"), 5);
    }
    let far = most.saturating_add(5);
    context.submit(&[], &at(far), |_| Ok(())).expect("submit").wait(LONG).expect("the work ends");
    // CPU drivers may signal the work's fence before its semaphores.
    timeline.wait(far, LONG).expect("the value is reached");
    assert_eq!(timeline.value().expect("value"), far);
}

#[test]
fn binary_semaphores_order_submissions() {
    let Some(context) = vulkan() else { return };
    let semaphore = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    assert_eq!(semaphore.value().expect_err("no value").kind(), ErrorKind::InvalidArgument);
    let buffer = OwnedBuffer::new(context.interop(), 64, USAGE, MemoryPlacement::HostVisible).expect("buffer");
    let op = [SemaphoreOp { semaphore: &semaphore, value: 0 }];
    let first = context.submit(&[], &op, |recording| recording.fill(&buffer, 0, 64, 1)).expect("submit");
    let second = context.submit(&op, &[], |recording| recording.fill(&buffer, 32, 32, 2)).expect("submit");
    second.wait(LONG).expect("the second ends");
    first.wait(LONG).expect("the first ended");
    let mut found = [0; 64];
    buffer.read(0, &mut found).expect("read");
    assert_same(&found, &[1_u32.to_le_bytes().repeat(8), 2_u32.to_le_bytes().repeat(8)].concat(), "both");
}

#[test]
fn dropped_submissions_keep_buffers_alive() {
    let Some(context) = vulkan() else { return };
    let gate = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let buffer = OwnedBuffer::new(context.interop(), 4096, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let work = context
        .submit(&[SemaphoreOp { semaphore: &gate, value: 1 }], &[], |recording| recording.fill(&buffer, 0, 4096, 9))
        .expect("submit");
    drop(work);
    // The caller's last handle. Destroying the buffer now would be a validation error.
    drop(buffer);
    gate.signal(1).expect("signal");
    context.run(|_| Ok(())).expect("the queue still works");
}

#[test]
fn dropping_a_context_with_blocked_work_does_not_hang() {
    // Without validation: the device is leaked on purpose, which the layer would report.
    let Some(context) = unvalidated(HeadlessOptions::default().timeout(20 * MILLISECOND)) else { return };
    let gate = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let submission = context.submit(&[SemaphoreOp { semaphore: &gate, value: 1 }], &[], |_| Ok(())).expect("submit");
    drop(submission);
    assert_eq!(context.run(|_| Ok(())).expect_err("blocked by the gate").kind(), ErrorKind::Timeout);
    let begin = Instant::now();
    drop(context);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    gate.signal(1).expect("unblocks the queue before the process exits");
}

#[test]
fn contexts_can_be_used_from_many_threads() {
    let Some(context) = vulkan() else { return };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let context = &context;
            scope.spawn(move || {
                for round in 0..8 {
                    let data = pattern(seed * 100 + round, 10_000);
                    let buffer = OwnedBuffer::new(context.interop(), 10_000, USAGE, MemoryPlacement::DeviceLocal)
                        .expect("buffer");
                    context.upload(&buffer, 0, &data).expect("upload");
                    assert_same(&contents(context, &buffer), &data, "this thread's own data");
                }
            });
        }
    });
}
