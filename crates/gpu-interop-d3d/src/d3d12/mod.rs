//! The exporting side of Direct3D 12. Windows only.
//!
//! A [`D3d12Interop`] is made from the application's own device; heaps, committed resources and fences made with it can
//! be exported. What is exported stays valid on its own: handle and importer each keep the object.

mod fence;
mod heap;
mod interop;
mod resource;

pub use fence::ExportableFence;
pub use heap::{ExportableHeap, HeapContents, HeapOptions, PlacedResource};
pub use interop::D3d12Interop;
pub use resource::ExportableResource;
