//! Buffers of a shared heap: contents on both sides, reuse after pending work, growth, drop orders, leaks, threads.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{
    HeadlessContext, HeadlessOptions, MemoryPlacement, OwnedSemaphore, SemaphoreOp, SharedHeap, SharedHeapBuffer,
    SharedHeapOptions,
};
use gpu_interop::{Device, Error, ErrorKind, Feature, Stream, WaitCondition};
use gpu_interop_test_support::in_own_process;
use proptest::prelude::*;

use common::{descriptors, open};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A block of 1 MiB, which is a size class.
const BLOCK: u64 = 1 << 20;

fn options(memory: MemoryPlacement) -> SharedHeapOptions {
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST | BufferUsageFlags::STORAGE_BUFFER;
    SharedHeapOptions::new(usage).block_size(BLOCK).memory(memory)
}

fn heap(context: &HeadlessContext, device: &Device, memory: MemoryPlacement) -> SharedHeap {
    SharedHeap::new(context.interop(), device, &options(memory)).expect("a heap")
}

fn pattern(seed: u32, size: u64) -> Vec<u8> {
    let words = u32::try_from(size.div_ceil(4)).expect("small");
    let mut bytes: Vec<u8> =
        (0..words).flat_map(|index| (index ^ seed).wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    bytes.truncate(usize::try_from(size).expect("small"));
    bytes
}

fn no_errors(context: &HeadlessContext) {
    assert_eq!(context.validation_errors(), Vec::<String>::new());
}

/// A buffer that the device's side owns.
fn released(context: &HeadlessContext, buffer: SharedHeapBuffer) -> SharedHeapBuffer {
    context.release(buffer.buffer()).expect("release");
    buffer
}

/// Writes to a released buffer, on one side.
fn write(context: &HeadlessContext, buffer: &SharedHeapBuffer, stream: &Stream, by_vulkan: bool, data: &[u8]) {
    if by_vulkan {
        // Only a release makes the CPU's writes visible to the device.
        context.acquire(buffer.buffer()).expect("acquire");
        buffer.buffer().write(0, data).expect("write");
        context.release(buffer.buffer()).expect("release");
    } else {
        stream.write(buffer, data).expect("write");
    }
}

/// Checks every byte of a released buffer on both sides.
fn verify(context: &HeadlessContext, buffer: &SharedHeapBuffer, stream: &Stream, expected: &[u8], what: &str) {
    context.acquire(buffer.buffer()).expect("acquire");
    equal(|found| buffer.buffer().read(0, found), expected, &format!("{what}, on Vulkan's side"));
    context.release(buffer.buffer()).expect("release");
    equal(|found| stream.read(buffer, found), expected, &format!("{what}, on the device's side"));
}

/// Checks what `read` returns.
fn equal(read: impl FnOnce(&mut [u8]) -> gpu_interop::Result<()>, expected: &[u8], what: &str) {
    let mut found = vec![0; expected.len()];
    read(&mut found).expect("read");
    let differ = || found.iter().zip(expected).enumerate().filter(|(_, (found, expected))| found != expected);
    if let Some((place, (found, expected))) = differ().next() {
        panic!("{what}: {} bytes differ, the first at {place}: {found:#x}, not {expected:#x}", differ().count());
    }
}

fn fails(error: &Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error} should contain: {words}");
}

