//! The dma-bufs behind the planes of a picture, and other ways to describe one.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::dma_buf::{DmaBufPicture, DmaBufPlane};
use super::drm::{DrmFourcc, DrmModifier};
use super::table::TexelRow;
use super::video::VideoFormat;
use crate::error::{Error, ImportError, Result};
use crate::handle::{FdKind, cannot_duplicate, classify_fd};

/// The dma-buf of a plane, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DmaBufObject {
    /// Index of the dma-buf among those of the picture, in the order of their first planes. Planes with the same index are
    /// in the same dma-buf, also by different descriptors.
    pub index: usize,
    /// Size of the dma-buf, bytes.
    pub size: u64,
}

/// Place of a plane in one of several dma-bufs, as in the layers of `VADRMPRIMESurfaceDescriptor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ObjectPlane {
    /// Index of the dma-buf.
    pub object: usize,
    /// Offset of the plane in the dma-buf, bytes.
    pub offset: u64,
    /// Row pitch, bytes.
    pub pitch: u64,
}

impl ObjectPlane {
    /// Describes a plane; offset and pitch in bytes.
    #[must_use]
    pub const fn new(object: usize, offset: u64, pitch: u64) -> Self {
        Self { object, offset, pitch }
    }
}

impl DmaBufPicture {
    /// Describes a picture by its dma-bufs and by planes that index them, as VA-API does (`VADRMPRIMESurfaceDescriptor`).
    /// Planes after the first one of a dma-buf get duplicates of its descriptor. Descriptors without a plane are closed.
    ///
    /// # Errors
    /// The dma-bufs come back, open. [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an index beyond
    /// them; [`ErrorKind::System`](crate::ErrorKind::System) if the process is out of descriptors.
    pub fn from_objects(
        format: DrmFourcc,
        modifier: DrmModifier,
        extent: [u32; 2],
        objects: Vec<OwnedFd>,
        planes: &[ObjectPlane],
    ) -> Result<Self, ImportError<Vec<OwnedFd>>> {
        const OPERATION: &str = "DmaBufPicture::from_objects";
        let duplicate = |(index, plane): (usize, &ObjectPlane)| {
            let Some(object) = objects.get(plane.object) else {
                return Err(Error::invalid(OPERATION, "the plane names a dma-buf that was not passed")
                    .with_context("plane", index)
                    .with_context("dma-buf", plane.object)
                    .with_context("dma-bufs", objects.len()));
            };
            let fd = object.try_clone();
            fd.map_err(|source| cannot_duplicate("fcntl(F_DUPFD_CLOEXEC)", source).with_context("plane", index))
        };
        match planes.iter().enumerate().map(duplicate).collect::<Result<Vec<_>>>() {
            Ok(files) => {
                let described = files.into_iter().zip(planes);
                let planes = described.map(|(fd, plane)| DmaBufPlane::new(fd, plane.offset, plane.pitch)).collect();
                Ok(Self::new(format, modifier, extent, planes))
            }
            Err(error) => Err(ImportError::new(error, objects)),
        }
    }

    /// Splits a picture of a [`VideoFormat`] into one picture for each plane, of the formats `R8`, `GR88`, `R16` and `GR32`.
    /// Devices import those where they do not import the whole picture: with planes in several dma-bufs, or of an odd width
    /// or height. Shaders then convert the colours themselves. A picture of one plane comes back alone.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for an unknown format;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the number of planes is not the format's, as with
    /// planes of compression. The picture comes back with its descriptors open.
    pub fn into_planes(self) -> Result<Vec<Self>, ImportError<Self>> {
        const OPERATION: &str = "DmaBufPicture::into_planes";
        let format = self.format.with_alpha();
        let formats = match (VideoFormat::from_drm(format), TexelRow::of_drm(format)) {
            (Some(video), _) => (0..video.planes())
                .filter_map(|plane| Some((video.plane_drm(plane)?, video.plane_extent(plane, self.extent))))
                .collect(),
            (None, Some(_)) => vec![(self.format, self.extent)],
            (None, None) => {
                let message = format!("the format {} is unknown to this version", self.format);
                return Err(ImportError::new(Error::unsupported(OPERATION, message), self));
            }
        };
        if formats.len() != self.planes.len() {
            let message = format!(
                "the format {} has {} planes; only those are pictures of their own, not planes of compression",
                self.format,
                formats.len()
            );
            let error = Error::invalid(OPERATION, message).with_context("planes", self.planes.len());
            return Err(ImportError::new(error, self));
        }
        let modifier = self.modifier;
        let planes = self.planes.into_iter().zip(formats);
        Ok(planes.map(|(plane, (format, extent))| Self::new(format, modifier, extent, vec![plane])).collect())
    }

