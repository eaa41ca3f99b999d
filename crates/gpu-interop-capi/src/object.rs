//! The objects behind handles: one table for all types, with numbers that are never reused while a stale handle could
//! match.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use gpu_interop::{Error, Result};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};

use crate::exporter::Exporter;
use crate::linear_memory::LinearMemory;

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

static OBJECTS: RwLock<Option<SlotMap<DefaultKey, Object>>> = RwLock::new(None);

/// Random number of this process. Handles are the keys of the table combined with it, so that a handle of another process,
/// memory that is not initialised and small numbers match none.
fn secret() -> u64 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    // Indices of the table have 31 bits: with the next bit set, no handle is 0.
    *SECRET.get_or_init(|| RandomState::new().hash_one(0) | 1 << 31)
}

/// The key of a number that this table has issued or could issue; `None` for other numbers.
fn key(id: u64) -> Option<DefaultKey> {
    let number = id ^ secret();
    let data = KeyData::from_ffi(number);
    (data.as_ffi() == number).then(|| data.into())
}

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
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    let key = objects.get_or_insert_default().insert(H::wrap(Arc::new(object)));
    H::from_id(key.data().as_ffi() ^ secret())
}

/// Returns the object of a handle. It lives until the returned reference is dropped, also if another thread destroys the
/// handle meanwhile.
pub(crate) fn get<H: Handle>(operation: &'static str, handle: H) -> Result<Arc<H::Object>> {
    let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
    let found = objects.as_ref().and_then(|objects| objects.get(key(handle.id())?));
    match found.and_then(H::unwrap) {
        Some(object) => Ok(object.clone()),
        None => Err(unknown::<H>(operation, handle.id(), found)),
    }
}

/// Removes a handle. Returns its object, which the caller drops: outside of the lock, because a drop may call the
/// application.
pub(crate) fn remove<H: Handle>(operation: &'static str, handle: H) -> Result<Arc<H::Object>> {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    let found = objects.as_ref().and_then(|objects| objects.get(key(handle.id())?));
    let Some(object) = found.and_then(H::unwrap).cloned() else {
        return Err(unknown::<H>(operation, handle.id(), found));
    };
    if let (Some(objects), Some(key)) = (objects.as_mut(), key(handle.id())) {
        objects.remove(key);
    }
    Ok(object)
}

/// Number of live handles.
pub(crate) fn count() -> usize {
    let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
    objects.as_ref().map_or(0, SlotMap::len)
}
