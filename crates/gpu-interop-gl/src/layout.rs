//! Layouts in which textures change owner.

use std::ffi::c_uint;

use gpu_interop_core::{Error, Result};

/// An image layout of Vulkan and of OpenGL's semaphores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextureLayout {
    /// The contents are discarded (`GL_NONE`).
    Undefined,
    /// Any use; the layout for APIs without layouts, such as CUDA.
    General,
    /// Render target.
    ColorAttachment,
    /// Depth and stencil writes.
    DepthStencilAttachment,
    /// Depth and stencil reads.
    DepthStencilReadOnly,
    /// Shader reads.
    ShaderReadOnly,
    /// Source of copies.
    TransferSrc,
    /// Destination of copies.
    TransferDst,
    /// Depth reads, stencil writes.
    DepthReadOnlyStencilAttachment,
    /// Depth writes, stencil reads.
    DepthAttachmentStencilReadOnly,
}

struct Row {
    layout: TextureLayout,
    /// `VkImageLayout`.
    vulkan: i32,
    /// `GL_LAYOUT_..._EXT`.
    gl: c_uint,
}

const fn row(layout: TextureLayout, vulkan: i32, gl: c_uint) -> Row {
    Row { layout, vulkan, gl }
}

/// The extension's table of equivalents.
const TABLE: &[Row] = &[
    row(TextureLayout::Undefined, 0, 0),
    row(TextureLayout::General, 1, 0x958D),
    row(TextureLayout::ColorAttachment, 2, 0x958E),
    row(TextureLayout::DepthStencilAttachment, 3, 0x958F),
    row(TextureLayout::DepthStencilReadOnly, 4, 0x9590),
    row(TextureLayout::ShaderReadOnly, 5, 0x9591),
    row(TextureLayout::TransferSrc, 6, 0x9592),
    row(TextureLayout::TransferDst, 7, 0x9593),
    row(TextureLayout::DepthReadOnlyStencilAttachment, 1_000_117_000, 0x9530),
    row(TextureLayout::DepthAttachmentStencilReadOnly, 1_000_117_001, 0x9531),
];

impl TextureLayout {
    /// Every layout.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.layout)
    }

    /// Converts a `VkImageLayout` number (`vk::ImageLayout::as_raw`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a layout that OpenGL lacks; bring the
    /// image to `VK_IMAGE_LAYOUT_GENERAL` first.
    pub fn from_vulkan(layout: i32) -> Result<Self> {
        TABLE.iter().find(|row| row.vulkan == layout).map(|row| row.layout).ok_or_else(|| {
            Error::unsupported(
                "TextureLayout::from_vulkan",
                "OpenGL has no such layout; release the image in VK_IMAGE_LAYOUT_GENERAL",
            )
            .with_context("VkImageLayout", layout)
        })
    }

    /// The `VkImageLayout` number.
    #[must_use]
    pub fn to_vulkan(self) -> i32 {
        self.row().map_or(0, |row| row.vulkan)
    }

    /// The `GLenum`.
    #[must_use]
    pub fn as_raw(self) -> u32 {
        self.row().map_or(0, |row| row.gl)
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.layout == self)
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;
    use gpu_interop_vulkan::ash::vk::ImageLayout as Vk;

    use super::*;

    #[test]
    fn layouts_match_the_headers() {
        let rows = [
            (TextureLayout::Undefined, Vk::UNDEFINED, 0),
            (TextureLayout::General, Vk::GENERAL, 0x958D),
            (TextureLayout::ColorAttachment, Vk::COLOR_ATTACHMENT_OPTIMAL, 0x958E),
            (TextureLayout::DepthStencilAttachment, Vk::DEPTH_STENCIL_ATTACHMENT_OPTIMAL, 0x958F),
            (TextureLayout::DepthStencilReadOnly, Vk::DEPTH_STENCIL_READ_ONLY_OPTIMAL, 0x9590),
            (TextureLayout::ShaderReadOnly, Vk::SHADER_READ_ONLY_OPTIMAL, 0x9591),
            (TextureLayout::TransferSrc, Vk::TRANSFER_SRC_OPTIMAL, 0x9592),
            (TextureLayout::TransferDst, Vk::TRANSFER_DST_OPTIMAL, 0x9593),
            (TextureLayout::DepthReadOnlyStencilAttachment, Vk::DEPTH_READ_ONLY_STENCIL_ATTACHMENT_OPTIMAL, 0x9530),
            (TextureLayout::DepthAttachmentStencilReadOnly, Vk::DEPTH_ATTACHMENT_STENCIL_READ_ONLY_OPTIMAL, 0x9531),
        ];
        assert_eq!(TextureLayout::all().len(), rows.len());
        for (layout, vulkan, gl) in rows {
            assert_eq!(TextureLayout::from_vulkan(vulkan.as_raw()).expect("a layout"), layout);
            assert_eq!((layout.to_vulkan(), layout.as_raw()), (vulkan.as_raw(), gl), "{layout:?}");
        }
    }

    #[test]
    fn other_layouts_are_rejected_with_their_number() {
        let others = [Vk::PREINITIALIZED, Vk::PRESENT_SRC_KHR, Vk::READ_ONLY_OPTIMAL, Vk::ATTACHMENT_OPTIMAL];
        for layout in others.map(Vk::as_raw).into_iter().chain([-1, 9, i32::MAX, 1_000_117_002]) {
            let error = TextureLayout::from_vulkan(layout).expect_err("no such layout");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(error.context(), [("VkImageLayout", layout.to_string())]);
            assert!(error.message().contains("GENERAL"), "{error}");
        }
    }
}