    /// The dma-buf of each plane, as the kernel reports it (`fstat`, `lseek(SEEK_END)`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if a descriptor is closed or is not a dma-buf; the
    /// error names the plane.
    pub fn objects(&self) -> Result<Vec<DmaBufObject>> {
        let mut known: Vec<(u64, u64)> = Vec::new();
        let object = |(plane, described): (usize, &DmaBufPlane)| {
            let (identity, size) = inspect(&described.fd).map_err(|error| error.with_context("plane", plane))?;
            let index = known.iter().position(|known| *known == identity).unwrap_or_else(|| {
                known.push(identity);
                known.len() - 1
            });
            Ok(DmaBufObject { index, size })
        };
        self.planes.iter().enumerate().map(object).collect()
    }
}

/// Device and inode of a dma-buf, and its size in bytes. Fails unless the descriptor is a dma-buf or anonymous memory, the
/// kinds whose size the kernel reports.
fn inspect(fd: &OwnedFd) -> Result<((u64, u64), u64)> {
    let invalid =
        |message: String| Error::invalid("DmaBufPicture::objects", message).with_context("fd", fd.as_raw_fd());
    let system = |source: std::io::Error| {
        invalid("the kernel does not report the size of the dma-buf".into()).with_source(source)
    };
    let kind = classify_fd(fd.as_fd());
    if !matches!(kind, FdKind::DmaBuf | FdKind::Memory) {
        return Err(invalid(format!("the descriptor is {kind}, not a dma-buf")));
    }
    let stat = rustix::fs::fstat(fd).map_err(|errno| system(errno.into()))?;
    let duplicate = fd.try_clone().map_err(|source| cannot_duplicate("fcntl(F_DUPFD_CLOEXEC)", source))?;
    let size = length(duplicate).map_err(system)?;
    // The types of both numbers differ between targets.
    #[allow(clippy::unnecessary_cast)]
    let identity = (stat.st_dev as u64, stat.st_ino as u64);
    Ok((identity, size))
}

