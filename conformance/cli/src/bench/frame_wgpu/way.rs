//! Frames of one variant: their order, time and verification.

use std::cell::Cell;
use std::time::Instant;

use gpu_interop_conformance::{Pattern, Verdict, ensure, ensure_eq};

use super::numbers::{IN_FLIGHT, PART, PICTURES, answered, length, place};
use super::texels::Texels;

/// Composed frames of graphics.
pub(super) trait Composer {
    /// Blocks until the frame has been composed.
    fn wait(&self, number: u32) -> Verdict;

    /// The parts of the latest frames.
    fn parts(&self) -> Verdict<Vec<u8>>;

    /// All of the last composed frame.
    fn composed(&self) -> Verdict<Vec<u8>>;
}

/// A variant. Frames have increasing numbers.
pub(super) trait Way {
    /// Draws a frame, and enqueues or submits as much of the rest as needs no wait for graphics.
    fn begin(&self, number: u32) -> Verdict;

    /// Lets graphics compose the frame and copy its two parts to [`place`].
    fn finish(&self, number: u32) -> Verdict;

    /// The graphics side, which composes frames.
    fn composer(&self) -> &dyn Composer;

    fn texels(&self) -> &Texels<'_>;
}

/// The frames of a variant.
pub(super) struct Frames<W> {
    way: W,
    /// The number of the last frame.
    last: Cell<u32>,
}

impl<W: Way> Frames<W> {
    /// Verifies every texel of a few frames, and that the verification detects wrong ones.
    pub(super) fn new(way: W, [width, height]: [u32; 2]) -> Verdict<Self> {
        let frames = Self { way, last: Cell::new(0) };
        for _ in 0..PICTURES {
            frames.round(1)?;
            let composed = frames.way.composer().composed()?;
            Pattern::new(answered(frames.last.get())).verify(0, &composed, "a composed frame")?;
        }
        frames.way.texels().expect_another_picture(true);
        let checked = frames.round(1);
        let found = frames.way.texels().take_mismatches()?;
        ensure!(checked.is_err(), "the verification accepts another picture");
        ensure_eq!(found, width * height, "texels that differ from those of another picture");
        frames.way.texels().expect_another_picture(false);
        Ok(frames)
    }

    /// The time of a frame in nanoseconds, with several in flight if there are several, and verified.
    pub(super) fn round(&self, count: u32) -> Verdict<f64> {
        let first = self.last.get() + 1;
        let end = first + count;
        self.last.set(end - 1);
        let start = Instant::now();
        for number in first..end {
            if let Some(before) = number.checked_sub(IN_FLIGHT).filter(|before| *before >= first) {
                self.way.composer().wait(before)?;
            }
            self.way.begin(number)?;
            // Graphics composes a frame after it has drawn the next ones: a queue that waits draws nothing.
            if let Some(before) = number.checked_sub(IN_FLIGHT - 1).filter(|before| *before >= first) {
                self.way.finish(before)?;
            }
        }
        for number in first.max(end.saturating_sub(IN_FLIGHT - 1))..end {
            self.way.finish(number)?;
        }
        self.way.composer().wait(end - 1)?;
        let elapsed = start.elapsed();
        self.check(first..end)?;
        Ok(elapsed.as_secs_f64() * 1e9 / f64::from(count))
    }

    fn check(&self, numbers: std::ops::Range<u32>) -> Verdict {
        ensure_eq!(self.way.texels().mismatches()?, 0, "texels that differ from what graphics drew");
        let parts = self.way.composer().parts()?;
        let part_of = |number: u32, index: u64| {
            let start = length(place(number) + index * PART);
            parts.get(start..).and_then(|rest| rest.get(..length(PART))).unwrap_or_default()
        };
        let size = self.way.texels().size();
        for number in numbers {
            let pattern = Pattern::new(answered(number));
            for (index, offset) in [(0, 0), (1, size - PART)] {
                let part = part_of(number, index);
                ensure_eq!(part.len() as u64, PART, "bytes of a part");
                pattern.verify(offset, part, "what came back from compute")?;
            }
        }
        Ok(())
    }
}
