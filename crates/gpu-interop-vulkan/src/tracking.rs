//! Ownership state of shared buffers and images, as the commands of a [`HeadlessContext`](crate::HeadlessContext)
//! change it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use ash::vk::Handle;
use gpu_interop_core::{Error, Result};

/// Type of the tracked object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    Buffer,
    Image,
}

impl Object {
    fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Image => "image",
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Owner of an object. In `Owned` and `External`, all of an image is in the layout `GENERAL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// New image without a layout, not shared yet. Buffers have no layout, so a new buffer is `Owned`.
    New,
    /// Owned by this device's queue family.
    Owned,
    /// Owned by the other API: `VK_QUEUE_FAMILY_EXTERNAL`.
    External,
}

/// Effect of a command on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Initialize,
    /// Reads or writes its contents.
    Use,
    Release,
    Acquire,
}

impl State {
    /// State after the command, or an error that names the missing command.
    fn after(self, operation: &'static str, object: Object, command: Command) -> Result<Self> {
        use Command::{Acquire, Initialize, Release, Use};
        let message = match (self, command) {
            (Self::New | Self::Owned, Initialize) | (Self::Owned, Use) | (Self::External, Acquire) => {
                return Ok(Self::Owned);
            }
            (Self::Owned, Release) => return Ok(Self::External),
            (Self::New, Use | Release) => {
                format!("the {object} has no layout yet; initialise it first (initialize_image, initialize_video)")
            }
            (Self::New, Acquire) => format!(
                "the {object} was never released to the other API; initialise it, and release it before the other \
                 API uses it"
            ),
            (Self::Owned, Acquire) => {
                format!("the {object} already belongs to this device; release it before the other API uses it")
            }
            (Self::External, Initialize | Use) => {
                format!("the {object} belongs to the other API; acquire it first")
            }
            (Self::External, Release) => {
                format!("the {object} already belongs to the other API; acquire it before releasing it again")
            }
        };
        Err(Error::invalid(operation, message))
    }
}

/// State of an object, shared by its clones. The lock of the queue that commands are submitted to orders its changes.
#[derive(Debug)]
pub(crate) struct Ownership {
    object: Object,
    /// The object's handle, for errors.
    raw: u64,
    state: AtomicU8,
}

impl Ownership {
    pub(crate) fn new(object: Object, raw: impl Handle, state: State) -> Self {
        Self { object, raw: raw.as_raw(), state: AtomicU8::new(state as u8) }
    }

    pub(crate) fn get(&self) -> State {
        [State::New, State::Owned]
            .into_iter()
            .find(|state| *state as u8 == self.state.load(Ordering::Acquire))
            .unwrap_or(State::External)
    }

    /// Sets the state. The caller holds the lock of the queue that it has submitted the commands to, or an application
    /// declared the state.
    pub(crate) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// State after the command for an object in `state`, or an error that names the missing command and the object.
    pub(crate) fn after(&self, operation: &'static str, state: State, command: Command) -> Result<State> {
        let Self { object, raw, .. } = self;
        state
            .after(operation, *object, command)
            .map_err(|error| error.with_context(object.name(), format_args!("{raw:#x}")))
    }
}

#[cfg(test)]
mod tests {
    use ash::vk;
    use gpu_interop_core::ErrorKind;

    use super::Command::{Acquire, Initialize, Release, Use};
    use super::State::{External, New, Owned};
    use super::*;

    #[test]
    fn commands_change_the_state_or_fail() {
        let cases = [
            (New, Initialize, Ok(Owned)),
            (New, Use, Err("initialise it first")),
            (New, Release, Err("initialise it first")),
            (New, Acquire, Err("never released")),
            (Owned, Initialize, Ok(Owned)),
            (Owned, Use, Ok(Owned)),
            (Owned, Release, Ok(External)),
            (Owned, Acquire, Err("already belongs to this device")),
            (External, Initialize, Err("acquire it first")),
            (External, Use, Err("acquire it first")),
            (External, Release, Err("already belongs to the other API")),
            (External, Acquire, Ok(Owned)),
        ];
        for (state, command, expected) in cases {
            for object in [Object::Buffer, Object::Image] {
                let shared = Ownership::new(object, vk::Buffer::from_raw(0x1234), state);
                match (shared.after("op", state, command), expected) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{command:?} on {state:?}"),
                    (Err(error), Err(words)) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                        let matches = error.message().contains(words) && error.message().contains(&object.to_string());
                        let is_named = error.to_string().contains(&format!("{object}: 0x1234"));
                        assert!(matches && is_named, "{command:?} on {state:?}: {error}");
                    }
                    (found, _) => panic!("{command:?} on {state:?}: {found:?}"),
                }
            }
        }
    }

    #[test]
    fn ownership_stores_every_state() {
        for state in [New, Owned, External] {
            let shared = Ownership::new(Object::Image, vk::Image::null(), state);
            assert_eq!(shared.get(), state);
            for next in [New, Owned, External] {
                shared.set(next);
                assert_eq!(shared.get(), next);
            }
        }
    }
}
