//! NvSciBuf: attribute lists of buffers, and buffers.

mod attributes;
mod image;
mod list;
mod object;
mod reconciled;

pub use attributes::{BufferAttributes, GpuAttributes, Permission};
pub use image::{ColorFormat, ImageAttributes, ImageLayout, PlaneAttributes};
pub use list::{BufferAttributeList, ReconciledBufferAttributes};
pub use object::Buffer;
pub use reconciled::{BufferProperties, Plane};

crate::module::module! {
    /// An open module of NvSciBuf (`NvSciBufModule`), which everything made from it keeps open. Cheap to clone.
    BufferModule of buf: "NvSciBuf"
}
