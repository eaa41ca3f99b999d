//! The Direct3D side of gpu-interop.

mod dimension;
mod flags;
mod format;
#[cfg(any(windows, test))]
mod hresult;
mod identity;
mod texture;
#[cfg(any(windows, test))]
mod timeout;

pub use dimension::{SrvDimension, array_shape};
pub use flags::{BindFlags, MiscFlags, ResourceFlags, array_usage, array_usage_of_bindings};
pub use format::{ChannelOrder, ColorEncoding, DxgiFormat, TexelFormat};
pub use identity::luid_bytes;
pub use texture::TextureSpec;
