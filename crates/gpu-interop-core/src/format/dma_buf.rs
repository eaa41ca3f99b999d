//! Pictures in dma-bufs.

use std::os::fd::{AsRawFd, OwnedFd};

use super::drm::DrmFourcc;
use super::drm::DrmModifier;
use super::mapped::MappedPlanes;
use super::plane::PlaneLayout;
use super::table::TexelRow;
use super::video::VideoFormat;
use crate::error::{Error, ImportError, Result};
use crate::handle::{MemoryHandle, MemoryHandleKind, cannot_duplicate};
use crate::import::MemoryImport;
use crate::object::Device;

/// One plane of a [`DmaBufPicture`], as in `drm_mode_fb_cmd2` or `EGL_EXT_image_dma_buf_import`.
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaBufPlane {
    /// The dma-buf. Planes in the same one have a descriptor each, or duplicates of one.
    pub fd: OwnedFd,
    /// Offset of the plane in the dma-buf, bytes.
    pub offset: u64,
    /// Row pitch, bytes.
    pub pitch: u64,
    /// `true` if the dma-buf is a dedicated allocation of the exporting API (`VkMemoryDedicatedAllocateInfo`). Planes in the
    /// same dma-buf have the same value. Wayland, PipeWire and VA-API do not transmit it: leave it `false` there. Between two
    /// processes of Vulkan, send it along: NVIDIA's driver needs it.
    pub dedicated: bool,
}

impl DmaBufPlane {
    /// Describes a plane of memory that is not a dedicated allocation; offset and pitch in bytes. Owns the descriptor.
    #[must_use]
    pub fn new(fd: OwnedFd, offset: u64, pitch: u64) -> Self {
        Self { fd, offset, pitch, dedicated: false }
    }

    /// Sets the dedicated flag. Set it exactly if the exporter used `VkMemoryDedicatedAllocateInfo`: NVIDIA's driver lays out
    /// dedicated memory differently. [`MemoryImport::dedicated`] has the same flag.
    #[must_use]
    pub fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
        self
    }
}

/// A picture in one or several dma-bufs: format, modifier and planes, as decoders, cameras and compositors pass them. Owns
/// the descriptors.
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaBufPicture {
    /// The format: one of [`VideoFormat`], or a single-plane one of [`TexelRow`], also without alpha (`XR24`): the bits of its
    /// fourth channel are undefined.
    pub format: DrmFourcc,
    /// The layout in memory.
    pub modifier: DrmModifier,
    /// Width and height, luma texels.
    pub extent: [u32; 2],
    /// The planes, in the order of the format.
    pub planes: Vec<DmaBufPlane>,
}

/// A request for each dma-buf, and for each plane the index of its dma-buf and its layout there.
type Requests = (Vec<MemoryImport>, Vec<(usize, PlaneLayout)>);

const OPERATION: &str = "DmaBufPicture::import";

impl DmaBufPicture {
    /// Describes a picture; width and height in luma texels.
    #[must_use]
    pub fn new(format: DrmFourcc, modifier: DrmModifier, extent: [u32; 2], planes: Vec<DmaBufPlane>) -> Self {
        Self { format, modifier, extent, planes }
    }

    /// Layout of each plane in its dma-buf, validated as far as possible without the descriptors.
    ///
    /// # Errors
    /// * [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the modifier is not linear, and the error names it; or the format is not in the tables.
    /// * [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the number of planes is not the format's; an extent of 0; a pitch below the size of
    ///   a row; an offset or pitch beyond 64 bits.
    pub fn layouts(&self) -> Result<Vec<PlaneLayout>> {
        self.check_layouts().map_err(|error| {
            error
                .with_context("format", self.format)
                .with_context("modifier", self.modifier)
                .with_context("extent", format_args!("{} x {}", self.extent[0], self.extent[1]))
        })
    }

