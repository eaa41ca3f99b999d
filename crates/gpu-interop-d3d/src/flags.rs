//! Flags of Direct3D on every operating system, their conversion to array usage, and sharing modes of Direct3D 11.

use bitflags::bitflags;
use gpu_interop_core::{ArrayUsage, MemoryHandleKind, SemaphoreHandleKind};

/// Flag types of Direct3D's headers: `NAME = "prefix" { FLAG = bit; }`, each documented with the header's name.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal { $($flag:ident = $bit:literal;)* })*) => {
        bitflags! {$(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $name: u32 {
                $(
                    #[doc = concat!("`", $prefix, stringify!($flag), "`")]
                    const $flag = $bit;
                )*
                const _ = !0;
            }
        )*}
    };
}

flags! {
    /// `D3D12_RESOURCE_FLAGS`. Unnamed bits are kept.
    ResourceFlags = "D3D12_RESOURCE_FLAG_" {
        ALLOW_RENDER_TARGET = 0x1;
        ALLOW_DEPTH_STENCIL = 0x2;
        ALLOW_UNORDERED_ACCESS = 0x4;
        DENY_SHADER_RESOURCE = 0x8;
        ALLOW_CROSS_ADAPTER = 0x10;
        ALLOW_SIMULTANEOUS_ACCESS = 0x20;
        VIDEO_DECODE_REFERENCE_ONLY = 0x40;
        VIDEO_ENCODE_REFERENCE_ONLY = 0x80;
        RAYTRACING_ACCELERATION_STRUCTURE = 0x100;
    }

    /// `D3D11_BIND_FLAG`. Unnamed bits are kept.
    BindFlags = "D3D11_BIND_" {
        VERTEX_BUFFER = 0x1;
        INDEX_BUFFER = 0x2;
        CONSTANT_BUFFER = 0x4;
        SHADER_RESOURCE = 0x8;
        STREAM_OUTPUT = 0x10;
        RENDER_TARGET = 0x20;
        DEPTH_STENCIL = 0x40;
        UNORDERED_ACCESS = 0x80;
        DECODER = 0x200;
        VIDEO_ENCODER = 0x400;
    }

    /// The flags of `D3D11_RESOURCE_MISC_FLAG` for sharing and cubes. Other bits are kept.
    MiscFlags = "D3D11_RESOURCE_MISC_" {
        SHARED = 0x2;
        TEXTURECUBE = 0x4;
        SHARED_KEYEDMUTEX = 0x100;
        SHARED_NTHANDLE = 0x800;
    }
}

/// Conversions from and to a flag type of the `windows` crate.
macro_rules! flags_of_windows {
    ($($own:ident: $module:ident::$theirs:ident;)*) => { $(
        #[cfg(windows)]
        impl From<windows::Win32::Graphics::$module::$theirs> for $own {
            fn from(flags: windows::Win32::Graphics::$module::$theirs) -> Self {
                Self::from_bits_retain(flags.0.cast_unsigned())
            }
        }

        #[cfg(windows)]
        impl From<$own> for windows::Win32::Graphics::$module::$theirs {
            fn from(flags: $own) -> Self {
                Self(flags.bits().cast_signed())
            }
        }
    )* };
}

flags_of_windows! {
    ResourceFlags: Direct3D12::D3D12_RESOURCE_FLAGS;
    BindFlags: Direct3D11::D3D11_BIND_FLAG;
    MiscFlags: Direct3D11::D3D11_RESOURCE_MISC_FLAG;
}

/// Returns the array usage of a Direct3D 12 texture with these flags: `SURFACE_LOAD_STORE` for
/// `ALLOW_UNORDERED_ACCESS` and `COLOR_ATTACHMENT` for `ALLOW_RENDER_TARGET`; other flags have no effect on arrays. Add
/// [`ArrayUsage::SURFACE_LOAD_STORE`] if a kernel writes a texture that was created without unordered access.
#[must_use]
pub fn array_usage(flags: impl Into<ResourceFlags>) -> ArrayUsage {
    let flags = flags.into();
    usage(flags.contains(ResourceFlags::ALLOW_UNORDERED_ACCESS), flags.contains(ResourceFlags::ALLOW_RENDER_TARGET))
}

/// Returns the array usage of a Direct3D 11 texture with these bind flags: as [`array_usage`], from `UNORDERED_ACCESS`
/// and `RENDER_TARGET`.
#[must_use]
pub fn array_usage_of_bindings(flags: impl Into<BindFlags>) -> ArrayUsage {
    let flags = flags.into();
    usage(flags.contains(BindFlags::UNORDERED_ACCESS), flags.contains(BindFlags::RENDER_TARGET))
}

fn usage(unordered_access: bool, render_target: bool) -> ArrayUsage {
    let used = |flag, bit| if flag { bit } else { ArrayUsage::empty() };
    used(unordered_access, ArrayUsage::SURFACE_LOAD_STORE) | used(render_target, ArrayUsage::COLOR_ATTACHMENT)
}

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

    /// Checks the usage of each bit alone; bits that are not listed have none.
    fn each_bit_alone(usage: impl Fn(u32) -> ArrayUsage, used: [(u32, ArrayUsage); 2]) {
        for bit in (0..u32::BITS).map(|bit| 1 << bit) {
            let expected = used.iter().find(|(flag, _)| *flag == bit).map_or(ArrayUsage::empty(), |(_, usage)| *usage);
            assert_eq!(usage(bit), expected, "{bit:#x}");
        }
    }

    const BOTH: ArrayUsage = ArrayUsage::SURFACE_LOAD_STORE.union(ArrayUsage::COLOR_ATTACHMENT);

    #[test]
    fn each_resource_flag_alone_means_what_it_says() {
        let used = [(0x1, ArrayUsage::COLOR_ATTACHMENT), (0x4, ArrayUsage::SURFACE_LOAD_STORE)];
        each_bit_alone(|bit| array_usage(ResourceFlags::from_bits_retain(bit)), used);
        assert_eq!(array_usage(ResourceFlags::empty()), ArrayUsage::empty());
        assert_eq!(array_usage(ResourceFlags::all()), BOTH);
    }

    #[test]
    fn each_bind_flag_alone_means_what_it_says() {
        let used = [(0x20, ArrayUsage::COLOR_ATTACHMENT), (0x80, ArrayUsage::SURFACE_LOAD_STORE)];
        each_bit_alone(|bit| array_usage_of_bindings(BindFlags::from_bits_retain(bit)), used);
        let both = BindFlags::SHADER_RESOURCE | BindFlags::RENDER_TARGET | BindFlags::UNORDERED_ACCESS;
        assert_eq!(array_usage_of_bindings(both), BOTH);
    }

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
