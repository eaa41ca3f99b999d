//! Formats of texels and of video, and the layout of planes in memory.
//!
//! [`TexelRow`] has one column for each API: Vulkan, DXGI, DRM, OpenGL and arrays. [`VideoFormat`] has the formats with
//! several planes: luma in one, chroma in one or two others, each a format of the first table. Compute APIs do not know
//! such formats as a whole; they access each plane on its own.
//!
//! # Planes
//! A [`PlaneLayout`] locates one plane in linear memory. [`MappedPlanes`] imports the memory of a picture and gives each
//! plane as a slice or as [`PitchedTexels`](crate::PitchedTexels). Planes of optimal tiling are mapped one by one as arrays:
//! HIP's arrays, and CUDA's before driver 12.8, have a single format, so a picture in one allocation cannot be mapped as an
//! array there.
//!
//! # dma-bufs
//! A `DmaBufPicture` (Unix) describes a picture as DRM does: format, modifier, and for each plane a descriptor, an offset and a
//! pitch. A compute device imports it where the modifier is linear, and rejects other modifiers by their name. Vulkan imports it
//! with every modifier that its device lists (`gpu_interop_vulkan::ImportedPicture`).

#[cfg(unix)]
mod dma_buf;
#[cfg(unix)]
mod dma_buf_objects;
mod drm;
mod mapped;
mod plane;
mod table;
mod video;

#[cfg(unix)]
pub use dma_buf::{DmaBufPicture, DmaBufPlane};
#[cfg(unix)]
pub use dma_buf_objects::{DmaBufObject, ObjectPlane};
pub use drm::{DrmFourcc, DrmModifier};
pub use mapped::MappedPlanes;
pub use plane::PlaneLayout;
pub use table::TexelRow;
pub use video::VideoFormat;

/// Order of the colour channels, from the first byte or, in a packed texel, the lowest bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelOrder {
    /// Red, green, blue, alpha; fewer if the format has fewer channels.
    Rgba,
    /// Blue, green, red, alpha. Arrays do not express this order: their first channel is blue.
    Bgra,
}

/// Transfer function of the colour channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColorEncoding {
    /// Linear.
    Linear,
    /// sRGB. Arrays have no such formats: their values are encoded, and the texture or the kernel must decode them.
    Srgb,
}
