//! Copies, views, and memory of cudarc.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::cudarc::SharedSlice;
use gpu_interop::cudarc::cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, LaunchConfig, PushKernelArg};
use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{MemoryPlacement, OwnedBuffer, SemaphoreOp, shared_timeline};

use crate::machine::{Machine, SIZE, import};

fn pattern(seed: u32) -> Vec<u32> {
    let count = u32::try_from(SIZE / 4).expect("small");
    (0..count).map(|index| index.wrapping_mul(2_654_435_761) ^ seed).collect()
}

/// Copies from the host. The simulator's copies are asynchronous for all memory of the host.
fn upload(stream: &Arc<CudaStream>, data: &[u32], destination: &mut impl DevicePtrMut<u32>) {
    stream.memcpy_htod(data, destination).expect("copied");
    stream.synchronize().expect("done");
}

fn download(stream: &Arc<CudaStream>, source: &impl DevicePtr<u32>) -> Vec<u32> {
    let seen = stream.clone_dtoh(source).expect("copied");
    stream.synchronize().expect("done");
    seen
}

#[track_caller]
fn assert_words(seen: &[u32], expected: &[u32]) {
    let wrong = seen.iter().zip(expected).filter(|(seen, expected)| seen != expected).count();
    assert_eq!((seen.len(), wrong), (expected.len(), 0), "{:?}", &seen[..seen.len().min(8)]);
}

pub(crate) fn copies_in_both_directions(machine: &Machine) {
    let (stream, exported) = (machine.stream(), machine.export());
    let mut words = SharedSlice::<u32>::mapped(&stream, import(&machine.device, &exported), ..).expect("a slice");
    let cudarc = stream.cudarc();
    // From the host, and back.
    upload(cudarc, &pattern(1), &mut words);
    assert_words(&download(cudarc, &words), &pattern(1));
    // Through memory of cudarc.
    let mut own = cudarc.alloc_zeros::<u32>(words.len()).expect("memory");
    upload(cudarc, &pattern(2), &mut own);
    cudarc.memcpy_dtod(&own, &mut words).expect("copied");
    assert_words(&download(cudarc, &words), &pattern(2));
    cudarc.memset_zeros(&mut own).expect("zeros");
    cudarc.memcpy_dtod(&words, &mut own).expect("copied");
    assert_words(&download(cudarc, &own), &pattern(2));
    // This crate's work on the same stream needs no synchronisation in between.
    stream.fill_u32(words.operand().expect("all"), 5).expect("filled");
    machine.increment(cudarc, &mut words);
    assert_words(&download(cudarc, &words), &vec![6; words.len()]);
    drop(words);
    assert_words(&machine.words(&exported), &vec![6; pattern(0).len()]);
}

pub(crate) fn views_of_parts(machine: &Machine) {
    let (stream, exported) = (machine.stream(), machine.export());
    let buffer = import(&machine.device, &exported);
    let cudarc = stream.cudarc();
    let quarter = SIZE / 4;
    let mut third = SharedSlice::<[u32; 2]>::mapped(&stream, buffer.clone(), 2 * quarter..3 * quarter).expect("a part");
    assert_eq!(third.len() as u64, quarter / 8);
    let pairs = vec![[3, 4]; third.len()];
    cudarc.memcpy_htod(&pairs, &mut third).expect("copied");
    cudarc.synchronize().expect("done");
    let mut words = SharedSlice::<u32>::mapped(&stream, buffer, ..).expect("all");
    let index = |quarters: u64| usize::try_from(quarters * quarter / 4).expect("small");
    {
        let mut view = words.as_view_mut();
        let (_, mut last) = view.split_at_mut(index(3));
        cudarc.memset_zeros(&mut last).expect("zeros");
        upload(cudarc, &[9], &mut last.slice_mut(1..2));
    }
    assert_eq!(download(cudarc, &words.as_view().slice(index(3)..index(3) + 3)), [0, 9, 0]);
    let seen = machine.words(&exported);
    let is = |from: u64, expected: [u32; 2]| {
        seen[index(from)..index(from + 1)].chunks_exact(2).all(|pair| *pair == expected)
    };
    assert!(is(0, [0, 0]) && is(1, [0, 0]) && is(2, [3, 4]));
    assert_eq!(seen[index(3)..].iter().filter(|word| **word != 0).count(), 1);
    // The operand of a part is the part.
    let (part, all) = (third.operand().expect("a part"), words.operand().expect("all"));
    assert_eq!((part.size(), part.as_raw()), (quarter, all.as_raw().offset(2 * quarter)));
}

