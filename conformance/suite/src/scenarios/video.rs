//! Pictures with luma and chroma in separate planes.

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    ExportableVideo, HeadlessContext, MemoryPlacement, PlaneStorage, VideoOptions, VideoSpec as Spec,
};
use gpu_interop::{ArrayRegion, ErrorKind, MappedMipmappedArray, MappedPlanes, Stream, VideoFormat};

use super::{expect_error, expect_invalid};
use crate::context::Context;
use crate::ensure_eq;
use crate::image::for_each;
use crate::outcome::{Stop, Verdict};
use crate::pattern::{self, Pattern, compare};
use crate::scenario::scenarios;

scenarios! {
    all need [exporter Images];
    "video.nv12", Any, "Every byte of both planes of NV12 pictures goes both ways.",
        |context| formats(context, &[VideoFormat::Nv12]), needs [MappedBuffer];
    "video.nv16", Any, "Every byte of both planes of NV16 pictures goes both ways.",
        |context| formats(context, &[VideoFormat::Nv16]), needs [MappedBuffer];
    "video.p010", Any, "Every byte of both planes of P010 pictures goes both ways, also of the unused bits.",
        |context| formats(context, &[VideoFormat::P010]), needs [MappedBuffer];
    "video.p016", Any, "Every byte of both planes of P012 and P016 pictures goes both ways.",
        |context| formats(context, &[VideoFormat::P012, VideoFormat::P016]), needs [MappedBuffer];
    "video.p216", Any, "Every byte of both planes of P210, P212 and P216 pictures goes both ways.",
        |context| formats(context, &[VideoFormat::P210, VideoFormat::P212, VideoFormat::P216]), needs [MappedBuffer];
    "video.yuv420", Any, "Every byte of three planes of 4:2:0 with 8, 10, 12 and 16 bits goes both ways.",
        |context| formats(context, &[
            VideoFormat::Yuv420, VideoFormat::Yuv420Bits10, VideoFormat::Yuv420Bits12, VideoFormat::Yuv420Bits16,
        ]), needs [MappedBuffer];
    "video.yuv422", Any, "Every byte of three planes of 4:2:2 with 8, 10, 12 and 16 bits goes both ways.",
        |context| formats(context, &[
            VideoFormat::Yuv422, VideoFormat::Yuv422Bits10, VideoFormat::Yuv422Bits12, VideoFormat::Yuv422Bits16,
        ]), needs [MappedBuffer];
    "video.yuv444", Any, "Every byte of three planes of 4:4:4 with 8, 10, 12 and 16 bits goes both ways.",
        |context| formats(context, &[
            VideoFormat::Yuv444, VideoFormat::Yuv444Bits10, VideoFormat::Yuv444Bits12, VideoFormat::Yuv444Bits16,
        ]), needs [MappedBuffer];
    "video.sizes", Any, "Pictures of random sizes, odd ones too, go both ways in every format.", sizes,
        needs [MappedBuffer], within(120);
    "video.one_image", Any,
        "Multi-planar images, in one allocation and in one for each plane, go both ways where the exporter has them.",
        one_image, needs [MappedBuffer];
    "video.host_visible", Any, "Pictures in host-visible memory go both ways.", host_visible, needs [MappedBuffer];
    "video.compressible", Any, "Texels that GPUs compress go both ways in every plane.", compressible,
        needs [MappedBuffer];
    "video.arrays", Any, "Planes of optimal tiling, mapped as arrays, go both ways.", arrays,
        needs [MappedMipmappedArray];
    "video.misuse", Any, "Invalid sizes, planes and data of pictures are rejected; the picture works afterwards.", misuse,
        needs [MappedBuffer];
}

const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw()
        | vk::ImageUsageFlags::TRANSFER_DST.as_raw()
        | vk::ImageUsageFlags::SAMPLED.as_raw(),
);

/// Even, so that every storage supports it; no multiple of usual pitches.
const SIZE: [u32; 2] = [198, 114];