    fn check_layouts(&self) -> Result<Vec<PlaneLayout>> {
        if self.modifier != DrmModifier::LINEAR {
            let message = if self.modifier == DrmModifier::INVALID {
                "the layout of the texels is unknown (modifier INVALID); have the producer state a modifier".to_owned()
            } else {
                format!(
                    "only linear memory is mapped as planes, not {}; have the producer allocate with the modifier LINEAR, or \
                     convert the picture with Vulkan",
                    self.modifier
                )
            };
            return Err(Error::unsupported(OPERATION, message));
        }
        let alpha = self.format.with_alpha();
        let texels: Vec<_> = if let Some(format) = VideoFormat::from_drm(alpha) {
            (0..format.planes()).map(|plane| (format.plane_extent(plane, self.extent), format.texel(plane))).collect()
        } else if let Some(row) = TexelRow::of_drm(alpha) {
            vec![(self.extent, row.array)]
        } else {
            return Err(Error::unsupported(
                OPERATION,
                format!("the format {} is unknown to this version", self.format),
            ));
        };
        if texels.len() != self.planes.len() {
            let message = format!("this format has {} planes; pass as many, in its order", texels.len());
            return Err(Error::invalid(OPERATION, message).with_context("planes", self.planes.len()));
        }
        let described = self.planes.iter().zip(texels);
        described
            .map(|(plane, (extent, texel))| {
                let layout = PlaneLayout::new(plane.offset, plane.pitch, extent, texel);
                layout.check(OPERATION, u64::MAX).map(|()| layout)
            })
            .collect()
    }

    /// Imports the dma-bufs and maps the planes. Planes in the same dma-buf share an import.
    ///
    /// The driver gets duplicates of the descriptors. On success the picture's own are closed; on failure the picture is
    /// returned with its descriptors open.
    ///
    /// dma-bufs have implicit fences, which compute APIs ignore: wait for the producer's fence first (`poll` on the
    /// descriptor waits for its writers), and keep the producer from writing until the device has read.
    ///
    /// # Errors
    /// Those of [`layouts`](Self::layouts); [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if a descriptor is not a dma-buf, a plane goes
    /// past its end, or planes of one dma-buf differ in the dedicated flag; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the device imports no dma-bufs; otherwise those of
    /// [`Device::import_memory`].
    ///
    /// # Safety
    /// The dma-bufs contain the picture as described, with the dedicated flag of their allocations, are memory that the
    /// device may access, and nothing changes their size while a mapping lives.
    pub unsafe fn import(self, device: &Device) -> Result<MappedPlanes, ImportError<Self>> {
        // SAFETY: the caller's promises.
        unsafe { self.import_as(device, MemoryHandleKind::DmaBufFd) }
    }

    /// As [`import`](Self::import), with the descriptors passed to the driver as this kind. AMD's runtime on Linux has no
    /// kind for dma-bufs: it imports those of the kernel's `amdgpu` driver as [`MemoryHandleKind::OpaqueFd`].
    ///
    /// # Errors
    /// As [`import`](Self::import), and [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for another kind of handle.
    ///
    /// # Safety
    /// As [`import`](Self::import), and the driver imports the descriptors as this kind.
    pub unsafe fn import_as(self, device: &Device, kind: MemoryHandleKind) -> Result<MappedPlanes, ImportError<Self>> {
        // SAFETY: the caller's promises.
        let outcome = unsafe { self.requests(kind) }.and_then(|(requests, planes)| {
            // The duplicates that were not imported are closed.
            MappedPlanes::import(device, requests, planes).map_err(|failure| failure.into_parts().0)
        });
        outcome.map_err(|error| ImportError::new(error, self))
    }

