//! Stream operations: calls of the backend, and validation.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::recorder::Call;
use super::{SIZE, assert_error, assert_invalid, import, mapped, open};
use crate::array::{ArrayFormat, ArrayShape, ChannelType, MipmappedArrayDesc};
use crate::backend::WaitCondition;
use crate::error::ErrorKind;
use crate::kernel::{KernelArg, LaunchConfig, ModuleImage};

#[test]
fn every_operation_reaches_the_backend_as_given() {
    let (recorder, device) = open();
    let (a, b) = (mapped(&device), device.allocate_exportable(4096).expect("allocate"));
    let (queue, event) = (device.create_stream().expect("stream"), device.create_event().expect("event"));
    let word = |offset: u64, size: u64| a.slice(offset..offset + size).expect("a word");
    let (stream, dst, src) = (queue.as_raw(), a.as_raw(), b.as_raw());
    recorder.forget_calls();
    queue.copy(word(64, 4096), &b).expect("copy");
    queue.fill(word(1, 3), 0xab).expect("fill");
    queue.fill_u32(&a, 0xdead_beef).expect("fill_u32");
    queue.wait_value_u32(word(4, 4), 5, WaitCondition::Equal).expect("wait");
    queue.wait_value_u64(word(8, 8), 6, WaitCondition::GreaterOrEqual).expect("wait");
    queue.write_value_u32(word(12, 4), 7).expect("write");
    queue.write_value_u64(word(16, 8), 1 << 63).expect("write");
    queue.record(&event).expect("record");
    queue.wait_event(&event).expect("wait");
    assert_eq!(
        recorder.calls(),
        [
            Call::Copy { stream, dst: dst.offset(64), src, size: 4096 },
            Call::FillU8 { stream, dst: dst.offset(1), value: 0xab, size: 3 },
            Call::FillU32 { stream, dst, value: 0xdead_beef, count: SIZE / 4 },
            Call::WaitValueU32(stream, dst.offset(4), 5, WaitCondition::Equal),
            Call::WaitValueU64(stream, dst.offset(8), 6, WaitCondition::GreaterOrEqual),
            Call::WriteValueU32(stream, dst.offset(12), 7),
            Call::WriteValueU64(stream, dst.offset(16), 1 << 63),
            Call::RecordEvent(event.as_raw(), stream),
            Call::WaitEvent(stream, event.as_raw()),
        ]
    );
}

#[test]
fn reads_and_writes_move_the_bytes_and_wait_for_them() {
    let (recorder, device) = open();
    let (buffer, queue) = (mapped(&device), device.create_stream().expect("stream"));
    let (stream, address) = (queue.as_raw(), buffer.as_raw());
    let slice = buffer.slice(8..12).expect("slice");
    recorder.forget_calls();
    recorder.hold(stream);
    queue.write(slice, &[1, 2, 3, 4]).expect("write");
    assert!(queue.is_idle().expect("query"), "a write returns when the bytes are there");
    let mut found = [0xff; 4];
    queue.read(slice, &mut found).expect("read");
    assert_eq!(found, [0, 1, 2, 3], "what the recorder writes");
    assert!(queue.is_idle().expect("query"), "a read returns when the bytes are there");
    let mut later = [0xff; 4];
    // SAFETY: the recorder writes immediately.
    unsafe { queue.read_async(slice, later.as_mut_ptr()) }.expect("read");
    // SAFETY: the recorder reads immediately.
    unsafe { queue.write_async(slice, later.as_ptr()) }.expect("write");
    assert!(!queue.is_idle().expect("query"), "the asynchronous variants do not wait");
    let dst = address.offset(8);
    assert_eq!(
        recorder.calls(),
        [
            Call::CopyFromHost { stream, dst, bytes: vec![1, 2, 3, 4] },
            Call::SynchronizeStream(stream),
            Call::QueryStream(stream),
            Call::CopyToHost { stream, src: dst, size: 4 },
            Call::SynchronizeStream(stream),
            Call::QueryStream(stream),
            Call::CopyToHost { stream, src: dst, size: 4 },
            Call::CopyFromHost { stream, dst, bytes: vec![0, 1, 2, 3] },
            Call::QueryStream(stream),
        ]
    );
    recorder.finish(stream);
}