fn vulkan(context: &Context) -> Verdict<&HeadlessContext> {
    let vulkan = context.exporter()?.vulkan();
    vulkan.ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))
}

fn spec(format: VideoFormat, size: [u32; 2]) -> Spec {
    Spec::new(format, size, USAGE)
}

/// A picture that the device's side owns.
struct Picture<'a> {
    vulkan: &'a HeadlessContext,
    video: ExportableVideo,
}

impl<'a> Picture<'a> {
    fn new(context: &'a Context, options: &VideoOptions) -> Verdict<Self> {
        let vulkan = vulkan(context)?;
        let video = ExportableVideo::new(vulkan.interop(), options).map_err(Stop::attempted)?;
        vulkan.run(|recording| {
            recording.initialize_video(&video)?;
            recording.release_video(&video)
        })?;
        Ok(Self { vulkan, video })
    }

    fn size(&self, plane: usize) -> Verdict<usize> {
        let spec = self.video.spec();
        let [width, height] = spec.format.plane_extent(plane, spec.extent).map(u64::from);
        Ok(usize::try_from(width * height * u64::from(spec.format.texel(plane).texel_size()))?)
    }

    /// Bytes of every plane; each plane differs from the others.
    fn texels(&self, pattern: Pattern) -> Verdict<Vec<Vec<u8>>> {
        let of = |plane| Ok(pattern.level(u32::try_from(plane)?).bytes(0, self.size(plane)?));
        (0..self.video.planes()).map(of).collect()
    }

    fn write(&self, planes: &[Vec<u8>]) -> Verdict {
        self.vulkan.acquire_video(&self.video)?;
        self.vulkan.upload_video(&self.video, planes)?;
        Ok(self.vulkan.release_video(&self.video)?)
    }

    fn read(&self) -> Verdict<Vec<Vec<u8>>> {
        let mut planes =
            (0..self.video.planes()).map(|plane| Ok(vec![0; self.size(plane)?])).collect::<Verdict<Vec<_>>>()?;
        self.vulkan.acquire_video(&self.video)?;
        self.vulkan.download_video(&self.video, &mut planes)?;
        self.vulkan.release_video(&self.video)?;
        Ok(planes)
    }

    fn verify(&self, pattern: Pattern, planes: &[Vec<u8>], side: &str) -> Verdict {
        let spec = self.video.spec();
        let [width, height] = spec.extent;
        for (plane, found) in planes.iter().enumerate() {
            let what = format!("plane {plane} of {width} x {height} {}, {:?}, {side}", spec.format, spec.storage);
            pattern.level(u32::try_from(plane)?).verify(0, found, &what)?;
        }
        Ok(())
    }

    /// Each side sees the other's writes, twice, so that stale data is detected.
    fn goes_both_ways(&self, context: &Context, device: &impl DeviceSide) -> Verdict {
        let stream = context.stream()?;
        let mut pattern = context.pattern();
        for _ in 0..2 {
            self.write(&self.texels(pattern)?)?;
            let mut found = self.texels(pattern.other())?;
            device.read(&stream, &mut found)?;
            self.verify(pattern, &found, "device's side")?;
            pattern = pattern.other();
            device.write(&stream, &self.texels(pattern)?)?;
            self.verify(pattern, &self.read()?, "exporter's side")?;
            pattern = pattern.other();
        }
        Ok(())
    }
}

/// The planes as the device maps them.
trait DeviceSide {
    fn read(&self, stream: &Stream, planes: &mut [Vec<u8>]) -> Verdict;
    fn write(&self, stream: &Stream, planes: &[Vec<u8>]) -> Verdict;
}

impl DeviceSide for MappedPlanes {
    fn read(&self, stream: &Stream, planes: &mut [Vec<u8>]) -> Verdict {
        for (plane, out) in planes.iter_mut().enumerate() {
            Self::read(self, stream, plane, out)?;
        }
        Ok(())
    }

