//! Whose an image is, as the commands of a [`Context`](crate::Context) leave it.

use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop_core::{Error, Result};

/// Whose an image is. In both states with an owner all of it is in the layout `GENERAL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ImageState {
    /// Nothing was done with it: it has no layout, and nobody else has heard of it.
    New,
    /// It belongs to this device's queue.
    Owned,
    /// It belongs to the other side: `VK_QUEUE_FAMILY_EXTERNAL`.
    External,
}

/// What a command does with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageCommand {
    Initialize,
    /// Reads or writes its texels.
    Copy,
    Release,
    Acquire,
}

impl ImageState {
    /// The state that the command leaves an image of this state in, or what must be done before.
    pub(crate) fn after(self, operation: &'static str, command: ImageCommand) -> Result<Self> {
        use ImageCommand::{Acquire, Copy, Initialize, Release};
        let message = match (self, command) {
            (Self::New | Self::Owned, Initialize) | (Self::Owned, Copy) | (Self::External, Acquire) => {
                return Ok(Self::Owned);
            }
            (Self::Owned, Release) => return Ok(Self::External),
            (Self::New, Copy | Release) => "the image has no layout yet; initialise it first",
            (Self::New, Acquire) => {
                "the image was never released to the other side; initialise it, and release it before the other side \
                 uses it"
            }
            (Self::Owned, Acquire) => "the image is this device's already; release it before the other side uses it",
            (Self::External, Initialize | Copy) => "the image belongs to the other side; acquire it first",
            (Self::External, Release) => {
                "the image belongs to the other side already; acquire it before it is released again"
            }
        };
        Err(Error::invalid(operation, message))
    }
}

/// An image's state, shared by its clones. Its changes are ordered by the lock of the queue that they are submitted to.
#[derive(Debug)]
pub(super) struct SharedState(AtomicU8);

impl SharedState {
    pub(super) fn new(state: ImageState) -> Self {
        Self(AtomicU8::new(state as u8))
    }

    pub(super) fn get(&self) -> ImageState {
        [ImageState::New, ImageState::Owned]
            .into_iter()
            .find(|state| *state as u8 == self.0.load(Ordering::Acquire))
            .unwrap_or(ImageState::External)
    }

    pub(super) fn set(&self, state: ImageState) {
        self.0.store(state as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::ImageCommand::{Acquire, Copy, Initialize, Release};
    use super::ImageState::{External, New, Owned};
    use super::*;

    #[test]
    fn commands_move_an_image_or_are_refused() {
        let cases = [
            (New, Initialize, Ok(Owned)),
            (New, Copy, Err("initialise it first")),
            (New, Release, Err("initialise it first")),
            (New, Acquire, Err("never released")),
            (Owned, Initialize, Ok(Owned)),
            (Owned, Copy, Ok(Owned)),
            (Owned, Release, Ok(External)),
            (Owned, Acquire, Err("this device's already")),
            (External, Initialize, Err("acquire it first")),
            (External, Copy, Err("acquire it first")),
            (External, Release, Err("the other side already")),
            (External, Acquire, Ok(Owned)),
        ];
        for (state, command, expected) in cases {
            match (state.after("op", command), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{command:?} on {state:?}"),
                (Err(error), Err(words)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    assert!(error.message().contains(words), "{command:?} on {state:?}: {error}");
                }
                (found, _) => panic!("{command:?} on {state:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_shared_state_keeps_what_was_set() {
        for state in [New, Owned, External] {
            let shared = SharedState::new(state);
            assert_eq!(shared.get(), state);
            for next in [New, Owned, External] {
                shared.set(next);
                assert_eq!(shared.get(), next);
            }
        }
    }
}