#[test]
fn sizes_that_differ_are_rejected() {
    let (recorder, device) = open();
    let (buffer, queue) = (mapped(&device), device.create_stream().expect("stream"));
    let (ten, other) = (buffer.slice(..10).expect("slice"), buffer.slice(100..111).expect("slice"));
    for length in [0, 9, 11] {
        let words = ["differ in size", "10 bytes", &format!("{length} bytes")];
        assert_invalid(&recorder, "Stream::read", &words, || queue.read(ten, &mut vec![0; length]));
        assert_invalid(&recorder, "Stream::write", &words, || queue.write(ten, &vec![0; length]));
    }
    assert_invalid(&recorder, "Stream::copy", &["differ in size", "10 bytes", "11 bytes"], || queue.copy(ten, other));
    assert_invalid(&recorder, "Stream::copy", &["differ in size", "10 bytes", "11 bytes"], || queue.copy(other, ten));
}

#[test]
fn overlapping_copies_are_rejected() {
    let (recorder, device) = open();
    let (buffer, queue) = (mapped(&device), device.create_stream().expect("stream"));
    let at = |offset: u64| buffer.slice(offset..offset + 64).expect("slice");
    for (dst, src) in [(0, 0), (0, 1), (1, 0), (0, 63), (63, 0)] {
        let words = ["overlap", "dst: 0x", "src: 0x", "size: 64"];
        assert_invalid(&recorder, "Stream::copy", &words, || queue.copy(at(dst), at(src)));
    }
    queue.copy(at(0), at(64)).expect("side by side");
    queue.copy(at(64), at(0)).expect("side by side");
}

proptest! {
    /// As below, for two mappings of one import.
    #[test]
    fn overlap_in_one_import_is_exact(first in 0..24_u64, second in 0..24_u64, size in 1..12_u64) {
        let (_recorder, device) = open();
        let memory = import(&device);
        let (stream, other) = (device.create_stream().expect("stream"), import(&device));
        let map = |offset: u64| memory.map_buffer(offset..offset + 64).expect("map");
        let (one, two) = (map(0), map(10));
        let (dst, src) = (one.slice(first..first + size).expect("in it"), two.slice(second..second + size).expect("in it"));
        let overlap = (first..first + size).any(|byte| (10 + second..10 + second + size).contains(&byte));
        prop_assert_eq!(stream.copy(dst, src).is_err(), overlap);
        let elsewhere = other.map_buffer(0..64).expect("map");
        prop_assert!(stream.copy(elsewhere.slice(first..first + size).expect("in it"), dst).is_ok());
    }

    /// Two ranges of one length overlap exactly if a byte is in both.
    #[test]
    fn overlap_is_exact(dst in 0..24_u64, src in 0..24_u64, size in 1..12_u64) {
        let (_recorder, device) = open();
        let (buffer, queue) = (mapped(&device), device.create_stream().expect("stream"));
        let slice = |start| buffer.slice(start..start + size).expect("slice");
        let overlap = (dst..dst + size).any(|byte| (src..src + size).contains(&byte));
        prop_assert_eq!(queue.copy(slice(dst), slice(src)).is_err(), overlap);
    }
}

