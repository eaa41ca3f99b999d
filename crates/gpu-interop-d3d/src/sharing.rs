//! Sharing modes of Direct3D 11 resources.

use gpu_interop_core::{MemoryHandleKind, SemaphoreHandleKind};

use crate::flags::MiscFlags;

/// Sharing mode of a Direct3D 11 resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sharing {
    /// By NT handle, without a keyed mutex: synchronise with a fence, for example. Windows 10 or later.
    NtHandle,
    /// By NT handle, with a keyed mutex. Windows 8 or later.
    NtHandleKeyedMutex,
    /// By global share (KMT) handle, without a keyed mutex.
    Kmt,
    /// By global share (KMT) handle, with a keyed mutex.
    KmtKeyedMutex,
}

impl Sharing {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::NtHandle, Self::NtHandleKeyedMutex, Self::Kmt, Self::KmtKeyedMutex];

    /// The flags to create such a resource with.
    #[must_use]
    pub fn misc_flags(self) -> MiscFlags {
        match self {
            Self::NtHandle => MiscFlags::SHARED_NTHANDLE | MiscFlags::SHARED,
            Self::NtHandleKeyedMutex => MiscFlags::SHARED_NTHANDLE | MiscFlags::SHARED_KEYEDMUTEX,
            Self::Kmt => MiscFlags::SHARED,
            Self::KmtKeyedMutex => MiscFlags::SHARED_KEYEDMUTEX,
        }
    }

    /// The handle kind that the resource is exported as.
    #[must_use]
    pub fn memory_handle_kind(self) -> MemoryHandleKind {
        if self.is_nt() { MemoryHandleKind::D3d11Resource } else { MemoryHandleKind::D3d11ResourceKmt }
    }

    /// The handle kind that the keyed mutex is exported as; `None` without one.
    #[must_use]
    pub fn semaphore_handle_kind(self) -> Option<SemaphoreHandleKind> {
        match self {
            Self::NtHandleKeyedMutex => Some(SemaphoreHandleKind::D3d11KeyedMutex),
            Self::KmtKeyedMutex => Some(SemaphoreHandleKind::D3d11KeyedMutexKmt),
            Self::NtHandle | Self::Kmt => None,
        }
    }

    pub(crate) fn is_nt(self) -> bool {
        matches!(self, Self::NtHandle | Self::NtHandleKeyedMutex)
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::SemaphorePayload;

    use super::*;

    #[test]
    fn flags_match_handle_kinds() {
        for sharing in Sharing::ALL {
            let flags = sharing.misc_flags();
            let nt = flags.contains(MiscFlags::SHARED_NTHANDLE);
            assert_eq!(sharing.memory_handle_kind() == MemoryHandleKind::D3d11Resource, nt, "{sharing:?}");
            assert!(sharing.memory_handle_kind().requires_dedicated());
            // Direct3D requires exactly one of the two sharing flags.
            let mutex = flags.contains(MiscFlags::SHARED_KEYEDMUTEX);
            assert_eq!(flags.contains(MiscFlags::SHARED), !mutex, "{sharing:?}");
            let kind = sharing.semaphore_handle_kind();
            assert_eq!(kind.is_some(), mutex, "{sharing:?}");
            assert!(kind.is_none_or(|kind| kind.payload() == SemaphorePayload::KeyedMutex));
            assert_eq!(kind == Some(SemaphoreHandleKind::D3d11KeyedMutexKmt), mutex && !nt, "{sharing:?}");
        }
        assert_eq!(Sharing::NtHandleKeyedMutex.misc_flags().bits(), 0x900);
    }
}