    fn write(&self, stream: &Stream, planes: &[Vec<u8>]) -> Verdict {
        for (plane, data) in planes.iter().enumerate() {
            Self::write(self, stream, plane, data)?;
        }
        Ok(())
    }
}

impl DeviceSide for Vec<MappedMipmappedArray> {
    fn read(&self, stream: &Stream, planes: &mut [Vec<u8>]) -> Verdict {
        for (array, out) in self.iter().zip(planes) {
            stream.read_array(level(array)?, out)?;
        }
        Ok(())
    }

    fn write(&self, stream: &Stream, planes: &[Vec<u8>]) -> Verdict {
        for (array, data) in self.iter().zip(planes) {
            stream.write_array(level(array)?, data)?;
        }
        Ok(())
    }
}

fn level(array: &MappedMipmappedArray) -> Verdict<ArrayRegion<'_>> {
    Ok(array.level(0)?)
}

fn linear_goes_both_ways(context: &Context, options: &VideoOptions) -> Verdict {
    let picture = Picture::new(context, options)?;
    let planes = picture.video.map(context.device())?;
    picture.goes_both_ways(context, &planes)
}

fn formats(context: &Context, formats: &[VideoFormat]) -> Verdict {
    let check = |format| linear_goes_both_ways(context, &VideoOptions::new(spec(format, SIZE)));
    for_each(|what| context.leave_out(what), formats, false, check)
}

fn sizes(context: &Context) -> Verdict {
    // Of one texel, one chroma texel with and without the luma that it could cover, and around a usual pitch.
    let fixed = [[1, 1], [2, 2], [3, 3], [1, 2], [2, 1], [63, 5], [64, 4], [65, 3], [255, 2], [257, 2]];
    for (index, format) in VideoFormat::all().enumerate() {
        let random = |n: u64| 1 + u32::from(context.pattern().byte(n));
        let sizes = fixed.into_iter().chain((0..6).map(|n| {
            let at = 2 * (6 * index as u64 + n);
            [random(at), random(at + 1).div_ceil(4)]
        }));
        for size in sizes {
            let picture = Picture::new(context, &VideoOptions::new(spec(format, size)))?;
            let planes = picture.video.map(context.device())?;
            let (stream, back) = (context.stream()?, context.pattern().other());
            picture.write(&picture.texels(context.pattern())?)?;
            let mut found = picture.texels(back)?;
            DeviceSide::read(&planes, &stream, &mut found)?;
            picture.verify(context.pattern(), &found, "device's side")?;
            DeviceSide::write(&planes, &stream, &picture.texels(back)?)?;
            picture.verify(back, &picture.read()?, "exporter's side")?;
        }
    }
    Ok(())
}

fn one_image(context: &Context) -> Verdict {
    let storages = [PlaneStorage::Joint, PlaneStorage::Disjoint];
    let placements = [MemoryPlacement::DeviceLocal, MemoryPlacement::HostVisible];
    let variants: Vec<_> = VideoFormat::all()
        .flat_map(|format| storages.into_iter().map(move |storage| (format, storage)))
        .flat_map(|(format, storage)| placements.into_iter().map(move |placement| (format, storage, placement)))
        .collect();
    for_each(
        |what| context.leave_out(what),
        &variants,
        false,
        |(format, storage, placement)| {
            let options = VideoOptions::new(spec(format, SIZE).storage(storage)).memory(placement);
            linear_goes_both_ways(context, &options)
        },
    )
}

fn host_visible(context: &Context) -> Verdict {
    for format in [VideoFormat::Nv12, VideoFormat::P010, VideoFormat::Yuv422] {
        let options = VideoOptions::new(spec(format, SIZE)).memory(MemoryPlacement::HostVisible);
        linear_goes_both_ways(context, &options)?;
    }
    Ok(())
}

