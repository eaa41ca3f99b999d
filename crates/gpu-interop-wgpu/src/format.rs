//! Formats that wgpu and compute APIs both have.

use gpu_interop::vulkan::ash::vk;
use gpu_interop::{Error, Result};

/// A format of wgpu by its names in the native APIs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) wgpu: wgpu::TextureFormat,
    pub(crate) vulkan: vk::Format,
    #[cfg(windows)]
    pub(crate) dxgi: gpu_interop::d3d::DxgiFormat,
}

/// Table of `WGPU: VULKAN, DXGI`.
macro_rules! rows {
    ($($wgpu:ident: $vulkan:ident, $dxgi:ident;)*) => {
        &[$(Row {
            wgpu: wgpu::TextureFormat::$wgpu,
            vulkan: vk::Format::$vulkan,
            #[cfg(windows)]
            dxgi: gpu_interop::d3d::DxgiFormat::$dxgi,
        }),*]
    };
}

#[rustfmt::skip]
const TABLE: &[Row] = rows! {
    R8Unorm: R8_UNORM, R8_UNORM;
    R8Snorm: R8_SNORM, R8_SNORM;
    R8Uint: R8_UINT, R8_UINT;
    R8Sint: R8_SINT, R8_SINT;
    R16Uint: R16_UINT, R16_UINT;
    R16Sint: R16_SINT, R16_SINT;
    R16Unorm: R16_UNORM, R16_UNORM;
    R16Snorm: R16_SNORM, R16_SNORM;
    R16Float: R16_SFLOAT, R16_FLOAT;
    Rg8Unorm: R8G8_UNORM, R8G8_UNORM;
    Rg8Snorm: R8G8_SNORM, R8G8_SNORM;
    Rg8Uint: R8G8_UINT, R8G8_UINT;
    Rg8Sint: R8G8_SINT, R8G8_SINT;
    R32Uint: R32_UINT, R32_UINT;
    R32Sint: R32_SINT, R32_SINT;
    R32Float: R32_SFLOAT, R32_FLOAT;
    Rg16Uint: R16G16_UINT, R16G16_UINT;
    Rg16Sint: R16G16_SINT, R16G16_SINT;
    Rg16Unorm: R16G16_UNORM, R16G16_UNORM;
    Rg16Snorm: R16G16_SNORM, R16G16_SNORM;
    Rg16Float: R16G16_SFLOAT, R16G16_FLOAT;
    Rgba8Unorm: R8G8B8A8_UNORM, R8G8B8A8_UNORM;
    Rgba8UnormSrgb: R8G8B8A8_SRGB, R8G8B8A8_UNORM_SRGB;
    Rgba8Snorm: R8G8B8A8_SNORM, R8G8B8A8_SNORM;
    Rgba8Uint: R8G8B8A8_UINT, R8G8B8A8_UINT;
    Rgba8Sint: R8G8B8A8_SINT, R8G8B8A8_SINT;
    Bgra8Unorm: B8G8R8A8_UNORM, B8G8R8A8_UNORM;
    Bgra8UnormSrgb: B8G8R8A8_SRGB, B8G8R8A8_UNORM_SRGB;
    Rgb10a2Unorm: A2B10G10R10_UNORM_PACK32, R10G10B10A2_UNORM;
    Rg32Uint: R32G32_UINT, R32G32_UINT;
    Rg32Sint: R32G32_SINT, R32G32_SINT;
    Rg32Float: R32G32_SFLOAT, R32G32_FLOAT;
    Rgba16Uint: R16G16B16A16_UINT, R16G16B16A16_UINT;
    Rgba16Sint: R16G16B16A16_SINT, R16G16B16A16_SINT;
    Rgba16Unorm: R16G16B16A16_UNORM, R16G16B16A16_UNORM;
    Rgba16Snorm: R16G16B16A16_SNORM, R16G16B16A16_SNORM;
    Rgba16Float: R16G16B16A16_SFLOAT, R16G16B16A16_FLOAT;
    Rgba32Uint: R32G32B32A32_UINT, R32G32B32A32_UINT;
    Rgba32Sint: R32G32B32A32_SINT, R32G32B32A32_SINT;
    Rgba32Float: R32G32B32A32_SFLOAT, R32G32B32A32_FLOAT;
};

/// The formats of wgpu that a [`SharedTexture`](crate::SharedTexture) can have: those of compute arrays, with 1, 2 or 4
/// channels of 8, 16 or 32 bits, and `Rgb10a2Unorm`. Which of them a device shares depends on its driver.
pub fn shared_formats() -> impl ExactSizeIterator<Item = wgpu::TextureFormat> {
    TABLE.iter().map(|row| row.wgpu)
}

/// The format with this number in Vulkan.
#[cfg(unix)]
pub(crate) fn of_vulkan(vulkan: i32) -> Option<wgpu::TextureFormat> {
    TABLE.iter().find(|row| row.vulkan.as_raw() == vulkan).map(|row| row.wgpu)
}

/// The names of a format.
///
/// # Errors
/// `Unsupported` for a format that arrays of compute APIs lack.
pub(crate) fn row(operation: &'static str, format: wgpu::TextureFormat) -> Result<&'static Row> {
    TABLE.iter().find(|row| row.wgpu == format).ok_or_else(|| {
        let message = "compute APIs have no array of this format; use one with 1, 2 or 4 channels of 8, 16 or 32 bits \
                       (shared_formats lists them), and copy to it";
        Error::unsupported(operation, message).with_context("format", format_args!("{format:?}"))
    })
}

#[cfg(test)]
mod tests {
    use gpu_interop::ErrorKind;
    use gpu_interop::vulkan::TexelFormat;

    use super::*;

    #[test]
    fn every_format_has_the_texels_of_its_array() {
        for format in shared_formats() {
            let row = row("test", format).expect("in the table");
            let texel = TexelFormat::from_vulkan(row.vulkan).expect("an array format").array;
            assert_eq!(Some(texel.texel_size()), format.block_copy_size(None), "{format:?}");
            assert_eq!(texel.channels(), format.components(), "{format:?}");
            #[cfg(windows)]
            {
                let dxgi = gpu_interop::d3d::TexelFormat::from_dxgi(row.dxgi).expect("an array format");
                assert_eq!(dxgi.array, texel, "{format:?}");
            }
        }
        let unique: std::collections::HashSet<_> = shared_formats().collect();
        assert_eq!((unique.len(), shared_formats().len()), (40, 40));
    }

    #[test]
    fn other_formats_are_rejected_with_advice() {
        use wgpu::TextureFormat as Format;
        for format in [Format::Depth32Float, Format::Rgb10a2Uint, Format::Rg11b10Ufloat, Format::Bc1RgbaUnorm] {
            let error = row("test", format).expect_err("no array has it");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("shared_formats"), "{error}");
        }
    }
}
