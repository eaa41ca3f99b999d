//! The objects behind handles: one table for all types, with numbers that are never used again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, RwLock};

use gpu_interop::sync::unpoisoned;
use gpu_interop::{Error, Result};

use crate::buffer::LinearMemory;
use crate::exporter::Exporter;

/// A handle type and its objects.
pub(crate) trait Handle: Copy {
    type Object;
    const NAME: &'static str;

    fn id(self) -> u64;
    fn from_id(id: u64) -> Self;
    fn wrap(object: Arc<Self::Object>) -> Object;
    fn unwrap(object: &Object) -> Option<&Arc<Self::Object>>;
}

/// Object of any type.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Backend(Arc<gpu_interop::Selection>),
    Device(Arc<gpu_interop::Device>),
    Memory(Arc<gpu_interop::ExternalMemory>),
    Buffer(Arc<LinearMemory>),
    Array(Arc<gpu_interop::MappedMipmappedArray>),
    Stream(Arc<gpu_interop::Stream>),
    Event(Arc<gpu_interop::Event>),
    Module(Arc<gpu_interop::Module>),
    Kernel(Arc<gpu_interop::Kernel>),
    Semaphore(Arc<gpu_interop::ExternalSemaphore>),
    ExportedSemaphore(Arc<Exporter>),
    Timeline(Arc<gpu_interop::Timeline>),
    Vulkan(Arc<gpu_interop::vulkan::VulkanInterop>),
    VulkanBuffer(Arc<gpu_interop::vulkan::ExportableBuffer>),
    VulkanImage(Arc<gpu_interop::vulkan::ExportableImage>),
}

impl Object {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Backend(_) => "gpi_backend",
            Self::Device(_) => "gpi_device",
            Self::Memory(_) => "gpi_memory",
            Self::Buffer(_) => "gpi_buffer",
            Self::Array(_) => "gpi_array",
            Self::Stream(_) => "gpi_stream",
            Self::Event(_) => "gpi_event",
            Self::Module(_) => "gpi_module",
            Self::Kernel(_) => "gpi_kernel",
            Self::Semaphore(_) => "gpi_semaphore",
            Self::ExportedSemaphore(_) => "gpi_exported_semaphore",
            Self::Timeline(_) => "gpi_timeline",
            Self::Vulkan(_) => "gpi_vulkan",
            Self::VulkanBuffer(_) => "gpi_vulkan_buffer",
            Self::VulkanImage(_) => "gpi_vulkan_image",
        }
    }
}

/// Objects by their numbers, which count up: no destroyed handle becomes valid again.
struct Table {
    objects: HashMap<u64, Object>,
    /// Number of the next object. A process that creates a handle each nanosecond reaches `secret`'s bit in 292 years.
    next: u64,
    /// Random number of this process. Handles are the numbers combined with it, so that a handle of another process, memory
    /// that is not initialised and small numbers match none.
    secret: u64,
}

impl Table {
    fn get(&self, id: u64) -> Option<&Object> {
        self.objects.get(&(id ^ self.secret))
    }
}

/// Locked for the look-up of a handle only. A child of `fork` may find it locked by a thread that it does not have: the header
/// forbids every call there, and a check of the process in each call could not free the lock.
static OBJECTS: LazyLock<RwLock<Table>> = LazyLock::new(|| {
    // With this bit set, no handle is 0.
    let secret = RandomState::new().hash_one(0) | 1 << 63;
    RwLock::new(Table { objects: HashMap::new(), next: 0, secret })
});

fn unknown<H: Handle>(operation: &'static str, id: u64, found: Option<&Object>) -> Error {
    let message = match found {
        _ if id == 0 => format!("the {} is null; create the object first", H::NAME),
        Some(other) => format!("the handle is a {}, not a {}", other.type_name(), H::NAME),
        None => format!("the {} does not exist; it was destroyed, or is not a handle of this process", H::NAME),
    };
    Error::invalid(operation, message).with_context("handle", format_args!("{id:#x}"))
}

/// Adds an object, and returns its new handle.
pub(crate) fn add<H: Handle>(object: H::Object) -> H {
    let mut table = unpoisoned(OBJECTS.write());
    let number = table.next;
    table.next += 1;
    table.objects.insert(number, H::wrap(Arc::new(object)));
    H::from_id(number ^ table.secret)
}

/// Returns the object of a handle. It lives until the returned reference is dropped, also if another thread destroys the
/// handle meanwhile.
pub(crate) fn get<H: Handle>(operation: &'static str, handle: H) -> Result<Arc<H::Object>> {
    let table = unpoisoned(OBJECTS.read());
    let found = table.get(handle.id());
    match found.and_then(H::unwrap) {
        Some(object) => Ok(object.clone()),
        None => Err(unknown::<H>(operation, handle.id(), found)),
    }
}

/// Removes a handle. Returns its object, which the caller drops: outside of the lock, because a drop may call the
/// application.
pub(crate) fn remove<H: Handle>(operation: &'static str, handle: H) -> Result<Arc<H::Object>> {
    let mut table = unpoisoned(OBJECTS.write());
    let found = table.get(handle.id());
    let Some(object) = found.and_then(H::unwrap).cloned() else {
        return Err(unknown::<H>(operation, handle.id(), found));
    };
    let number = handle.id() ^ table.secret;
    table.objects.remove(&number);
    Ok(object)
}

/// Number of live handles.
pub(crate) fn count() -> usize {
    unpoisoned(OBJECTS.read()).objects.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::gpi_backend;

    /// As many as a table with a generation of 31 bits in each slot would need to give a number again.
    #[test]
    fn a_destroyed_handle_stays_invalid() {
        let new = || add::<gpi_backend>(gpu_interop::select(gpu_interop::BackendChoice::Auto).expect("the host"));
        let first = new();
        drop(remove("test", first).expect("live"));
        OBJECTS.write().expect("no panic").next += (1 << 31) - 1;
        let later = new();
        assert_ne!(first.id, later.id);
        assert!(get("test", first).is_err() && get("test", later).is_ok());
        // The high bits of the number are part of the handle.
        assert!(get("test", gpi_backend { id: later.id ^ 1 << 62 }).is_err());
        drop(remove("test", later).expect("live"));
    }
}
