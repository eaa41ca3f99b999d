//! The exporting side of Direct3D 11. Windows only.
//!
//! A [`D3d11Interop`] is made from the application's own device; buffers, textures and fences made with it can be
//! exported. What is exported by NT handle stays valid on its own; a KMT handle is a number that is valid as long as
//! the resource.

mod fence;
mod interop;
mod keyed_mutex;
mod resource;

pub use fence::ExportableFence;
pub use interop::D3d11Interop;
pub use keyed_mutex::KeyedMutex;
pub use resource::ExportableResource;