fn compare_planes(found: &[Vec<u8>], expected: &[Vec<u8>], what: std::fmt::Arguments<'_>) -> Verdict {
    ensure_eq!(found.len(), expected.len(), "{what}: planes");
    let mut planes = (0..).zip(found.iter().zip(expected));
    planes.try_for_each(|(plane, (found, expected)): (u32, _)| {
        compare(found, expected, format_args!("{what}, plane {plane}"))
    })
}

/// A side that compresses the memory of its writes must not read the other side's data as compressed.
fn compressible(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let variants = [PlaneStorage::Separate, PlaneStorage::Joint, PlaneStorage::Disjoint];
    for_each(
        |what| context.leave_out(what),
        &variants,
        false,
        |storage| {
            let picture =
                Picture::new(context, &VideoOptions::new(spec(VideoFormat::Nv12, [256, 64]).storage(storage)))?;
            let planes = picture.video.map(context.device())?;
            for round in 0..4 {
                let of_round = |round| -> Verdict<Vec<Vec<u8>>> {
                    let of = |plane| Ok(pattern::compressible(round, picture.size(plane)?));
                    (0..picture.video.planes()).map(of).collect()
                };
                let (sent, returned) = (of_round(2 * round)?, of_round(2 * round + 3)?);
                picture.write(&sent)?;
                let mut found = returned.clone();
                DeviceSide::read(&planes, &stream, &mut found)?;
                compare_planes(&found, &sent, format_args!("round {round} of {storage:?}: the exporter's texels"))?;
                DeviceSide::write(&planes, &stream, &returned)?;
                let found = picture.read()?;
                compare_planes(&found, &returned, format_args!("round {round} of {storage:?}: the device's texels"))?;
            }
            Ok(())
        },
    )
}

fn arrays(context: &Context) -> Verdict {
    let variants: Vec<_> = VideoFormat::all()
        .flat_map(|format| [PlaneStorage::Separate, PlaneStorage::Disjoint].map(|storage| (format, storage)))
        .collect();
    for_each(
        |what| context.leave_out(what),
        &variants,
        false,
        |(format, storage)| {
            let spec = spec(format, SIZE).tiling(vk::ImageTiling::OPTIMAL).storage(storage);
            let picture = Picture::new(context, &VideoOptions::new(spec))?;
            let arrays = picture.video.map_arrays(context.device()).map_err(Stop::attempted)?;
            picture.goes_both_ways(context, &arrays)
        },
    )
}

fn misuse(context: &Context) -> Verdict {
    let vulkan = vulkan(context)?;
    let new = |spec| ExportableVideo::new(vulkan.interop(), &VideoOptions::new(spec));
    for size in [[0, 2], [2, 0]] {
        expect_invalid(new(spec(VideoFormat::Nv12, size)), &format!("a size of {size:?}"))?;
    }
    for storage in [PlaneStorage::Joint, PlaneStorage::Disjoint] {
        expect_invalid(new(spec(VideoFormat::Nv12, [3, 2]).storage(storage)), "an odd width of one image")?;
    }
    expect_error(new(spec(VideoFormat::Nv12, [u32::MAX; 2])), ErrorKind::Unsupported, "the greatest size")?;
    let picture = Picture::new(context, &VideoOptions::new(spec(VideoFormat::Yuv420, [15, 9])))?;
    expect_invalid(picture.video.plane_layout(3), "a fourth plane")?;
    expect_invalid(picture.video.import_request(3), "a fourth allocation")?;
    let planes = picture.video.map(context.device())?;
    let stream = context.stream()?;
    expect_invalid(planes.read(&stream, 0, &mut [0; 134]), "a byte less than the plane")?;
    expect_invalid(planes.write(&stream, 1, &[0; 41]), "a byte more than the plane")?;
    expect_invalid(planes.row(1, 5), "a row too many")?;
    expect_invalid(
        vulkan.upload_video(&picture.video, &picture.texels(context.pattern())?),
        "a picture of the device",
    )?;
    picture.goes_both_ways(context, &planes)
}
