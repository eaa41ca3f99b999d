//! Pictures of other producers, in dma-bufs.

use gpu_interop::vulkan::OwnedImage;
use gpu_interop::vulkan::ash::vk::Handle;
#[cfg(unix)]
use gpu_interop::vulkan::ash::vk::ImageUsageFlags;
use pyo3::prelude::*;

use super::Vulkan;

/// Vulkan's use of pictures.
#[cfg(unix)]
const USAGE: ImageUsageFlags = ImageUsageFlags::from_raw(
    ImageUsageFlags::TRANSFER_SRC.as_raw() | ImageUsageFlags::TRANSFER_DST.as_raw() | ImageUsageFlags::SAMPLED.as_raw(),
);

/// What `_pictures.describe` returns: format, modifier, width, height; the descriptors; and for each plane the index of its
/// descriptor, its offset, and its row pitch.
#[cfg(unix)]
type Described = (u32, u64, u32, u32, Vec<i32>, Vec<(usize, u64, u64)>);

/// A picture of a decoder, a camera, a compositor or another device: an image on its dma-bufs. :meth:`Context.import_picture`
/// imports one. The other side owns it: acquire it before the first command, and release it before the producer uses it again.
///
/// Vulkan ignores the fences of the dma-bufs: wait for the producer, such as with ``select.poll`` for ``POLLIN`` on
/// :attr:`dma_bufs`.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "Picture")]
#[derive(Debug)]
pub(crate) struct PyPicture {
    pub(crate) image: OwnedImage,
    fourcc: [u8; 4],
    modifier: u64,
    planes: usize,
    disjoint: bool,
    dma_bufs: Vec<i32>,
    /// Keeps the descriptors.
    #[cfg(unix)]
    _picture: gpu_interop::vulkan::ImportedPicture,
}

/// Imports a picture, or each plane as a picture of its own. Owns duplicates of the descriptors.
#[cfg(unix)]
pub(crate) fn import(
    py: Python<'_>,
    vulkan: &Vulkan,
    operation: &'static str,
    frame: &Bound<'_, PyAny>,
    apart: bool,
    same_driver: bool,
) -> PyResult<Vec<PyPicture>> {
    use std::os::fd::AsRawFd;

    use gpu_interop::Error;
    use gpu_interop::vulkan::{ImportedPicture, PictureOptions, Producer};
    use gpu_interop_core::format::{DmaBufPicture, DrmFourcc, DrmModifier, ObjectPlane};

    use crate::error::exception;

    let described = py.import("gpu_interop._pictures")?.call_method1("describe", (operation, frame))?;
    let (fourcc, modifier, width, height, fds, planes) = described.extract::<Described>()?;
    let producer = if same_driver { Producer::SameDriver } else { Producer::Foreign };
    let options = PictureOptions::new(USAGE).producer(producer);
    let imported = py.detach(|| {
        let files = fds.iter().map(|fd| duplicate(operation, *fd)).collect::<gpu_interop::Result<Vec<_>>>()?;
        let planes: Vec<_> =
            planes.iter().map(|(object, offset, pitch)| ObjectPlane::new(*object, *offset, *pitch)).collect();
        let (fourcc, modifier) = (DrmFourcc(fourcc), DrmModifier(modifier));
        // A failure closes the duplicates; the descriptors are the caller's.
        let picture = DmaBufPicture::from_objects(fourcc, modifier, [width, height], files, &planes);
        let picture = picture.map_err(|failure| failure.into_parts().0)?;
        let pictures =
            if apart { picture.into_planes().map_err(|failure| failure.into_parts().0)? } else { vec![picture] };
        let import = |picture| {
            // SAFETY: Python cannot promise what `ImportedPicture::new` requires; the documentation of `Context.import_picture`
            // passes the obligation on to its caller. The library checks the descriptors, the sizes and the device.
            let imported = unsafe { ImportedPicture::new(&vulkan.interop, picture, &options) };
            imported.map_err(|failure| failure.into_parts().0)
        };
        pictures.into_iter().map(import).collect::<Result<Vec<_>, Error>>()
    });
    let imported = imported.map_err(|error| exception(&error))?;
    Ok(imported
        .into_iter()
        .map(|picture| PyPicture {
            image: picture.image().clone(),
            fourcc: picture.format().0.to_le_bytes(),
            modifier: picture.modifier().0,
            planes: picture.planes(),
            disjoint: picture.is_disjoint(),
            dma_bufs: picture.dma_bufs().iter().map(AsRawFd::as_raw_fd).collect(),
            _picture: picture,
        })
        .collect())
}

