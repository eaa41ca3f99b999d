//! Safe objects, with validation, ownership and lifetime policy for all backends.

mod array;
mod array_copy;
mod awaited;
mod batch_values;
mod borrowed;
mod buffer;
mod device;
mod device_state;
mod event;
mod exportable;
mod graph;
mod held_values;
mod host_function;
mod last_signalled;
mod lifetime;
mod mapped_range;
mod memory;
mod module;
mod owned;
mod prepared_batch;
mod prepared_form;
mod progress;
mod raiser;
mod recording;
mod resource;
mod retired;
mod same_gpu;
mod semaphore;
mod semaphore_batch;
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
pub use borrowed::BorrowedMemory;
pub use buffer::{BufferSlice, MappedBuffer};
pub use device::Device;
pub use event::Event;
pub use exportable::ExportableMemory;
pub use graph::Graph;
pub use mapped_range::MappedRange;
pub use memory::ExternalMemory;
pub use module::{Kernel, Module};
pub use prepared_batch::{SemaphoreRef, SignalBatch, WaitBatch};
pub use semaphore::{ExternalSemaphore, SemaphoreSignal, SemaphoreWait};
pub use stream::Stream;
pub use texture::{Surface, Texture};
pub use timeline::Timeline;