#[test]
fn misaligned_and_wrongly_sized_words_are_rejected() {
    let (recorder, device) = open();
    let (buffer, queue) = (mapped(&device), device.create_stream().expect("stream"));
    let at = |offset: u64, size: u64| buffer.slice(offset..offset + size).expect("slice");
    let narrow = |offset, size, condition, words: &[&str]| {
        let word = at(offset, size);
        assert_invalid(&recorder, "Stream::wait_value_u32", words, || queue.wait_value_u32(word, 1, condition));
        assert_invalid(&recorder, "Stream::write_value_u32", words, || queue.write_value_u32(word, 1));
    };
    let wide = |offset, size, condition, words: &[&str]| {
        let word = at(offset, size);
        assert_invalid(&recorder, "Stream::wait_value_u64", words, || queue.wait_value_u64(word, 1, condition));
        assert_invalid(&recorder, "Stream::write_value_u64", words, || queue.write_value_u64(word, 1));
    };
    for offset in [1, 2, 3, 5, 4095] {
        narrow(offset, 4, WaitCondition::Equal, &["aligned to 4 bytes", "address: 0x"]);
    }
    for offset in [1, 2, 4, 7, 12, 4100] {
        wide(offset, 8, WaitCondition::And, &["aligned to 8 bytes", "address: 0x"]);
    }
    for size in [1, 3, 5, 8] {
        narrow(0, size, WaitCondition::Nor, &[&format!("{size} bytes"), "4 bytes"]);
    }
    for size in [1, 4, 7, 9, 16] {
        wide(0, size, WaitCondition::Nor, &[&format!("{size} bytes"), "8 bytes"]);
    }
    for (offset, size) in [(1, 4), (2, 8), (0, 3), (4, 1), (8, 6)] {
        let (slice, is) = (at(offset, size), format!("size: {size}"));
        let words = ["multiples of 4", "address: 0x", &is];
        assert_invalid(&recorder, "Stream::fill_u32", &words, || queue.fill_u32(slice, 1));
    }
}

#[test]
fn launches_without_threads_are_rejected() {
    let (recorder, device) = open();
    // SAFETY: the recorder does not read the image.
    let image = unsafe { crate::BinaryImage::new(&[1, 2, 3]) };
    let module = device.load_module(ModuleImage::Binary(image)).expect("load");
    let (kernel, queue) = (module.kernel(c"touch").expect("kernel"), device.create_stream().expect("stream"));
    for dimension in 0..6 {
        let mut config = LaunchConfig { grid_dim: [2, 3, 4], block_dim: [5, 6, 7], shared_mem_bytes: 0 };
        config.grid_dim.iter_mut().chain(&mut config.block_dim).nth(dimension).into_iter().for_each(|size| *size = 0);
        let (grid, block) = (format!("grid: {:?}", config.grid_dim), format!("block: {:?}", config.block_dim));
        assert_invalid(&recorder, "Stream::launch", &["at least 1", &grid, &block], || {
            // SAFETY: nothing is launched.
            unsafe { queue.launch(&kernel, &config, &[]) }
        });
    }
    let config = LaunchConfig { grid_dim: [2, 3, 4], block_dim: [5, 6, 7], shared_mem_bytes: 8 };
    let value = (7_u32, 1.5_f64);
    let args = [
        KernelArg::Ptr(mapped(&device).as_raw()),
        KernelArg::U64(9),
        KernelArg::F32(0.5),
        KernelArg::I16(-1),
        KernelArg::by_value(&value),
    ];
    // SAFETY: the recorder runs nothing.
    unsafe { queue.launch(&kernel, &config, &args) }.expect("launch");
    let args = args.iter().map(|arg| format!("{arg:?}")).collect();
    let expected = Call::LaunchKernel { stream: queue.as_raw(), kernel: kernel.as_raw(), config, args };
    assert!(recorder.calls().contains(&expected));
    assert!(recorder.calls().contains(&Call::LoadModule(vec![1, 2, 3])));
    assert!(recorder.calls().contains(&Call::ModuleKernel(module.as_raw(), "touch".into())));
    assert_invalid(&recorder, "Stream::launch", &["0 bytes"], || {
        // SAFETY: nothing is launched.
        unsafe { queue.launch(&kernel, &config, &[KernelArg::by_value(&[0_u32; 0])]) }
    });
}

