//! Compares the shared structs with bindings generated from a vendor's headers. Both headers use the same field names,
//! so a backend's test only passes the types.

/// Compares size, alignment and the offset of each named field: `OURS, THEIRS: ours = theirs.path, same, ...`.
#[macro_export]
macro_rules! same_layout {
    ($ours:ty, $theirs:ty: $( $field:tt $(= $($theirs_field:tt).+)? ),+) => {{
        use std::mem::{align_of, offset_of, size_of};
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), stringify!($ours));
        $( assert_eq!(
            offset_of!($ours, $field),
            $crate::offset_of_theirs!($theirs, $field $(, $($theirs_field).+)?),
            concat!(stringify!($ours), ".", stringify!($field))
        ); )+
    }};
}

/// The offset of a field that has the same name in both, or another path.
#[doc(hidden)]
#[macro_export]
macro_rules! offset_of_theirs {
    ($theirs:ty, $field:tt) => {
        std::mem::offset_of!($theirs, $field)
    };
    ($theirs:ty, $field:tt, $($path:tt).+) => {
        std::mem::offset_of!($theirs, $($path).+)
    };
}

/// Compares the interop descriptors and parameters.
#[macro_export]
macro_rules! same_descriptors {
    ($memory:ty, $buffer:ty, $semaphore:ty, $signal:ty, $wait:ty) => {{
        use $crate::gpu_interop_driver::abi;
        $crate::same_layout! { abi::MemoryHandleDesc, $memory: kind = type_, handle, size, flags, reserved }
        $crate::same_layout! { abi::MemoryBufferDesc, $buffer: offset, size, flags, reserved }
        $crate::same_layout! { abi::SemaphoreHandleDesc, $semaphore: kind = type_, handle, flags, reserved }
        $crate::same_layout! {
            abi::SemaphoreSignalParams, $signal:
            fence_value = params.fence.value, nv_sci_fence = params.nvSciSync, key = params.keyedMutex.key,
            params_reserved = params.reserved, flags, reserved
        }
        $crate::same_layout! {
            abi::SemaphoreWaitParams, $wait:
            fence_value = params.fence.value, nv_sci_fence = params.nvSciSync, key = params.keyedMutex.key,
            timeout_ms = params.keyedMutex.timeoutMs, params_reserved = params.reserved, flags, reserved
        }
    }};
}

/// Compares the descriptors of surfaces and textures.
#[macro_export]
macro_rules! same_textures {
    ($resource:ty, $texture:ty) => {{
        use $crate::gpu_interop_driver::texture::{ResourceDesc, TextureDesc};
        $crate::same_layout! { ResourceDesc, $resource: kind = resType, array = res, flags }
        $crate::same_layout! {
            TextureDesc, $texture:
            address_mode = addressMode, filter_mode = filterMode, flags, max_anisotropy = maxAnisotropy,
            mipmap_filter_mode = mipmapFilterMode, mipmap_level_bias = mipmapLevelBias,
            min_mipmap_level_clamp = minMipmapLevelClamp, max_mipmap_level_clamp = maxMipmapLevelClamp,
            border_color = borderColor, reserved
        }
    }};
}

/// Compares the structs of virtual memory management.
#[macro_export]
macro_rules! same_virtual_memory {
    ($location:ty, $access:ty, $prop:ty) => {{
        use $crate::gpu_interop_driver::exportable::abi::{MemAccessDesc, MemAllocationProp, MemLocation};
        $crate::same_layout! { MemLocation, $location: kind = type_, id }
        $crate::same_layout! { MemAccessDesc, $access: location, flags }
        $crate::same_layout! {
            MemAllocationProp, $prop:
            kind = type_, location, win32_handle_metadata = win32HandleMetaData, alloc_flags = allocFlags
        }
    }};
}

/// Compares the struct of array copies: `RESERVED, THEIRS`, and the fields of the reserved bytes if there are any.
#[macro_export]
macro_rules! same_copies {
    ($reserved:ty, $theirs:ty $(, $src_reserved:ident, $dst_reserved:ident)?) => {{
        use std::mem::{offset_of, size_of};
        use $crate::gpu_interop_driver::array::{Memcpy3d, Memcpy3dSide};
        type Ours = Memcpy3d<$reserved>;
        type Side = Memcpy3dSide<$reserved>;
        type Theirs = $theirs;
        assert_eq!(size_of::<Ours>(), size_of::<Theirs>());
        let fields = [
            (offset_of!(Side, offset), offset_of!(Theirs, srcXInBytes), offset_of!(Theirs, dstXInBytes)),
            (offset_of!(Side, level_of_detail), offset_of!(Theirs, srcLOD), offset_of!(Theirs, dstLOD)),
            (offset_of!(Side, memory_type), offset_of!(Theirs, srcMemoryType), offset_of!(Theirs, dstMemoryType)),
            (offset_of!(Side, host), offset_of!(Theirs, srcHost), offset_of!(Theirs, dstHost)),
            (offset_of!(Side, device), offset_of!(Theirs, srcDevice), offset_of!(Theirs, dstDevice)),
            (offset_of!(Side, array), offset_of!(Theirs, srcArray), offset_of!(Theirs, dstArray)),
            $((offset_of!(Side, reserved), offset_of!(Theirs, $src_reserved), offset_of!(Theirs, $dst_reserved)),)?
            (offset_of!(Side, pitch), offset_of!(Theirs, srcPitch), offset_of!(Theirs, dstPitch)),
            (offset_of!(Side, height), offset_of!(Theirs, srcHeight), offset_of!(Theirs, dstHeight)),
        ];
        for (ours, src, dst) in fields {
            assert_eq!((offset_of!(Ours, src) + ours, offset_of!(Ours, dst) + ours), (src, dst));
        }
        assert_eq!(offset_of!(Ours, extent), offset_of!(Theirs, WidthInBytes));
    }};
}