pub(crate) fn slices_of_cudarc_are_operands(machine: &Machine) {
    let (stream, exported) = (machine.stream(), machine.export());
    let imported = import(&machine.device, &exported);
    // Allocated and written on another stream of cudarc.
    let (other, data) = (machine.context.new_stream().expect("a stream"), pattern(3));
    let slice = other.clone_htod(&data).expect("memory");
    let mut own = SharedSlice::borrowed(&stream, slice).expect("shared");
    stream.copy(&*imported, own.operand().expect("all")).expect("copied");
    stream.fill_u32(own.operand().expect("all").slice(..4).expect("a word"), 70).expect("filled");
    machine.increment(stream.cudarc(), &mut own);
    let mut expected: Vec<u32> = data.iter().map(|word| word.wrapping_add(1)).collect();
    expected[0] = 71;
    assert_words(&download(stream.cudarc(), &own), &expected);
    drop(own);
    assert_words(&machine.words(&exported), &data);
}

/// Streams of this crate know nothing of cudarc's pending work, so there is none once the slice is shared.
pub(crate) fn borrowed_slices_have_no_pending_work(machine: &Machine) {
    let stream = machine.stream();
    let other = machine.context.new_stream().expect("a stream");
    let mut slice = other.alloc_zeros::<u32>(1 << 16).expect("memory");
    let count = slice.len() as u64;
    for _ in 0..500 {
        let mut launch = other.launch_builder(&machine.increment);
        launch.arg(&mut slice).arg(&count);
        // SAFETY: the kernel takes an address and a number of words, and writes only those.
        unsafe { launch.launch(LaunchConfig::for_num_elems(1024)) }.expect("launched");
    }
    let own = SharedSlice::borrowed(&stream, slice).expect("shared");
    let mut bytes = vec![0; 4 << 16];
    machine.device.create_stream().expect("a stream").read(own.operand().expect("all"), &mut bytes).expect("read");
    assert_eq!(bytes.chunks_exact(4).filter(|word| *word != 500_u32.to_ne_bytes()).count(), 0);
}

/// More memory than a GPU has, if any of it stayed.
pub(crate) fn slices_of_cudarc_are_freed(machine: &Machine) {
    let (count, cycles) = if machine.is_simulated() { (1 << 10, 1_000) } else { (1 << 28, 300) };
    let stream = machine.stream();
    for cycle in 0..cycles {
        let slice = stream.cudarc().alloc_zeros::<u32>(count).expect("memory");
        let own = SharedSlice::borrowed(&stream, slice).expect("shared");
        stream.fill_u32(own.operand().expect("all"), cycle).expect("filled");
        if cycle % 16 == 0 {
            let mut word = [0; 4];
            stream.read(own.operand().expect("all").slice(..4).expect("a word"), &mut word).expect("read");
            assert_eq!(u32::from_ne_bytes(word), cycle);
        }
        drop(own);
        stream.synchronize().expect("done");
    }
    machine.context.check_err().expect("no error of cudarc");
}

const ROUNDS: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Vulkan fills, the stream of both libraries fills a half by gpu-interop and increments all by cudarc, Vulkan reads.
pub(crate) fn a_thousand_hand_overs(machine: &Machine) {
    let (vulkan, stream, exported) = (&machine.vulkan, machine.stream(), machine.export());
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let seen = OwnedBuffer::new(vulkan.interop(), SIZE, usage, MemoryPlacement::HostVisible).expect("a buffer");
    let buffer = import(&machine.device, &exported);
    let mut words = SharedSlice::<u32>::mapped(&stream, buffer, ..).expect("a slice");
    let (filled, fills) = shared_timeline(vulkan.interop(), &machine.device, 0).expect("a timeline");
    let (computed, computes) = shared_timeline(vulkan.interop(), &machine.device, 0).expect("a timeline");
    vulkan.acquire(exported.buffer()).expect("Vulkan's");
    let mut bytes = vec![0; usize::try_from(SIZE).expect("small")];
    for round in 1..=ROUNDS {
        let value = u64::from(round);
        vulkan
            .submit(&[], &[SemaphoreOp { semaphore: &filled, value }], |commands| {
                commands.fill(exported.buffer(), 0, SIZE, round)?;
                commands.release(exported.buffer())
            })
            .expect("submitted");
        stream.wait_timeline(&fills, value).expect("a wait");
        stream.fill_u32(words.operand().expect("a range").slice(SIZE / 2..).expect("a half"), !round).expect("filled");
        machine.increment(stream.cudarc(), &mut words);
        stream.signal_timeline(&computes, value).expect("a signal");
        let waits = [SemaphoreOp { semaphore: &computed, value }];
        let copied = vulkan.submit(&waits, &[], |commands| {
            commands.acquire(exported.buffer())?;
            commands.copy(exported.buffer(), 0, &seen, 0, SIZE)
        });
        copied.expect("submitted").wait(PATIENCE).expect("copied");
        seen.read(0, &mut bytes).expect("read");
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (half, expected) in [(first, round + 1), (second, (!round).wrapping_add(1))] {
            let wrong = half.chunks_exact(4).filter(|word| *word != expected.to_ne_bytes()).count();
            assert_eq!(wrong, 0, "wrong words in round {round}");
        }
    }
    stream.synchronize_timeout(PATIENCE).expect("no failure");
    machine.context.check_err().expect("no error of cudarc");
}
