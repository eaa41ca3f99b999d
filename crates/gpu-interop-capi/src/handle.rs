//! Handle types of C.

use std::sync::Arc;

use crate::buffer::LinearMemory;
use crate::exporter::Exporter;
use crate::object::{self, Handle, Object};

/// A loaded driver: CUDA, HIP or the CPU. All zero is the null handle, which no function accepts; the same holds for every
/// type of handle. Free it with `gpi_backend_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_backend {
    /// Number of the object.
    pub id: u64,
}

/// An opened device. Objects made from it keep it open. Free it with `gpi_device_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_device {
    /// Number of the object.
    pub id: u64,
}

/// Imported memory. Its buffers and arrays keep it alive. Free it with `gpi_memory_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_memory {
    /// Number of the object.
    pub id: u64,
}

/// Linear device memory: a mapped range of imported memory, exportable memory, or memory of the application. Free it with
/// `gpi_buffer_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_buffer {
    /// Number of the object.
    pub id: u64,
}

/// An image in imported memory, mapped as a mipmapped array. Free it with `gpi_array_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_array {
    /// Number of the object.
    pub id: u64,
}

/// A queue of work that runs in order, asynchronously to the host. Free it with `gpi_stream_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_stream {
    /// Number of the object.
    pub id: u64,
}

/// A marker in a stream's work. Free it with `gpi_event_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_event {
    /// Number of the object.
    pub id: u64,
}

/// A loaded module of kernels. Free it with `gpi_module_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_module {
    /// Number of the object.
    pub id: u64,
}

/// A kernel, which keeps its module loaded. Free it with `gpi_kernel_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_kernel {
    /// Number of the object.
    pub id: u64,
}

/// An imported semaphore. Free it with `gpi_semaphore_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_semaphore {
    /// Number of the object.
    pub id: u64,
}

/// The exporter's side of a semaphore: Vulkan's, the host backend's, or one behind callbacks of the application. Free it
/// with `gpi_exported_semaphore_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_exported_semaphore {
    /// Number of the object.
    pub id: u64,
}

/// A counter that streams and an exporter share. Free it with `gpi_timeline_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_timeline {
    /// Number of the object.
    pub id: u64,
}

/// The application's Vulkan device. Free it with `gpi_vulkan_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_vulkan {
    /// Number of the object.
    pub id: u64,
}

/// An exportable buffer of Vulkan. Free it with `gpi_vulkan_buffer_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_vulkan_buffer {
    /// Number of the object.
    pub id: u64,
}

/// An exportable image of Vulkan. Free it with `gpi_vulkan_image_destroy`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_vulkan_image {
    /// Number of the object.
    pub id: u64,
}

macro_rules! handles {
    ($($handle:ident $variant:ident: $object:ty;)+) => { $(
        impl Handle for $handle {
            type Object = $object;
            const NAME: &'static str = stringify!($handle);

            fn id(self) -> u64 {
                self.id
            }

            fn from_id(id: u64) -> Self {
                Self { id }
            }

            fn wrap(object: Arc<$object>) -> Object {
                Object::$variant(object)
            }

            fn unwrap(object: &Object) -> Option<&Arc<$object>> {
                match object {
                    Object::$variant(object) => Some(object),
                    _ => None,
                }
            }
        }
    )+ };
}

handles! {
    gpi_backend Backend: gpu_interop::Selection;
    gpi_device Device: gpu_interop::Device;
    gpi_memory Memory: gpu_interop::ExternalMemory;
    gpi_buffer Buffer: LinearMemory;
    gpi_array Array: gpu_interop::MappedMipmappedArray;
    gpi_stream Stream: gpu_interop::Stream;
    gpi_event Event: gpu_interop::Event;
    gpi_module Module: gpu_interop::Module;
    gpi_kernel Kernel: gpu_interop::Kernel;
    gpi_semaphore Semaphore: gpu_interop::ExternalSemaphore;
    gpi_exported_semaphore ExportedSemaphore: Exporter;
    gpi_timeline Timeline: gpu_interop::Timeline;
    gpi_vulkan Vulkan: gpu_interop::vulkan::VulkanInterop;
    gpi_vulkan_buffer VulkanBuffer: gpu_interop::vulkan::ExportableBuffer;
    gpi_vulkan_image VulkanImage: gpu_interop::vulkan::ExportableImage;
}

/// Returns the number of live handles of this process, for leak checks: 0 if every handle was destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_live_handles() -> usize {
    object::count()
}
