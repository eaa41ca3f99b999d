//! The exporting side of Direct3D 11. Windows only.
//!
//! A [`D3d11Interop`] is created from the application's device; buffers, textures and fences created with it can be
//! exported. An NT handle keeps the object alive; a KMT handle is a number, valid as long as the resource.

mod fence;
mod interop;
mod keyed_mutex;
mod resource;

pub use fence::ExportableFence;
pub use interop::D3d11Interop;
pub use keyed_mutex::KeyedMutex;
pub use resource::ExportableResource;