#[derive(Debug, Clone)]
enum Step {
    Allocate { size: u64, alignment: u32, by_vulkan: bool },
    Free(prop::sample::Index),
    Write(prop::sample::Index, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![1..512_u64, 512..20_000_u64, 60_000..300_000_u64];
    let allocate = (size, 0..14_u32, any::<bool>()).prop_map(|(size, alignment, by_vulkan)| Step::Allocate {
        size,
        alignment,
        by_vulkan,
    });
    let step = prop_oneof![
        3 => allocate,
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(index, by)| Step::Write(index, by)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Bytes of the memory that a buffer occupies on Vulkan's side, and on the device's.
fn places(buffer: &SharedHeapBuffer) -> [(u64, u64); 2] {
    use gpu_interop::vulkan::ash::vk::Handle;
    let owned = buffer.buffer();
    // Distinct allocations as distinct ranges.
    let base = owned.memory().as_raw().wrapping_mul(1 << 30);
    let place = |start: u64| (start, start.wrapping_add(buffer.size()));
    [place(base.wrapping_add(owned.memory_offset())), place(buffer.device_ptr().get())]
}

/// No two live buffers overlap on either side, and each keeps its bytes, whatever is allocated and freed beside it.
#[test]
fn random_buffers_never_overlap_and_keep_their_bytes() {
    let Some((context, device)) = open(true) else { return };
    let stream = device.create_stream().expect("stream");
    let heap = heap(&context, &device, MemoryPlacement::HostVisible);
    proptest!(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }, |(steps in steps())| {
        let mut live: Vec<(SharedHeapBuffer, Vec<u8>)> = Vec::new();
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Allocate { size, alignment, by_vulkan } => {
                    let buffer = heap.allocate_aligned(size, 1 << alignment).expect("allocate");
                    let buffer = released(&context, buffer);
                    prop_assert_eq!(buffer.size(), size);
                    prop_assert_eq!(buffer.buffer().memory_offset() % (1_u64 << alignment).max(256), 0);
                    prop_assert_eq!(buffer.device_ptr().get() % 256, 0);
                    for ((start, end), side) in places(&buffer).into_iter().zip(0..) {
                        for (other, _) in &live {
                            let (from, to) = places(other)[side];
                            prop_assert!(end <= from || to <= start, "side {side}: {start}..{end}, {from}..{to}");
                        }
                    }
                    let data = pattern(number, size);
                    write(&context, &buffer, &stream, by_vulkan, &data);
                    live.push((buffer, data));
                }
                Step::Free(index) if !live.is_empty() => drop(live.swap_remove(index.index(live.len()))),
                Step::Write(index, by_vulkan) if !live.is_empty() => {
                    let index = index.index(live.len());
                    let (buffer, data) = &mut live[index];
                    *data = pattern(number.wrapping_mul(77), buffer.size());
                    write(&context, buffer, &stream, by_vulkan, data);
                }
                _ => {}
            }
        }
        prop_assert_eq!(heap.usage().buffers, live.len());
        for (buffer, data) in &live {
            verify(&context, buffer, &stream, data, "at the end");
        }
    });
    assert_eq!(heap.usage().buffers, 0);
    no_errors(&context);
}

/// Ownership transfers, copies on Vulkan's queue, and the device's streams.
#[test]
fn both_sides_see_every_byte_of_device_memory() {
    let Some((context, device)) = open(true) else { return };
    let stream = device.create_stream().expect("stream");
    let heap = heap(&context, &device, MemoryPlacement::DeviceLocal);
    let buffers: Vec<_> = [1, 255, 4096, 65_537].map(|size| heap.allocate(size).expect("allocate")).into();
    for (seed, buffer) in (1..).zip(&buffers) {
        let (forth, back) = (pattern(seed, buffer.size()), pattern(!seed, buffer.size()));
        context.upload(buffer.buffer(), 0, &forth).expect("upload");
        context.release(buffer.buffer()).expect("release");
        let mut found = vec![0; forth.len()];
        stream.read(buffer, &mut found).expect("read");
        assert!(found == forth, "{} bytes to the device", found.len());
        stream.write(buffer, &back).expect("write");
        context.acquire(buffer.buffer()).expect("acquire");
    }
    for (seed, buffer) in (1_u32..).zip(&buffers) {
        let mut found = vec![0; usize::try_from(buffer.size()).expect("small")];
        context.download(buffer.buffer(), 0, &mut found).expect("download");
        assert!(found == pattern(!seed, buffer.size()), "{} bytes from the device", found.len());
    }
    assert_eq!(heap.usage().blocks, 1);
    no_errors(&context);
}

