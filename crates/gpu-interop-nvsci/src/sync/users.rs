//! Uses requested by attribute lists, by user. The driver may fail a use that was not requested.

use gpu_interop_core::{Device, Error, NvSciSyncUse, Result, Uuid};

/// A user of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Cpu,
    /// Identified by its UUID, if known.
    Device(Option<Uuid>),
}

impl User {
    pub(crate) fn device(device: &Device) -> Self {
        Self::Device(device.identity().uuid)
    }

    /// `true` if both may be the same. A device without a UUID may be any device.
    fn may_be(self, other: Self) -> bool {
        match (self, other) {
            (Self::Device(None), Self::Device(_)) | (Self::Device(_), Self::Device(None)) => true,
            _ => self == other,
        }
    }
}

/// The uses that each attribute list of an object requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Users(Vec<(User, NvSciSyncUse)>);

impl Users {
    pub(crate) fn new(asked: impl IntoIterator<Item = (User, NvSciSyncUse)>) -> Self {
        Self(asked.into_iter().collect())
    }

    /// Number of lists that requested a use.
    pub(crate) fn count(&self, wanted: NvSciSyncUse) -> usize {
        self.0.iter().filter(|(_, uses)| uses.contains(wanted)).count()
    }

    /// Fails unless a list of this user requested a use. `wanted` must be a single use.
    pub(crate) fn need(&self, operation: &'static str, user: User, wanted: NvSciSyncUse) -> Result<()> {
        let asked = |(other, uses): &(User, NvSciSyncUse)| user.may_be(*other) && uses.contains(wanted);
        if self.0.iter().any(asked) {
            return Ok(());
        }
        let (verb, name) = if wanted == NvSciSyncUse::SIGNAL { ("signal", "SIGNAL") } else { ("wait for", "WAIT") };
        let (user, list) = match user {
            User::Cpu => ("the CPU", "for_cpu"),
            User::Device(_) => ("this device", "for_device"),
        };
        let message = format!(
            "no attribute list of the object requested that {user} may {verb} it; reconcile one of \
             `SyncAttributeList::{list}` with `NvSciSyncUse::{name}`"
        );
        Err(Error::invalid(operation, message))
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn a_use_is_a_users_own() {
        let uuid = |byte| Uuid::from_bytes([byte; 16]);
        let (first, second) = (User::Device(uuid(1)), User::Device(uuid(2)));
        let (signal, wait) = (NvSciSyncUse::SIGNAL, NvSciSyncUse::WAIT);
        let users = Users::new([(first, signal), (second, wait), (User::Cpu, wait)]);
        assert_eq!((users.count(signal), users.count(wait)), (1, 2));
        for (user, signals, waits) in [
            (first, true, false),
            (second, false, true),
            (User::Device(uuid(3)), false, false),
            (User::Device(None), true, true),
            (User::Cpu, false, true),
        ] {
            for (wanted, expected) in [(signal, signals), (wait, waits)] {
                let needed = users.need("op", user, wanted);
                assert_eq!(needed.is_ok(), expected, "{user:?}: {wanted:?}");
                assert!(needed.err().is_none_or(|error| error.kind() == ErrorKind::InvalidArgument));
            }
        }
        let nameless = Users::new([(User::Device(None), signal)]);
        assert!(nameless.need("op", first, signal).is_ok() && nameless.need("op", User::Cpu, signal).is_err());
    }

    #[test]
    fn an_error_names_the_list_to_make() {
        let none = Users::new([]);
        for (user, wanted, parts) in [
            (User::Cpu, NvSciSyncUse::SIGNAL, ["the CPU may signal", "for_cpu", "NvSciSyncUse::SIGNAL"]),
            (User::Device(None), NvSciSyncUse::WAIT, ["this device may wait for", "for_device", "NvSciSyncUse::WAIT"]),
        ] {
            let error = none.need("op", user, wanted).expect_err("not requested");
            assert!(parts.iter().all(|part| error.message().contains(part)), "{error}");
        }
    }
}
