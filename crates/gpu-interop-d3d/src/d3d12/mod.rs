//! The exporting side of Direct3D 12. Windows only.
//!
//! A [`D3d12Interop`] is created from the application's device; heaps, committed resources and fences created with it
//! can be exported. Handles and importers each keep the object alive.

mod fence;
mod heap;
mod interop;
mod resource;

pub use fence::ExportableFence;
pub use heap::{ExportableHeap, HeapContents, HeapOptions, PlacedResource};
pub use interop::D3d12Interop;
pub use resource::ExportableResource;