/// Modifiers of a format, and their numbers of memory planes.
#[cfg(unix)]
pub(crate) fn modifiers(vulkan: &Vulkan, format: &str) -> gpu_interop::Result<Vec<(u64, usize)>> {
    let code = gpu_interop_core::format::DrmFourcc(u32::from_le_bytes(fourcc(format)?));
    let found = vulkan.interop.picture_modifiers(code, USAGE)?;
    Ok(found.iter().map(|found| (found.modifier.0, found.memory_planes)).collect())
}

#[cfg(not(unix))]
pub(crate) fn modifiers(_vulkan: &Vulkan, _format: &str) -> gpu_interop::Result<Vec<(u64, usize)>> {
    Err(gpu_interop::Error::unsupported("Context.picture_modifiers", "this system has no dma-bufs"))
}

/// The four bytes of a code, with spaces at the end.
#[cfg(unix)]
fn fourcc(text: &str) -> gpu_interop::Result<[u8; 4]> {
    let bytes = [text.as_bytes(), b"    "].concat();
    match bytes.first_chunk() {
        Some(code) if (1..=4).contains(&text.len()) => Ok(*code),
        _ => {
            let message = "a format has one to four characters, such as \"NV12\"";
            Err(gpu_interop::Error::invalid("Context.picture_modifiers", message).with_context("given", text))
        }
    }
}

/// A duplicate of the caller's descriptor.
#[cfg(unix)]
fn duplicate(operation: &'static str, fd: i32) -> gpu_interop::Result<std::os::fd::OwnedFd> {
    use gpu_interop::{Error, ErrorKind};
    if fd < 0 {
        return Err(Error::invalid(operation, "a descriptor is negative; pass an open dma-buf").with_context("fd", fd));
    }
    // SAFETY: not -1. Only `fcntl` uses the number, which fails if it is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    borrowed.try_clone_to_owned().map_err(|source| {
        let message = "the descriptor cannot be duplicated; pass an open dma-buf, and close unused descriptors";
        Error::new(ErrorKind::InvalidArgument, operation, message).with_context("fd", fd).with_source(source)
    })
}

#[cfg(not(unix))]
pub(crate) fn import(
    _py: Python<'_>,
    _vulkan: &Vulkan,
    operation: &'static str,
    _frame: &Bound<'_, PyAny>,
    _apart: bool,
    _same_driver: bool,
) -> PyResult<Vec<PyPicture>> {
    let error = gpu_interop::Error::unsupported(operation, "this system has no dma-bufs");
    Err(crate::error::exception(&error))
}

#[pymethods]
impl PyPicture {
    /// Width and height in texels, of the luma for a video format.
    #[getter]
    fn extent(&self) -> (u32, u32) {
        let extent = self.image.spec().extent;
        (extent.width, extent.height)
    }

    /// DRM's code of the format, such as ``"NV12"`` or ``"R8"``.
    #[getter]
    fn format(&self) -> String {
        self.fourcc.iter().map(|byte| char::from(*byte)).collect::<String>().trim_end().to_owned()
    }

    /// DRM's modifier; 0 is linear.
    #[getter]
    fn modifier(&self) -> u64 {
        self.modifier
    }

    /// Number of planes of the format: 2 for ``"NV12"``.
    #[getter]
    fn planes(&self) -> usize {
        self.planes
    }

    /// True if each memory plane has an allocation of its own.
    #[getter]
    fn disjoint(&self) -> bool {
        self.disjoint
    }

    /// Descriptors of the dma-bufs, in the order of their first planes, for ``select.poll``. This object owns them, duplicates
    /// of the producer's, and closes them.
    #[getter]
    fn dma_bufs(&self) -> Vec<i32> {
        self.dma_bufs.clone()
    }

    /// The ``VkImage`` as an integer.
    #[getter]
    fn handle(&self) -> u64 {
        self.image.as_raw().as_raw()
    }

    fn __repr__(&self) -> String {
        let (width, height) = self.extent();
        format!(
            "<gpu_interop.vulkan.Picture {width} x {height}, {}, modifier {:#x}, on {}>",
            self.format(),
            self.modifier,
            self.image.interop().identity()
        )
    }
}
