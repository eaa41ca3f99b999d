//! The safe objects. All validation, ownership and lifetime policy is here, once for every backend.

mod array;
mod buffer;
mod device;
mod event;
mod exportable;
mod host_function;
mod lifetime;
mod memory;
mod module;
mod semaphore;
mod stream;
#[cfg(test)]
mod tests;
mod transfer;
mod validate;

pub use array::MappedMipmappedArray;
pub use buffer::{BufferSlice, MappedBuffer};
pub use device::Device;
pub use event::Event;
pub use exportable::ExportableMemory;
pub use memory::ExternalMemory;
pub use module::{Kernel, Module};
pub use semaphore::{ExternalSemaphore, SemaphoreSignal, SemaphoreWait};
pub use stream::Stream;
