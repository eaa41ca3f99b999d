//! Compares the shared structs with bindings generated from a vendor's headers. Both headers use the same field names,
//! so a backend's test only passes the types.

/// Compares size, alignment and the offset of each named field.
#[macro_export]
macro_rules! same_layout {
    ($ours:ty, $theirs:ty, $( $our_field:tt = $($their_field:tt).+ ),+ $(,)?) => {{
        use std::mem::{align_of, offset_of, size_of};
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), stringify!($ours));
        $( assert_eq!(
            offset_of!($ours, $our_field),
            offset_of!($theirs, $($their_field).+),
            concat!(stringify!($ours), ".", stringify!($our_field))
        ); )+
    }};
}

/// Compares the interop descriptors and parameters.
#[macro_export]
macro_rules! same_descriptors {
    ($memory:ty, $buffer:ty, $semaphore:ty, $signal:ty, $wait:ty) => {{
        use $crate::gpu_interop_driver::abi;
        $crate::same_layout!(
            abi::MemoryHandleDesc,
            $memory,
            kind = type_,
            handle = handle,
            size = size,
            flags = flags,
            reserved = reserved,
        );
        $crate::same_layout!(
            abi::MemoryBufferDesc,
            $buffer,
            offset = offset,
            size = size,
            flags = flags,
            reserved = reserved,
        );
        $crate::same_layout!(
            abi::SemaphoreHandleDesc,
            $semaphore,
            kind = type_,
            handle = handle,
            flags = flags,
            reserved = reserved,
        );
        $crate::same_layout!(
            abi::SemaphoreSignalParams,
            $signal,
            fence_value = params.fence.value,
            nv_sci_fence = params.nvSciSync,
            key = params.keyedMutex.key,
            params_reserved = params.reserved,
            flags = flags,
            reserved = reserved,
        );
        $crate::same_layout!(
            abi::SemaphoreWaitParams,
            $wait,
            fence_value = params.fence.value,
            nv_sci_fence = params.nvSciSync,
            key = params.keyedMutex.key,
            timeout_ms = params.keyedMutex.timeoutMs,
            params_reserved = params.reserved,
            flags = flags,
            reserved = reserved,
        );
    }};
}

/// Compares the descriptors of surfaces and textures.
#[macro_export]
macro_rules! same_textures {
    ($resource:ty, $texture:ty) => {{
        use $crate::gpu_interop_driver::texture::{ResourceDesc, TextureDesc};
        $crate::same_layout!(ResourceDesc, $resource, kind = resType, array = res, flags = flags);
        $crate::same_layout!(
            TextureDesc,
            $texture,
            address_mode = addressMode,
            filter_mode = filterMode,
            flags = flags,
            max_anisotropy = maxAnisotropy,
            mipmap_filter_mode = mipmapFilterMode,
            mipmap_level_bias = mipmapLevelBias,
            min_mipmap_level_clamp = minMipmapLevelClamp,
            max_mipmap_level_clamp = maxMipmapLevelClamp,
            border_color = borderColor,
            reserved = reserved,
        );
    }};
}

/// Compares the structs of virtual memory management.
#[macro_export]
macro_rules! same_virtual_memory {
    ($location:ty, $access:ty, $prop:ty) => {{
        use $crate::gpu_interop_driver::exportable::abi::{MemAccessDesc, MemAllocationProp, MemLocation};
        $crate::same_layout!(MemLocation, $location, kind = type_, id = id);
        $crate::same_layout!(MemAccessDesc, $access, location = location, flags = flags);
        $crate::same_layout!(
            MemAllocationProp,
            $prop,
            kind = type_,
            location = location,
            win32_handle_metadata = win32HandleMetaData,
            alloc_flags = allocFlags,
        );
    }};
}