/// Drivers read the value at the address.
#[test]
fn arguments_are_at_their_addresses() {
    let value = [1_u16, 2, 3];
    let (by_value, float) = (KernelArg::by_value(&value), KernelArg::F64(-0.5));
    let KernelArg::Value(inner) = by_value else { panic!("{by_value:?}") };
    assert_eq!((inner.size(), inner.align()), (6, 2));
    assert_eq!(by_value.as_ptr(), Some(value.as_ptr().cast()));
    let address = float.as_ptr().expect("a value").cast::<f64>();
    // SAFETY: the address of the float above.
    assert_eq!(unsafe { address.read() }.to_bits(), (-0.5_f64).to_bits());
}

#[test]
fn a_bounded_wait_times_out_and_can_be_repeated() {
    let (recorder, device) = open();
    let (memory, queue) = (import(&device), device.create_stream().expect("stream"));
    let buffer = memory.map_buffer(..).expect("map");
    recorder.hold(queue.as_raw());
    queue.fill(&buffer, 0).expect("fill");
    for timeout in [Duration::ZERO, Duration::from_millis(15)] {
        let start = Instant::now();
        let error = queue.synchronize_timeout(timeout).expect_err("the stream is held");
        assert!(start.elapsed() >= timeout);
        let words = [&format!("timeout: {timeout:?}"), "still pending"];
        assert_error(&error, ErrorKind::Timeout, "Stream::synchronize_timeout", &words);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(10));
            recorder.finish(queue.as_raw());
        });
        queue.synchronize_timeout(Duration::from_secs(20)).expect("the work ran");
    });
    queue.synchronize_timeout(Duration::ZERO).expect("nothing is left");
}

#[test]
fn driver_errors_gain_backend_and_device() {
    let (recorder, device) = open();
    let (buffer, queue) = (mapped(&device), device.create_stream().expect("stream"));
    let event = device.create_event().expect("event");
    type Work<'a> = (&'static str, &'a dyn Fn() -> crate::Result<()>);
    let table: [Work<'_>; 8] = [
        ("FillU8", &|| queue.fill(&buffer, 1)),
        ("WriteValueU32", &|| queue.write_value_u32(buffer.slice(..4)?, 1)),
        ("RecordEvent", &|| queue.record(&event)),
        ("WaitEvent", &|| queue.wait_event(&event)),
        ("QueryEvent", &|| event.is_complete().map(drop)),
        ("QueryStream", &|| queue.is_idle().map(drop)),
        ("SynchronizeStream", &|| queue.synchronize()),
        ("LaunchHostFunction", &|| queue.launch_host_function(|| ())),
    ];
    for (call, work) in table {
        recorder.fail_next(call, ErrorKind::Driver);
        let error = work().expect_err(call);
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED (-7)", "backend: recorder"]);
        work().expect("only one call fails");
    }
    // The data of a host function that never runs is leaked.
    recorder.finish_all();
}

/// A blocking copy no longer uses the caller's memory when it returns, also with an error.
#[test]
fn a_blocking_copy_never_returns_while_it_is_pending() {
    let (recorder, device) = open();
    let (memory, queue) = (import(&device), device.create_stream().expect("stream"));
    let buffer = memory.map_buffer(0..64).expect("map");
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
    let image = MipmappedArrayDesc::new(ArrayShape::D2 { width: 4, height: 4 }, format);
    let image = memory.map_mipmapped_array(&image).expect("map");
    let level = image.level(0).expect("a level");
    type Work<'a> = &'a dyn Fn() -> crate::Result<()>;
    let table: [Work<'_>; 4] = [
        &|| queue.read(&buffer, &mut [0; 64]),
        &|| queue.write(&buffer, &[0; 64]),
        &|| queue.read_array(level, &mut [0; 64]),
        &|| queue.write_array(level, &[0; 64]),
    ];
    recorder.hold(queue.as_raw());
    for (index, copy) in table.into_iter().enumerate() {
        recorder.fail_next("SynchronizeStream", ErrorKind::Driver);
        recorder.finish_after_queries(3);
        let error = copy().expect_err("the synchronisation fails");
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED (-7)"]);
        assert!(queue.is_idle().expect("a query"), "copy {index} is pending");
    }
}
