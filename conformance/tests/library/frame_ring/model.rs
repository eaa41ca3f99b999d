//! Random sequences of acquisitions, halves and drops, compared with a model of every frame's contents.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use gpu_interop::vulkan::{BufferOptions, Frame, FrameRing, FrameRingOptions, FrameSide};
use gpu_interop::{Error, ErrorKind};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{TIMEOUT, USAGE, compute, fails, open, read, render};

#[derive(Debug, Clone)]
enum Step {
    Acquire,
    Render(Index),
    Compute(Index, usize),
    /// A compute half that fails, or panics, after its fill.
    Fail(Index, bool),
    Read(Index),
    Drop(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Acquire),
        4 => any::<Index>().prop_map(Step::Render),
        4 => (any::<Index>(), 0..2_usize).prop_map(|(frame, stream)| Step::Compute(frame, stream)),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(frame, panics)| Step::Fail(frame, panics)),
        2 => any::<Index>().prop_map(Step::Read),
        3 => any::<Index>().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..80)
}

/// A frame that is held, and the words that its buffer has after the enqueued halves; `None` if unknown.
struct Held {
    frame: Frame,
    words: [Option<u32>; 2],
}

#[test]
fn frames_keep_their_contents_whatever_the_order_of_halves_and_drops() {
    let Some((context, device)) = open() else { return };
    let streams = [device.create_stream().expect("stream"), device.create_stream().expect("stream")];
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(frames in 1..=6_usize, words in 2..3000_u64, compute_first in any::<bool>(), steps in steps())| {
        let first = if compute_first { FrameSide::Compute } else { FrameSide::Vulkan };
        let buffer = BufferOptions::new(words * 8, USAGE);
        let options = FrameRingOptions::new(frames).first(first).buffer(buffer);
        let ring = FrameRing::new(&context, &device, &options).expect("a ring");
        // The words of each frame of the ring, also while it is not held.
        let mut contents = vec![[None; 2]; frames];
        let mut held: Vec<Held> = Vec::new();
        let mut acquired = 0;
        for (word, step) in (1_u32..).zip(steps) {
            let any = |index: &Index| (!held.is_empty()).then(|| index.index(held.len()));
            match step {
                Step::Acquire if held.len() == frames => {
                    let error = ring.acquire(Duration::ZERO).expect_err("all are held");
                    fails(&error, ErrorKind::Timeout, &format!("frames held: {frames}"));
                }
                Step::Acquire => {
                    let frame = ring.acquire(TIMEOUT).expect("a frame");
                    prop_assert_eq!((frame.number(), frame.turn()), (acquired, first));
                    acquired += 1;
                    prop_assert!(frame.is_done().expect("its value"));
                    let words = contents[frame.index()];
                    held.push(Held { frame, words });
                }
                Step::Render(index) => if let Some(index) = any(&index) {
                    let Held { frame, words } = &mut held[index];
                    match frame.turn() {
                        FrameSide::Vulkan => {
                            drop(render(frame, &context, word));
                            *words = [Some(word); 2];
                        }
                        FrameSide::Compute => {
                            let refused = frame.render(&context, |_, _| Ok(()));
                            fails(&refused.expect_err("out of turn"), ErrorKind::InvalidArgument, "turn");
                        }
                    }
                },
                Step::Compute(index, stream) => if let Some(index) = any(&index) {
                    let Held { frame, words } = &mut held[index];
                    match frame.turn() {
                        FrameSide::Compute => {
                            compute(frame, &streams[stream], word);
                            words[1] = Some(word);
                        }
                        FrameSide::Vulkan => {
                            let refused = frame.compute(&streams[stream], |_, _| Ok(()));
                            fails(&refused.expect_err("out of turn"), ErrorKind::InvalidArgument, "turn");
                        }
                    }
                },
                Step::Fail(index, panics) => if let Some(index) = any(&index) {
                    let Held { frame, words } = &mut held[index];
                    if frame.turn() == FrameSide::Compute {
                        let failed = catch_unwind(AssertUnwindSafe(|| frame.compute(&streams[0], |stream, memory| {
                            let buffer = &memory.buffers()[0];
                            stream.fill_u32(buffer.slice(buffer.size() / 2..)?, word)?;
                            if panics {
                                resume_unwind(Box::new("on purpose"));
                            }
                            Err::<(), _>(Error::new(ErrorKind::Cancelled, "work", "on purpose"))
                        })));
                        match failed {
                            Ok(failed) => fails(&failed.expect_err("it fails"), ErrorKind::Cancelled, "on purpose"),
                            Err(_) => prop_assert!(panics),
                        }
                        words[1] = Some(word);
                        prop_assert_eq!(frame.turn(), FrameSide::Vulkan);
                    }
                },
                Step::Read(index) => if let Some(index) = any(&index) {
                    let Held { frame, words } = &mut held[index];
                    if let ([Some(first), Some(second)], FrameSide::Vulkan) = (*words, frame.turn()) {
                        prop_assert_eq!(read(frame, &context), [first, second]);
                    }
                },
                Step::Drop(index) => if let Some(index) = any(&index) {
                    let Held { frame, words } = held.swap_remove(index);
                    contents[frame.index()] = words;
                    drop(frame);
                },
            }
        }
        // Half of the cases drop the ring first.
        if frames % 2 == 0 {
            drop(ring);
        }
        for Held { mut frame, words } in held {
            if let ([Some(first), Some(second)], FrameSide::Vulkan) = (words, frame.turn()) {
                prop_assert_eq!(read(&mut frame, &context), [first, second]);
            }
        }
        for stream in &streams {
            stream.synchronize_timeout(TIMEOUT).expect("all halves end");
        }
    });
}
