//! Safe objects, with validation, ownership and lifetime policy for all backends.

mod array;
mod array_copy;
mod batch_values;
mod buffer;
mod device;
mod device_state;
mod graph;
mod lifetime;
mod memory;
mod module;
mod prepared_batch;
mod progress;
mod semaphore;
mod slots;
mod stream;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod texture;
mod timeline;
mod transfer;
mod validate;

pub use array::{ArrayRegion, MappedMipmappedArray};
pub use array_copy::PitchedTexels;
pub use buffer::{BufferSlice, MappedBuffer};
pub use device::Device;
pub use graph::Graph;
pub use memory::BorrowedMemory;
pub use memory::ExportableMemory;
pub use memory::ExternalMemory;
pub use memory::MappedRange;
pub use module::{Kernel, Module};
pub use prepared_batch::{SemaphoreRef, SignalBatch, WaitBatch};
pub use semaphore::{ExternalSemaphore, SemaphoreSignal, SemaphoreWait};
pub use stream::Event;
pub use stream::Stream;
pub use texture::{Surface, Texture};
pub use timeline::Timeline;
