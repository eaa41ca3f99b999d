//! Images of Vulkan.

use gpu_interop::Error;
use gpu_interop::vulkan::ash::vk::{Format, Handle, ImageTiling, ImageUsageFlags, ImageViewType};
use gpu_interop::vulkan::{ExportableImage, ImageOptions, ImageSpec};
use pyo3::prelude::*;

use super::Vulkan;
use crate::array::PyArray;
use crate::device::PyDevice;
use crate::error::{Raise, exception};
use crate::export::PyExport;

const FORMATS: [(&str, Format); 15] = [
    ("r8_unorm", Format::R8_UNORM),
    ("rg8_unorm", Format::R8G8_UNORM),
    ("rgba8_unorm", Format::R8G8B8A8_UNORM),
    ("rgba8_srgb", Format::R8G8B8A8_SRGB),
    ("rgba8_uint", Format::R8G8B8A8_UINT),
    ("bgra8_unorm", Format::B8G8R8A8_UNORM),
    ("r16_float", Format::R16_SFLOAT),
    ("rg16_float", Format::R16G16_SFLOAT),
    ("rgba16_float", Format::R16G16B16A16_SFLOAT),
    ("r32_float", Format::R32_SFLOAT),
    ("rg32_float", Format::R32G32_SFLOAT),
    ("rgba32_float", Format::R32G32B32A32_SFLOAT),
    ("r32_uint", Format::R32_UINT),
    ("r16_uint", Format::R16_UINT),
    ("r8_uint", Format::R8_UINT),
];

/// An image of Vulkan with its memory. Initialise it before its first use.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "Image")]
#[derive(Debug)]
pub(crate) struct PyImage {
    pub(crate) image: ExportableImage,
    format: &'static str,
}

impl PyImage {
    /// The arguments are those of `Context.image`.
    pub(crate) fn create(
        py: Python<'_>,
        vulkan: &Vulkan,
        extent: [u32; 3],
        format: &str,
        levels: u32,
        layers: u32,
        linear: bool,
    ) -> PyResult<Self> {
        let Some((format, value)) = FORMATS.iter().find(|(name, _)| *name == format) else {
            let names: Vec<_> = FORMATS.iter().map(|(name, _)| *name).collect();
            let message = format!("unknown format; use one of {}", names.join(", "));
            return Err(exception(&Error::invalid("Context.image", message).with_context("given", format)));
        };
        let view = match (extent[2], layers) {
            (0 | 1, 1) => ImageViewType::TYPE_2D,
            (_, 1) => ImageViewType::TYPE_3D,
            _ => ImageViewType::TYPE_2D_ARRAY,
        };
        let usage = ImageUsageFlags::TRANSFER_SRC | ImageUsageFlags::TRANSFER_DST | ImageUsageFlags::SAMPLED;
        let mut spec = ImageSpec::new(view, extent, *value, usage);
        (spec.levels, spec.layers) = (levels, layers);
        spec.tiling = if linear { ImageTiling::LINEAR } else { ImageTiling::OPTIMAL };
        let image = py.detach(|| ExportableImage::new(&vulkan.interop, &ImageOptions::new(spec))).raised()?;
        Ok(Self { image, format })
    }

    /// Bytes of one layer of a level, packed.
    pub(crate) fn level_size(&self, level: u32) -> PyResult<u64> {
        self.image.image().spec().level_size(level).raised()
    }
}

#[pymethods]
impl PyImage {
    /// Width, height and depth in texels.
    #[getter]
    fn extent(&self) -> (u32, u32, u32) {
        let extent = self.image.image().spec().extent;
        (extent.width, extent.height, extent.depth)
    }

    /// Name of the format.
    #[getter]
    fn format(&self) -> &'static str {
        self.format
    }

    /// Number of mip levels.
    #[getter]
    fn levels(&self) -> u32 {
        self.image.image().spec().levels
    }

    /// Number of layers.
    #[getter]
    fn layers(&self) -> u32 {
        self.image.image().spec().layers
    }

    /// The ``VkImage`` as an integer.
    #[getter]
    fn handle(&self) -> u64 {
        self.image.image().as_raw().as_raw()
    }

    /// Exports the memory as a new handle. An image of linear tiling can be imported and viewed as a tensor, row by row:
    /// :meth:`row_pitch`.
    fn export(&self, py: Python<'_>) -> PyResult<PyExport> {
        py.detach(|| self.image.import_request()).map(PyExport::new).raised()
    }

    /// Imports the image into ``device`` and maps it as an :class:`gpu_interop.Array`, the way to texels of optimal tiling.
    /// Release the image before the device uses the array. ``surface=True`` lets kernels access it as a surface, too. The
    /// array may outlive the image.
    #[pyo3(signature = (device, *, surface=false))]
    fn array(&self, py: Python<'_>, device: &Bound<'_, PyDevice>, surface: bool) -> PyResult<PyArray> {
        let shared = device.get().shared("Image.array")?;
        py.detach(|| {
            // Its own message, before an import.
            self.image.array_desc()?;
            let request = self.image.import_request()?;
            // A failed import drops the request, and so closes the new handle.
            let memory = shared.device.import_memory(request).map_err(|failure| failure.into_parts().0)?;
            PyArray::map(shared, &memory, surface)
        })
        .raised()
    }

    /// Offset of the first texel and bytes from row to row, of an image of linear tiling.
    fn row_pitch(&self) -> PyResult<(u64, u64)> {
        let image = self.image.image();
        let layout = image.subresource_layout(0, 0).raised()?;
        let first = layout.row_offset(0, 0);
        let height = image.spec().extent.height;
        let pitch = if height > 1 { layout.row_offset(1, 0) - first } else { self.level_size(0)? };
        Ok((first, pitch))
    }

    fn __repr__(&self) -> String {
        let (width, height, depth) = self.extent();
        format!("<gpu_interop.vulkan.Image {width} x {height} x {depth} {}, {} levels>", self.format, self.levels())
    }
}