/// The range of a dropped buffer is not allocated again while a stream has work on it.
#[test]
fn memory_is_reused_after_the_work_of_streams() {
    let Some((context, device)) = open(true) else { return };
    if !device.capabilities().feature(Feature::StreamMemoryOperations32).is_supported() {
        return println!("skipped: streams cannot wait for words");
    }
    let heap = heap(&context, &device, MemoryPlacement::HostVisible);
    let (stream, other) = (device.create_stream().expect("stream"), device.create_stream().expect("stream"));
    // Enough blocks before the stream waits: a driver may import memory only once its streams are idle.
    drop((0..10).map(|_| heap.allocate(BLOCK / 4).expect("allocate")).collect::<Vec<_>>());
    let word = heap.allocate(4).expect("allocate");
    other.fill(&word, 0).expect("fill");
    other.synchronize().expect("synchronise");
    let (busy, idle) = (heap.allocate(BLOCK / 4).expect("allocate"), heap.allocate(BLOCK / 4).expect("allocate"));
    let (busy_at, idle_at) = (busy.device_ptr(), idle.device_ptr());
    stream.wait_value_u32(&word, 1, WaitCondition::Equal).expect("wait");
    stream.fill(&busy, 0xEE).expect("fill");
    other.fill(&idle, 0x11).expect("fill");
    other.synchronize().expect("synchronise");
    drop((busy, idle));
    heap.collect();
    assert_eq!(heap.usage().buffers, 2, "the word and the buffer in use");
    let again = released(&context, heap.allocate(BLOCK / 4).expect("allocate"));
    assert_eq!(again.device_ptr(), idle_at, "other work on the mapping delays nothing");
    let data = pattern(5, BLOCK / 4);
    // Everything that is left of the block, and more.
    let rest: Vec<_> = (0..6).map(|_| released(&context, heap.allocate(BLOCK / 4).expect("allocate"))).collect();
    for buffer in rest.iter().chain([&again]) {
        assert_ne!(buffer.device_ptr(), busy_at, "a stream still writes it");
        write(&context, buffer, &other, true, &data);
    }
    other.fill_u32(&word, 1).expect("fill");
    stream.synchronize_timeout(TIMEOUT).expect("the wait ends");
    for buffer in rest.iter().chain([&again]) {
        verify(&context, buffer, &other, &data, "after the late fill");
    }
    heap.collect();
    assert_eq!(heap.usage().buffers, 2 + rest.len());
    let reused = heap.allocate(BLOCK / 4).expect("allocate");
    assert_eq!(reused.device_ptr(), busy_at);
    no_errors(&context);
}

/// The range of a dropped buffer is not allocated again while Vulkan has work on it.
#[test]
fn memory_is_reused_after_the_work_of_vulkan() {
    let Some((context, device)) = open(true) else { return };
    let heap = heap(&context, &device, MemoryPlacement::DeviceLocal);
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let buffer = heap.allocate(4096).expect("allocate");
    buffer.free_after(&timeline, 3).expect("defer");
    buffer.free_after(&timeline, 5).expect("defer");
    drop(buffer);
    timeline.signal(4).expect("signal");
    heap.collect();
    assert_eq!(heap.usage().buffers, 1);
    timeline.signal(5).expect("signal");
    heap.collect();
    assert_eq!(heap.usage().buffers, 0);

    // A submission keeps its buffers.
    let buffer = heap.allocate(4096).expect("allocate");
    let wait = [SemaphoreOp { semaphore: &timeline, value: 9 }];
    let submission =
        context.submit(&wait, &[], |recording| recording.fill(buffer.buffer(), 0, 4096, 7)).expect("submit");
    drop(buffer);
    heap.collect();
    assert_eq!(heap.usage().buffers, 1);
    timeline.signal(9).expect("signal");
    submission.wait(TIMEOUT).expect("it ends");
    drop(submission);
    assert_eq!(heap.usage().buffers, 0);

    // Also one that is dropped while it is pending.
    let buffer = heap.allocate(4096).expect("allocate");
    let op = |value| [SemaphoreOp { semaphore: &timeline, value }];
    let fill = context.submit(&op(10), &op(11), |recording| recording.fill(buffer.buffer(), 0, 4096, 7));
    drop((fill.expect("submit"), buffer));
    heap.collect();
    assert_eq!(heap.usage().buffers, 1);
    timeline.signal(10).expect("signal");
    timeline.wait(11, TIMEOUT).expect("it ends");
    let start = Instant::now();
    while heap.usage().buffers > 0 {
        // The fence may be signalled after the timeline.
        assert!(start.elapsed() < TIMEOUT, "the buffer is not freed");
        heap.collect();
    }

    let buffer = heap.allocate(4096).expect("allocate");
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    fails(&buffer.free_after(&binary, 1).expect_err("no timeline"), ErrorKind::InvalidArgument, "no value");
    no_errors(&context);
}

