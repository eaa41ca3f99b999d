//! Macros for methods that several public types have.

/// Builder methods that set the field of the same name.
macro_rules! setters {
    ($type:ident { $($(#[$doc:meta])* $field:ident: $value:ty;)* }) => {
        impl $type {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}

/// Accessors for the memory of a type with the fields `inner.memory` and `inner.$object.interop`.
macro_rules! memory_accessors {
    ($type:ident, $object:ident) => {
        impl $type {
            /// The `VkDeviceMemory`, valid as long as a clone of this object lives. Host-visible memory is already
            /// mapped; mapping it again is an error.
            #[must_use]
            pub fn memory(&self) -> ash::vk::DeviceMemory {
                self.inner.memory.as_raw()
            }

            /// The size of the memory allocation, bytes. An importer needs it.
            #[must_use]
            pub fn allocation_size(&self) -> u64 {
                self.inner.memory.size()
            }

            /// The index of the memory type in [`VulkanInterop::memory_types`](crate::VulkanInterop::memory_types).
            #[must_use]
            pub fn memory_type(&self) -> u32 {
                self.inner.memory.memory_type()
            }

            /// Reports whether the memory is a dedicated allocation. An importer needs this flag.
            #[must_use]
            pub fn is_dedicated(&self) -> bool {
                self.inner.memory.is_dedicated()
            }

            /// The address of the object's first byte, if its memory is host-visible. Valid as long as a clone of this
            /// object lives.
            #[must_use]
            pub fn mapped_ptr(&self) -> Option<std::ptr::NonNull<u8>> {
                self.inner.memory.mapped_ptr()
            }

            /// The device that this object belongs to.
            #[must_use]
            pub fn interop(&self) -> &crate::VulkanInterop {
                &self.inner.$object.interop
            }
        }
    };
}
