//! Whose a shared buffer or image is, as the commands of a [`HeadlessContext`](crate::HeadlessContext) leave it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop_core::{Error, Result};

/// What is tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    Buffer,
    Image,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Buffer => "buffer",
            Self::Image => "image",
        })
    }
}

/// Whose an object is. In both states with an owner all of an image is in the layout `GENERAL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Nothing was done with it: it has no layout, and nobody else has heard of it. Images only: buffers have no
    /// layout, so a new one is this device's.
    New,
    /// It belongs to this device's queue.
    Owned,
    /// It belongs to the other side: `VK_QUEUE_FAMILY_EXTERNAL`.
    External,
}

/// What a command does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Initialize,
    /// Reads or writes its contents.
    Use,
    Release,
    Acquire,
}

impl State {
    /// The state that the command leaves an object of this state in, or what must be done before.
    fn after(self, operation: &'static str, object: Object, command: Command) -> Result<Self> {
        use Command::{Acquire, Initialize, Release, Use};
        let message = match (self, command) {
            (Self::New | Self::Owned, Initialize) | (Self::Owned, Use) | (Self::External, Acquire) => {
                return Ok(Self::Owned);
            }
            (Self::Owned, Release) => return Ok(Self::External),
            (Self::New, Use | Release) => format!("the {object} has no layout yet; initialise it first"),
            (Self::New, Acquire) => format!(
                "the {object} was never released to the other side; initialise it, and release it before the other \
                 side uses it"
            ),
            (Self::Owned, Acquire) => {
                format!("the {object} is this device's already; release it before the other side uses it")
            }
            (Self::External, Initialize | Use) => {
                format!("the {object} belongs to the other side; acquire it first")
            }
            (Self::External, Release) => {
                format!("the {object} belongs to the other side already; acquire it before it is released again")
            }
        };
        Err(Error::invalid(operation, message))
    }
}

/// An object's state, shared by its clones. Its changes are ordered by the lock of the queue that they are submitted to.
#[derive(Debug)]
pub(crate) struct Ownership {
    object: Object,
    state: AtomicU8,
}

impl Ownership {
    pub(crate) fn new(object: Object, state: State) -> Self {
        Self { object, state: AtomicU8::new(state as u8) }
    }

    pub(crate) fn get(&self) -> State {
        [State::New, State::Owned]
            .into_iter()
            .find(|state| *state as u8 == self.state.load(Ordering::Acquire))
            .unwrap_or(State::External)
    }

    /// The caller holds the lock of the queue that it has submitted the commands to, or was told by whoever submitted
    /// them.
    pub(crate) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// The state that the command leaves the object in if it was in `state`, or what must be done before.
    pub(crate) fn after(&self, operation: &'static str, state: State, command: Command) -> Result<State> {
        state.after(operation, self.object, command)
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::Command::{Acquire, Initialize, Release, Use};
    use super::State::{External, New, Owned};
    use super::*;

    #[test]
    fn commands_move_an_object_or_are_refused() {
        let cases = [
            (New, Initialize, Ok(Owned)),
            (New, Use, Err("initialise it first")),
            (New, Release, Err("initialise it first")),
            (New, Acquire, Err("never released")),
            (Owned, Initialize, Ok(Owned)),
            (Owned, Use, Ok(Owned)),
            (Owned, Release, Ok(External)),
            (Owned, Acquire, Err("this device's already")),
            (External, Initialize, Err("acquire it first")),
            (External, Use, Err("acquire it first")),
            (External, Release, Err("the other side already")),
            (External, Acquire, Ok(Owned)),
        ];
        for (state, command, expected) in cases {
            for object in [Object::Buffer, Object::Image] {
                match (Ownership::new(object, state).after("op", state, command), expected) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{command:?} on {state:?}"),
                    (Err(error), Err(words)) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                        let says = error.message().contains(words) && error.message().contains(&object.to_string());
                        assert!(says, "{command:?} on {state:?}: {error}");
                    }
                    (found, _) => panic!("{command:?} on {state:?}: {found:?}"),
                }
            }
        }
    }

    #[test]
    fn a_shared_state_keeps_what_was_set() {
        for state in [New, Owned, External] {
            let shared = Ownership::new(Object::Image, state);
            assert_eq!(shared.get(), state);
            for next in [New, Owned, External] {
                shared.set(next);
                assert_eq!(shared.get(), next);
            }
        }
    }
}
