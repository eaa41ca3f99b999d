//! Numbers, seeds and places of frames.

/// Frames in flight, each with its own texture.
pub(super) const IN_FLIGHT: u32 = 3;
/// Frames in a round with several in flight.
pub(super) const BATCH: u32 = 30;
/// Size in bytes of the first and of the last part of a frame that are verified after each round.
pub(super) const PART: u64 = 4096;
/// Both parts of all frames of a round.
pub(super) const PARTS: u64 = BATCH as u64 * 2 * PART;
/// The number of pictures that graphics draws in turn.
pub(super) const PICTURES: u32 = 4;

/// Where the parts of a frame are.
pub(super) fn place(number: u32) -> u64 {
    u64::from(number % BATCH) * 2 * PART
}

/// The seed of what graphics draws.
pub(super) fn drawn(number: u32) -> u32 {
    number % PICTURES
}

/// The seed of what compute writes.
pub(super) fn answered(number: u32) -> u32 {
    PICTURES + number
}

/// A number of bytes for a slice, which is never that long on a host that cannot count it.
pub(super) fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The texture of a frame.
pub(super) fn slot(number: u32) -> usize {
    (number % IN_FLIGHT) as usize
}