/// Many frames do not accumulate deferred buffers.
#[test]
fn deferred_buffers_are_freed_as_their_values_are_reached() {
    let Some((context, device)) = open(true) else { return };
    let heap = heap(&context, &device, MemoryPlacement::DeviceLocal);
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    for frame in 1..=2_000 {
        let buffer = heap.allocate(4096).expect("allocate");
        buffer.free_after(&timeline, frame).expect("defer");
        drop(buffer);
        timeline.signal(frame).expect("signal");
    }
    let usage = heap.usage();
    assert!(usage.buffers <= 200 && usage.blocks <= 2, "{usage:?}");
}

/// A thread collects while another one defers.
#[test]
fn no_deferred_buffer_is_lost_when_threads_meet() {
    const BUFFERS: usize = 500;
    let Some((context, device)) = open(false) else { return };
    let heap = heap(&context, &device, MemoryPlacement::DeviceLocal);
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let (begun, ended) = (Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            while !ended.load(Ordering::Relaxed) {
                heap.collect();
            }
        });
        begun.wait();
        for _ in 0..BUFFERS {
            heap.allocate(256).expect("allocate").free_after(&timeline, 1).expect("defer");
            // Also with one processor.
            std::thread::yield_now();
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(heap.usage().buffers, BUFFERS, "buffers were freed before their value");
    timeline.signal(1).expect("signal");
    heap.collect();
    assert_eq!(heap.usage().buffers, 0);
}

#[test]
fn a_heap_grows_and_shrinks() {
    let Some((context, device)) = open(true) else { return };
    let heap = heap(&context, &device, MemoryPlacement::HostVisible);
    assert_eq!(heap.block_size(), BLOCK);
    let stream = device.create_stream().expect("stream");
    let whole: Vec<_> = (0..4).map(|_| released(&context, heap.allocate(BLOCK).expect("a whole block"))).collect();
    assert_eq!((heap.usage().blocks, heap.usage().buffers), (4, 4));
    for (seed, buffer) in (1..).zip(&whole) {
        write(&context, buffer, &stream, seed % 2 == 0, &pattern(seed, BLOCK));
    }
    for (seed, buffer) in (1..).zip(&whole) {
        verify(&context, buffer, &stream, &pattern(seed, BLOCK), "a block");
    }
    assert_eq!(heap.trim(), 0);
    drop(whole);
    assert_eq!(heap.trim(), 4);
    assert_eq!((heap.usage().blocks, heap.usage().size), (0, 0));
    let small: Vec<_> = (0..4096).map(|_| heap.allocate(200).expect("allocate")).collect();
    assert_eq!((heap.usage().blocks, heap.usage().buffers), (1, 4096), "a block of units");
    drop(small);
    no_errors(&context);
}

#[test]
fn invalid_requests_are_typed_errors() {
    let Some((context, device)) = open(true) else { return };
    let heap = heap(&context, &device, MemoryPlacement::DeviceLocal);
    let invalid = ErrorKind::InvalidArgument;
    fails(&heap.allocate(0).expect_err("no bytes"), invalid, "0 bytes");
    for size in [BLOCK + 1, u64::MAX] {
        fails(&heap.allocate(size).expect_err("too large"), invalid, "larger than a block");
    }
    fails(&heap.allocate_aligned(BLOCK, 4096).expect_err("too large"), invalid, "larger than a block");
    for alignment in [0, 3, 768] {
        fails(&heap.allocate_aligned(64, alignment).expect_err("alignment"), invalid, "power of two");
    }
    let new = |options: SharedHeapOptions| SharedHeap::new(context.interop(), &device, &options).map(drop);
    let valid = options(MemoryPlacement::DeviceLocal);
    fails(&new(valid.block_size(0)).expect_err("no bytes"), invalid, "0 bytes");
    fails(&new(SharedHeapOptions::new(BufferUsageFlags::empty())).expect_err("no usage"), invalid, "usage");
    for size in [context.interop().max_allocation_size().saturating_add(1), u64::MAX] {
        fails(&new(valid.block_size(size)).expect_err("too large"), invalid, "too large");
    }
    assert_eq!(heap.usage().buffers, 0);
    no_errors(&context);
}