/// Size in bytes, as the C library's `lseek` reports it: that one is interposed where the kernel's driver is emulated.
fn length(duplicate: OwnedFd) -> std::io::Result<u64> {
    let mut file = File::from(duplicate);
    let before = file.stream_position().unwrap_or(0);
    let length = file.seek(SeekFrom::End(0))?;
    // dma-bufs have no offset, but other users of a memfd share it.
    let _ = file.seek(SeekFrom::Start(before));
    Ok(length)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::dma_buf::tests::memfd;
    use super::*;
    use crate::ErrorKind;

    fn inode(fd: &OwnedFd) -> u64 {
        rustix::fs::fstat(fd).expect("open").st_ino
    }

    fn from_objects(objects: Vec<OwnedFd>, planes: &[ObjectPlane]) -> Result<DmaBufPicture, ImportError<Vec<OwnedFd>>> {
        DmaBufPicture::from_objects(DrmFourcc::from_code("NV12"), DrmModifier::LINEAR, [64, 32], objects, planes)
    }

    #[test]
    fn planes_that_index_dma_bufs_have_their_descriptors() {
        let objects = vec![memfd(4096), memfd(8192)];
        let inodes = [inode(&objects[0]), inode(&objects[1])];
        let planes = [ObjectPlane::new(1, 64, 128), ObjectPlane::new(0, 0, 64), ObjectPlane::new(1, 4096, 128)];
        let picture = from_objects(objects, &planes).expect("a picture");
        let found: Vec<_> = picture.planes.iter().map(|plane| (inode(&plane.fd), plane.offset, plane.pitch)).collect();
        assert_eq!(found, [(inodes[1], 64, 128), (inodes[0], 0, 64), (inodes[1], 4096, 128)]);
        let objects: Vec<_> =
            picture.objects().expect("dma-bufs").iter().map(|object| (object.index, object.size)).collect();
        assert_eq!(objects, [(0, 8192), (1, 4096), (0, 8192)]);
    }

    #[test]
    fn dma_bufs_come_back_open_for_an_unknown_index() {
        let objects = vec![memfd(4096)];
        let number = objects[0].as_raw_fd();
        let failure = from_objects(objects, &[ObjectPlane::new(0, 0, 64), ObjectPlane::new(1, 0, 64)]);
        let (error, objects) = failure.expect_err("no such dma-buf").into_parts();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.context().contains(&("plane", "1".to_owned())), "{error}");
        assert_eq!((objects.len(), objects[0].as_raw_fd()), (1, number));
        assert_eq!(classify_fd(objects[0].as_fd()), FdKind::Memory);
    }

    #[test]
    fn planes_become_pictures_of_their_own() {
        let split = |code, extent, count: usize| {
            let planes = (0..count).map(|plane| DmaBufPlane::new(memfd(4096), plane as u64 * 8, 256)).collect();
            let picture = DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier(7), extent, planes);
            let inodes: Vec<_> = picture.planes.iter().map(|plane| inode(&plane.fd)).collect();
            let pictures = picture.into_planes().map_err(|failure| failure.into_parts().0)?;
            assert_eq!(pictures.iter().map(|it| inode(&it.planes[0].fd)).collect::<Vec<_>>(), inodes);
            assert!(pictures.iter().all(|picture| picture.modifier == DrmModifier(7) && picture.planes.len() == 1));
            Ok::<_, Error>(pictures.into_iter().map(|picture| (picture.format, picture.extent)).collect::<Vec<_>>())
        };
        let code = DrmFourcc::from_code;
        assert_eq!(split("NV12", [5, 3], 2).expect("two"), [(code("R8  "), [5, 3]), (code("GR88"), [3, 2])]);
        assert_eq!(split("P010", [6, 4], 2).expect("two"), [(code("R16 "), [6, 4]), (code("GR32"), [3, 2])]);
        assert_eq!(split("YU12", [4, 4], 3).expect("three")[2], (code("R8  "), [2, 2]));
        assert_eq!(split("XR24", [4, 4], 1).expect("one"), [(code("XR24"), [4, 4])]);
        for (name, count, kind) in [
            ("NV12", 3, ErrorKind::InvalidArgument),
            ("AR24", 2, ErrorKind::InvalidArgument),
            ("YUYV", 1, ErrorKind::Unsupported),
        ] {
            assert_eq!(split(name, [4, 4], count).expect_err(name).kind(), kind);
        }
    }

    #[test]
    fn descriptors_that_are_not_dma_bufs_are_rejected_by_plane() {
        let (pipe, _writer) = rustix::pipe::pipe().expect("a pipe");
        let planes = vec![DmaBufPlane::new(memfd(4096), 0, 64), DmaBufPlane::new(pipe, 0, 64)];
        let picture = DmaBufPicture::new(DrmFourcc::from_code("NV12"), DrmModifier::LINEAR, [64, 32], planes);
        let error = picture.objects().expect_err("a pipe");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("a pipe, not a dma-buf"), "{error}");
        assert!(error.context().contains(&("plane", "1".to_owned())), "{error}");
    }
}