    /// A request for each dma-buf, with duplicates of the descriptors, and the planes in them.
    ///
    /// # Safety
    /// As [`import_as`](Self::import_as).
    unsafe fn requests(&self, kind: MemoryHandleKind) -> Result<Requests> {
        let layouts = self.layouts()?;
        let wrap = match kind {
            MemoryHandleKind::DmaBufFd => MemoryHandle::DmaBufFd,
            MemoryHandleKind::OpaqueFd => MemoryHandle::OpaqueFd,
            _ => {
                return Err(Error::invalid(OPERATION, "a dma-buf is passed as a dma-buf fd or an opaque fd")
                    .with_context("handle", kind));
            }
        };
        let mut planes = Vec::new();
        let mut requests: Vec<MemoryImport> = Vec::new();
        for ((plane, layout), object) in self.planes.iter().zip(layouts).zip(self.objects()?) {
            layout.check(OPERATION, object.size)?;
            match requests.get(object.index) {
                Some(request) if request.is_dedicated() != plane.dedicated => {
                    let message = "planes in the same dma-buf have the same dedicated flag; set it on all or none";
                    return Err(Error::invalid(OPERATION, message).with_context("fd", plane.fd.as_raw_fd()));
                }
                Some(_) => {}
                // Indices are in the order of the first planes.
                None => {
                    let fd = plane.fd.try_clone();
                    let fd = fd.map_err(|source| cannot_duplicate("fcntl(F_DUPFD_CLOEXEC)", source))?;
                    // SAFETY: the caller promises memory of this kind, dedicated or not; the kernel reported its size.
                    requests.push(unsafe { MemoryImport::new(wrap(fd), object.size).dedicated(plane.dedicated) });
                }
            }
            planes.push((object.index, layout));
        }
        Ok((requests, planes))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    pub(in super::super) fn memfd(size: u64) -> OwnedFd {
        let fd = rustix::fs::memfd_create("picture", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        rustix::fs::ftruncate(&fd, size).expect("ftruncate");
        fd
    }

    fn nv12(size: u64, chroma: u64, pitch: u64) -> DmaBufPicture {
        let luma = memfd(size);
        let planes = vec![
            DmaBufPlane::new(luma.try_clone().expect("a duplicate"), 0, pitch),
            DmaBufPlane::new(luma, chroma, pitch),
        ];
        DmaBufPicture::new(DrmFourcc::from_code("NV12"), DrmModifier::LINEAR, [64, 32], planes)
    }

    fn rejected<T>(outcome: Result<T>, kind: ErrorKind, words: &str) {
        let Err(error) = outcome else { panic!("{words}: accepted") };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error} should contain: {words}");
    }

    #[test]
    fn planes_of_one_file_share_a_request() {
        let picture = nv12(3072, 2048, 64);
        // SAFETY: nothing is imported.
        let (requests, planes) = unsafe { picture.requests(MemoryHandleKind::DmaBufFd) }.expect("a picture");
        assert_eq!((requests.len(), requests[0].size()), (1, 3072));
        let texel = |channels| crate::ArrayFormat::new(crate::ChannelType::Unorm8, channels).expect("a format");
        let expected =
            [(0, PlaneLayout::new(0, 64, [64, 32], texel(1))), (0, PlaneLayout::new(2048, 64, [32, 16], texel(2)))];
        assert_eq!(planes, expected);
        let mut apart = nv12(3072, 2048, 64);
        apart.planes[1] = DmaBufPlane::new(memfd(1024), 0, 64);
        // SAFETY: as above.
        let (requests, planes) = unsafe { apart.requests(MemoryHandleKind::OpaqueFd) }.expect("a picture");
        assert_eq!((requests.len(), requests[1].size(), planes[1].0), (2, 1024, 1));
    }

    #[test]
    fn requests_have_the_dedicated_flag_of_their_planes() {
        // SAFETY: nothing is imported.
        let requests = |picture: &DmaBufPicture| unsafe { picture.requests(MemoryHandleKind::DmaBufFd) };
        let dedicated = |picture: &DmaBufPicture| {
            let requests = requests(picture).expect("a picture").0;
            requests.iter().map(MemoryImport::is_dedicated).collect::<Vec<_>>()
        };
        let mut picture = nv12(3072, 2048, 64);
        assert_eq!(dedicated(&picture), [false]);
        picture.planes[1].dedicated = true;
        rejected(requests(&picture).map(drop), ErrorKind::InvalidArgument, "same dedicated flag");
        picture.planes[0].dedicated = true;
        assert_eq!(dedicated(&picture), [true]);
        picture.planes[1] = DmaBufPlane::new(memfd(1024), 0, 64);
        assert_eq!(dedicated(&picture), [true, false]);
    }

    #[test]
    fn modifiers_are_rejected_by_name() {
        for (modifier, words) in [
            (DrmModifier(0x0100_0000_0000_0002), "INTEL_Y_TILED"),
            (DrmModifier(0x0300_0000_0060_6014), "NVIDIA_BLOCK_LINEAR_2D"),
            (DrmModifier(0x0200_0000_0000_0901), "AMD (0x0200000000000901)"),
            (DrmModifier::INVALID, "INVALID"),
        ] {
            let picture = DmaBufPicture { modifier, ..nv12(3072, 2048, 64) };
            rejected(picture.layouts(), ErrorKind::Unsupported, words);
        }
    }

    #[test]
    fn invalid_descriptions_are_rejected() {
        // SAFETY: nothing is imported.
        let requests = |picture: &DmaBufPicture| unsafe { picture.requests(MemoryHandleKind::DmaBufFd) }.map(drop);
        requests(&nv12(3072, 2048, 64)).expect("fits exactly");
        rejected(requests(&nv12(3071, 2048, 64)), ErrorKind::InvalidArgument, "past the end");
        rejected(requests(&nv12(3072, u64::MAX, 64)), ErrorKind::InvalidArgument, "past the end");
        rejected(requests(&nv12(3072, 2048, 63)), ErrorKind::InvalidArgument, "pitch");
        rejected(requests(&nv12(3072, 2048, u64::MAX)), ErrorKind::InvalidArgument, "past the end");
        rejected(
            requests(&DmaBufPicture { extent: [0, 32], ..nv12(3072, 2048, 64) }),
            ErrorKind::InvalidArgument,
            "at least 1",
        );
        let unknown = DmaBufPicture { format: DrmFourcc::from_code("YUYV"), ..nv12(3072, 2048, 64) };
        rejected(requests(&unknown), ErrorKind::Unsupported, "'YUYV'");
        let mut fewer = nv12(3072, 2048, 64);
        fewer.planes.pop();
        rejected(requests(&fewer), ErrorKind::InvalidArgument, "2 planes");
        let mut pipe = nv12(3072, 2048, 64);
        pipe.planes[1].fd = rustix::pipe::pipe().expect("a pipe").0;
        rejected(requests(&pipe), ErrorKind::InvalidArgument, "a pipe, not a dma-buf");
        // SAFETY: as above.
        let other = unsafe { nv12(3072, 2048, 64).requests(MemoryHandleKind::OpaqueWin32) };
        rejected(other.map(drop), ErrorKind::InvalidArgument, "dma-buf fd or an opaque fd");
    }

    /// Compositors pass these codes; the fourth channel has undefined bits.
    #[test]
    fn codes_with_an_unused_channel_have_a_layout() {
        let codes = ["XR24", "XB24", "AR24"].map(DrmFourcc::from_code);
        let layouts = codes.map(|code| {
            let planes = vec![DmaBufPlane::new(memfd(4096), 0, 64)];
            DmaBufPicture::new(code, DrmModifier::LINEAR, [16, 4], planes)
                .layouts()
                .map(|layouts| layouts[0].row_size())
        });
        for layout in layouts {
            assert_eq!(layout.expect("a layout"), 64);
        }
    }

    proptest! {
        /// Hostile numbers are rejected with a typed error, or every plane is inside the file.
        #[test]
        fn hostile_descriptions_are_rejected_or_inside(
            code in prop_oneof![Just("NV12"), Just("P010"), Just("YU12"), Just("Q410"), Just("AB24"), Just("R8  ")],
            number in proptest::option::of(any::<u32>()),
            modifier in prop_oneof![4 => Just(0_u64), 1 => any::<u64>()],
            extent in prop_oneof![8 => (0_u32..70, 0_u32..40), 1 => (any::<u32>(), any::<u32>())],
            planes in proptest::collection::vec(
                (
                    prop_oneof![8 => 0_u64..5000, 1 => any::<u64>()],
                    prop_oneof![8 => 0_u64..300, 1 => any::<u64>()],
                    prop_oneof![2 => 0_u64..9000, 1 => Just(1 << 40)],
                ),
                1..4,
            ),
        ) {
            let sizes: Vec<_> = planes.iter().map(|(_, _, size)| *size).collect();
            let planes = planes.into_iter().map(|(offset, pitch, size)| DmaBufPlane::new(memfd(size), offset, pitch));
            let format = number.filter(|number| number % 4 == 0).map_or(DrmFourcc::from_code(code), DrmFourcc);
            let picture = DmaBufPicture::new(format, DrmModifier(modifier), extent.into(), planes.collect());
            // SAFETY: nothing is imported.
            match unsafe { picture.requests(MemoryHandleKind::DmaBufFd) } {
                Ok((requests, planes)) => {
                    for (memory, plane) in planes {
                        prop_assert_eq!(requests[memory].size(), sizes[memory]);
                        prop_assert!(plane.check("op", sizes[memory]).is_ok());
                    }
                }
                Err(error) => {
                    prop_assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Unsupported), "{}", error);
                }
            }
        }
    }
}
