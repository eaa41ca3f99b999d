//! NvSciBuf: attribute lists of buffers, and buffers.

mod attributes;
mod image;
mod list;
mod object;
mod reconciled;

use gpu_interop_core::Result;

pub use attributes::{BufferAttributes, GpuAttributes, Permission};
pub use image::{ColorFormat, ImageAttributes, ImageLayout, PlaneAttributes};
pub use list::{BufferAttributeList, ReconciledBufferAttributes};
pub use object::Buffer;
pub use reconciled::{BufferProperties, Plane};

use crate::library::NvSci;

crate::module::module! {
    /// An open module of NvSciBuf (`NvSciBufModule`), which everything made from it keeps open. Cheap to clone.
    BufferModule of buf: "NvSciBuf"
}

impl NvSci {
    /// Opens a module of buffers (`NvSciBufModuleOpen`). Objects of two modules do not mix.
    ///
    /// # Errors
    /// The library's error.
    pub fn open_buffers(&self) -> Result<BufferModule> {
        BufferModule::open(self)
    }
}
