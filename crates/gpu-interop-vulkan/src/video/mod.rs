//! Pictures with luma and chroma in separate planes.

#[cfg(unix)]
mod dma_buf;
mod export;
mod spec;

pub use export::{ExportableVideo, VideoOptions};
pub use spec::{PlaneStorage, VideoSpec};