#[test]
fn ten_thousand_cycles_leak_nothing() {
    if !in_own_process("ten_thousand_cycles_leak_nothing") {
        return;
    }
    let Some((context, device)) = open(true) else { return };
    let heap = heap(&context, &device, MemoryPlacement::HostVisible);
    let stream = device.create_stream().expect("stream");
    let before = descriptors();
    for cycle in 0..10_000_u32 {
        let size = 64 + u64::from(cycle * 37 % 8192);
        let buffer = heap.allocate(size).expect("allocate");
        if cycle % 16 == 0 {
            let (buffer, data) = (released(&context, buffer), pattern(cycle, size));
            write(&context, &buffer, &stream, cycle % 32 == 0, &data);
            verify(&context, &buffer, &stream, &data, "a cycle");
        }
    }
    let usage = heap.usage();
    assert_eq!((usage.blocks, usage.buffers), (1, 0));
    // Heaps with their imports, too.
    for _ in 0..100 {
        let heap = self::heap(&context, &device, MemoryPlacement::HostVisible);
        drop(heap.allocate(4096).expect("allocate"));
    }
    assert!(descriptors() <= before + 2, "{} descriptors, {before} before", descriptors());
    no_errors(&context);
}

/// Every order of dropping context, device, stream, heap and two buffers.
#[test]
fn objects_may_be_dropped_in_any_order() {
    fn orders(left: Vec<usize>) -> Vec<Vec<usize>> {
        if left.is_empty() {
            return vec![vec![]];
        }
        let mut all = Vec::new();
        for (place, first) in left.iter().enumerate() {
            let mut rest = left.clone();
            rest.remove(place);
            all.extend(orders(rest).into_iter().map(|order| [vec![*first], order].concat()));
        }
        all
    }
    // One context lives to the end: NVIDIA's driver cannot be loaded again after about 330 unloads in one process.
    let Some((_loaded, _)) = open(true) else { return };
    // Half of the 720 orders: the two buffers are alike.
    for (number, order) in orders((0..6).collect()).into_iter().enumerate() {
        if order.iter().position(|index| *index == 4) > order.iter().position(|index| *index == 5) {
            continue;
        }
        let context = HeadlessContext::new(&HeadlessOptions::default());
        let context = context.unwrap_or_else(|error| panic!("order {number}, {} descriptors: {error}", descriptors()));
        let device = gpu_interop::device_for(context.identity()).expect("the same device");
        let heap = heap(&context, &device, MemoryPlacement::HostVisible);
        let stream = device.create_stream().expect("stream");
        let [first, second] = [5000, 7000].map(|size| released(&context, heap.allocate(size).expect("allocate")));
        for buffer in [&first, &second] {
            write(&context, buffer, &stream, true, &pattern(3, buffer.size()));
        }
        let (mut context, mut device, mut stream) = (Some(context), Some(device), Some(stream));
        let (mut heap, mut first, mut second) = (Some(heap), Some(first), Some(second));
        for index in &order {
            match index {
                0 => drop(context.take()),
                1 => drop(device.take()),
                2 => drop(stream.take()),
                3 => drop(heap.take()),
                4 => drop(first.take()),
                _ => drop(second.take()),
            }
            for buffer in [&first, &second].into_iter().flatten() {
                let (data, what) = (pattern(3, buffer.size()), format!("{order:?}, after {index}"));
                equal(|found| buffer.buffer().read(0, found), &data, &what);
                if let Some(stream) = &stream {
                    equal(|found| stream.read(buffer, found), &data, &what);
                }
            }
        }
    }
}

#[test]
fn two_threads_share_a_heap() {
    let Some((context, device)) = open(true) else { return };
    let heap = heap(&context, &device, MemoryPlacement::HostVisible);
    std::thread::scope(|scope| {
        for thread in 0..2_u32 {
            let (heap, context, device) = (heap.clone(), &context, &device);
            scope.spawn(move || {
                let stream = device.create_stream().expect("stream");
                let mut live = Vec::new();
                for round in 0..1500_u32 {
                    let seed = round * 2 + thread;
                    let buffer = heap.allocate(100 + u64::from(seed * 97 % 30_000)).expect("allocate");
                    let buffer = released(context, buffer);
                    let data = pattern(seed, buffer.size());
                    write(context, &buffer, &stream, round % 2 == 0, &data);
                    live.push((buffer, data));
                    if live.len() > 24 {
                        let place = usize::try_from(seed).expect("small") % live.len();
                        let (buffer, data) = live.swap_remove(place);
                        verify(context, &buffer, &stream, &data, "one of two threads");
                    }
                }
                for (buffer, data) in &live {
                    verify(context, buffer, &stream, data, "at the end");
                }
            });
        }
    });
    assert_eq!(heap.usage().buffers, 0);
    no_errors(&context);
}
