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
