//! Buffers, both ways, every word verified.

use crate::common::{Context, buffer_desc, frames, validation_messages};
use gpu_interop_wgpu::gpu_interop::ErrorKind;

const WORDS: u32 = 4096;
const SIZE: u64 = WORDS as u64 * 4;

/// A word of a frame.
fn word(frame: u32, index: u32) -> u32 {
    (frame.wrapping_mul(0x9E37_79B9) ^ index.wrapping_mul(0x85EB_CA6B)).rotate_left(7)
}

fn bytes(frame: u32) -> Vec<u8> {
    (0..WORDS).flat_map(|index| word(frame, index).to_ne_bytes()).collect()
}

#[test]
fn a_new_buffer_is_zero_on_both_sides() {
    let Some(context) = Context::new() else { return };
    let desc = buffer_desc(SIZE, wgpu::BufferUsages::VERTEX);
    let buffer = context.interop.create_buffer(&desc).expect("a buffer");
    let readback = context.readback(SIZE);
    context
        .queue()
        .submit([context.encode(|encoder| encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, &readback, 0, SIZE))]);
    assert!(context.map_words(&readback).iter().all(|word| *word == 0));
    let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
    let mut seen = vec![0xFF; bytes(0).len()];
    context.stream.read(&buffer, &mut seen).expect("read");
    context.end(compute);
    assert!(seen.iter().all(|byte| *byte == 0));
    context.wait();
    assert_eq!(validation_messages(), 0);
}

#[test]
fn every_word_arrives_both_ways() {
    let Some(context) = Context::new() else { return };
    let desc = buffer_desc(SIZE, wgpu::BufferUsages::STORAGE);
    let buffer = context.interop.create_buffer(&desc).expect("a buffer");
    for frame in 0..frames() {
        // wgpu writes, compute reads.
        context.queue().write_buffer(buffer.wgpu(), 0, &bytes(frame));
        let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
        let mut seen = vec![0; bytes(0).len()];
        context.stream.read(&buffer, &mut seen).expect("read");
        assert_eq!(seen, bytes(frame), "frame {frame}");
        // Compute writes, wgpu reads.
        context.stream.write(&buffer, &bytes(!frame)).expect("written");
        context.end(compute);
        let readback = context.readback(SIZE);
        let copy = context.encode(|encoder| encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, &readback, 0, SIZE));
        context.queue().submit([copy]);
        assert_eq!(context.map(&readback), bytes(!frame), "frame {frame}");
    }
    assert_eq!(validation_messages(), 0);
}

#[test]
fn what_the_device_lacks_is_an_error_with_advice() {
    let Some(context) = Context::new() else { return };
    let limit = context.device().limits().max_buffer_size;
    for (size, usage, kind, advice) in [
        (SIZE, wgpu::BufferUsages::BLAS_INPUT, ErrorKind::Unsupported, "EXPERIMENTAL_RAY_QUERY"),
        (SIZE, wgpu::BufferUsages::TLAS_INPUT, ErrorKind::Unsupported, "EXPERIMENTAL_RAY_QUERY"),
        (SIZE, wgpu::BufferUsages::from_bits_retain(1 << 30), ErrorKind::InvalidArgument, "BufferUsages"),
        (limit + 1, wgpu::BufferUsages::STORAGE, ErrorKind::InvalidArgument, "max_buffer_size"),
        (u64::MAX, wgpu::BufferUsages::UNIFORM, ErrorKind::InvalidArgument, "max_buffer_size"),
    ] {
        let error = context.interop.create_buffer(&buffer_desc(size, usage)).expect_err("rejected");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
    context.wait();
    assert_eq!(validation_messages(), 0);
}
