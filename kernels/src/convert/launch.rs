//! Conversions enqueued on a stream, with all sizes checked before.

use gpu_interop_core::{
    BinaryImage, BufferSlice, Device, DevicePtr, Error, Kernel, KernelArg, LaunchConfig, MappedPlanes, Module,
    ModuleImage, Result, Stream,
};

use super::{Conversion, Layout, RgbOrder, YuvFormat, plane_sizes, rows};
use crate::{RGBA_TO_YUV, YUV_TO_RGBA, code_object, ptx};

/// Greatest width and height.
const GREATEST: u32 = 1 << 16;

/// Rows of a picture in device memory.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'a> {
    memory: Memory<'a>,
    pitch: u64,
}

#[derive(Debug, Clone, Copy)]
enum Memory<'a> {
    Mapped(BufferSlice<'a>),
    Raw { start: DevicePtr, size: u64 },
}

impl<'a> Plane<'a> {
    /// Rows in a mapping, or in a range of it, with the bytes from one row to the next.
    #[must_use]
    pub fn new(rows: impl Into<BufferSlice<'a>>, pitch: u64) -> Self {
        Self { memory: Memory::Mapped(rows.into()), pitch }
    }

    /// Rows in memory of the application, such as a decoder's.
    ///
    /// # Safety
    /// `size` bytes from `start` on are device memory of the stream's device, valid until every conversion that uses the
    /// plane has completed, and writable if it is a target. If a conversion is recorded, until the graph has been dropped and
    /// its launches have completed.
    #[must_use]
    pub const unsafe fn from_raw(start: DevicePtr, size: u64, pitch: u64) -> Self {
        Self { memory: Memory::Raw { start, size }, pitch }
    }

    fn start(&self) -> DevicePtr {
        match self.memory {
            Memory::Mapped(slice) => slice.as_raw(),
            Memory::Raw { start, .. } => start,
        }
    }

    fn size(&self) -> u64 {
        match self.memory {
            Memory::Mapped(slice) => slice.size(),
            Memory::Raw { size, .. } => size,
        }
    }

    fn is_read_only(&self) -> bool {
        matches!(self.memory, Memory::Mapped(slice) if slice.is_read_only())
    }

    fn argument(&self) -> KernelArg<'a> {
        match self.memory {
            Memory::Mapped(slice) => KernelArg::Buffer(slice),
            Memory::Raw { start, .. } => KernelArg::Ptr(start),
        }
    }
}

/// A picture with luma and interleaved chroma.
#[derive(Debug, Clone, Copy)]
pub struct YuvPicture<'a> {
    /// Format.
    pub format: YuvFormat,
    /// Luma.
    pub luma: Plane<'a>,
    /// Cb and Cr.
    pub chroma: Plane<'a>,
}

impl<'a> YuvPicture<'a> {
    /// The planes of an imported picture.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the planes have another number,
    /// other texels or another subsampling than those of the format.
    pub fn of_planes(format: YuvFormat, planes: &'a MappedPlanes) -> Result<Self> {
        let (luma, chroma, sample) = (planes.layout(0)?, planes.layout(1)?, format.sample_size());
        let texels = [luma, chroma].map(|layout| (layout.texel.channels(), layout.texel.texel_size()));
        let half = luma.extent.map(|size| size.div_ceil(2));
        if planes.len() != 2 || texels != [(1, sample), (2, 2 * sample)] || chroma.extent != half {
            let message = "the planes are not those of the format; pass the format of the picture, or convert a picture of another \
                           format with a kernel of your own";
            return Err(Error::invalid("YuvPicture::of_planes", message)
                .with_context("format", format_args!("{format:?}"))
                .with_context("planes", planes.len())
                .with_context("luma", luma.texel)
                .with_context("chroma", chroma.texel));
        }
        let plane = |number| Ok::<_, Error>(Plane::new(planes.slice(number)?, planes.layout(number)?.pitch));
        Ok(Self { format, luma: plane(0)?, chroma: plane(1)? })
    }
}

/// A picture of red, green, blue and alpha, 8 bits each.
#[derive(Debug, Clone, Copy)]
pub struct RgbPicture<'a> {
    /// Order of the channels.
    pub order: RgbOrder,
    /// Texels.
    pub texels: Plane<'a>,
}

/// The conversion kernels of a device.
///
/// ```
/// # fn main() -> gpu_interop_core::Result<()> {
/// use gpu_interop_core::Device;
/// use gpu_interop_kernels::convert::{
///     Conversion, Converter, Matrix, Plane, Range, RgbOrder, RgbPicture, Siting, YuvFormat, YuvPicture,
/// };
///
/// let device = Device::open(&gpu_interop_host::HostBackend::new(), 0)?;
/// let stream = device.create_stream()?;
/// // A picture of 640 x 480 in NV12, and one in RGBA.
/// let frame = device.allocate_exportable(640 * 480 * 3 / 2)?;
/// let texels = device.allocate_exportable(640 * 480 * 4)?;
/// let source = YuvPicture {
///     format: YuvFormat::Nv12,
///     luma: Plane::new(frame.slice(..640 * 480)?, 640),
///     chroma: Plane::new(frame.slice(640 * 480..)?, 640),
/// };
/// let target = RgbPicture { order: RgbOrder::Rgba, texels: Plane::new(&texels, 640 * 4) };
/// let conversion = Conversion { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };
/// stream.fill(&frame, 128)?;
/// Converter::load(&device)?.yuv_to_rgba(&stream, &conversion, [640, 480], &source, &target)?;
/// let mut first = [0; 4];
/// stream.read(texels.slice(..4)?, &mut first)?;
/// assert_eq!(first, [130, 130, 130, 255]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Converter {
    yuv_to_rgba: Kernel,
    rgba_to_yuv: Kernel,
}

impl Converter {
    /// Loads the embedded kernels for a device of the CUDA, HIP or host backend.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for an AMD GPU without a code object; errors
    /// of the driver.
    pub fn load(device: &Device) -> Result<Self> {
        let image = match device.backend().name.as_str() {
            "host" => ModuleImage::Builtin,
            "hip" => {
                let architecture = device.architecture().unwrap_or_default();
                let object = code_object(architecture).ok_or_else(|| {
                    Error::unsupported(
                        "Converter::load",
                        "no kernels are built for this GPU; add it to code_objects.sh",
                    )
                    .with_context("architecture", architecture)
                })?;
                // SAFETY: a complete code object, as the linker wrote it.
                ModuleImage::Binary(unsafe { BinaryImage::new(object) })
            }
            _ => ModuleImage::Ptx(ptx()),
        };
        // SAFETY: the module has the kernels of this crate, or the host backend's CPU versions.
        unsafe { Self::from_module(&device.load_module(image)?) }
    }

    /// Takes the kernels from a module that the application has loaded.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the module lacks them.
    ///
    /// # Safety
    /// The module's kernels of these names are those of this crate, from [`ptx`], [`code_object`] or the host backend.
    pub unsafe fn from_module(module: &Module) -> Result<Self> {
        Ok(Self { yuv_to_rgba: module.kernel(YUV_TO_RGBA.name)?, rgba_to_yuv: module.kernel(RGBA_TO_YUV.name)? })
    }

    /// Enqueues a conversion to RGBA or BGRA. The texels are undefined if the target overlaps the source.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument), before a driver is called, with the
    /// name of the plane: a width or height of 0 or above 65,536, a pitch below the size of a row, an address or a pitch
    /// that is not a multiple of the size of a sample, of a pair of chroma or of a texel, rows past the end of the memory,
    /// or a read-only target. Those of [`Stream::launch`].
    pub fn yuv_to_rgba(
        &self,
        stream: &Stream,
        conversion: &Conversion,
        extent: [u32; 2],
        source: &YuvPicture<'_>,
        target: &RgbPicture<'_>,
    ) -> Result<()> {
        let layout = check("Converter::yuv_to_rgba", extent, source, target, Target::Rgb)?;
        let numbers = conversion.yuv_to_rgba_numbers(&layout);
        // SAFETY: `check` has accepted the planes that these numbers describe.
        unsafe {
            launch(stream, &self.yuv_to_rgba, [source.luma, source.chroma, target.texels], &numbers, blocks(extent, 4))
        }
    }

    /// Enqueues a conversion from RGBA or BGRA. The samples are undefined if the target overlaps the source.
    ///
    /// # Errors
    /// As [`yuv_to_rgba`](Self::yuv_to_rgba).
    pub fn rgba_to_yuv(
        &self,
        stream: &Stream,
        conversion: &Conversion,
        extent: [u32; 2],
        source: &RgbPicture<'_>,
        target: &YuvPicture<'_>,
    ) -> Result<()> {
        let layout = check("Converter::rgba_to_yuv", extent, target, source, Target::Yuv)?;
        let numbers = conversion.rgba_to_yuv_numbers(&layout);
        // SAFETY: `check` has accepted the planes that these numbers describe.
        unsafe {
            launch(stream, &self.rgba_to_yuv, [target.luma, target.chroma, source.texels], &numbers, blocks(extent, 2))
        }
    }
}

/// The picture that a conversion writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Rgb,
    Yuv,
}

/// Blocks of four columns and so many rows, each for a thread.
fn blocks([width, height]: [u32; 2], rows: u32) -> u64 {
    u64::from(width.div_ceil(4)) * u64::from(height.div_ceil(rows))
}

/// Enqueues a kernel.
///
/// # Safety
/// `kernel` takes the three addresses and `numbers`, and the planes have the sizes that these state.
unsafe fn launch(
    stream: &Stream,
    kernel: &Kernel,
    planes: [Plane<'_>; 3],
    numbers: &[u32],
    threads: u64,
) -> Result<()> {
    let mut arguments: Vec<KernelArg<'_>> = planes.iter().map(Plane::argument).collect();
    arguments.extend(numbers.iter().copied().map(KernelArg::U32));
    // SAFETY: the arguments are the kernel's, by the caller's promise. Mappings are kept until it has completed, and raw
    // memory is valid by the promise of `Plane::from_raw`.
    unsafe { stream.launch(kernel, &LaunchConfig::linear(threads), &arguments) }
}

fn check(
    operation: &'static str,
    extent: [u32; 2],
    yuv: &YuvPicture<'_>,
    rgb: &RgbPicture<'_>,
    target: Target,
) -> Result<Layout> {
    let sample = yuv.format.sample_size();
    let planes = [
        ("luma", yuv.luma, sample, Target::Yuv),
        ("chroma", yuv.chroma, 2 * sample, Target::Yuv),
        ("rgba", rgb.texels, 4, Target::Rgb),
    ];
    let (row_sizes, _) =
        rows(extent, sample).filter(|_| extent.iter().all(|size| *size <= GREATEST)).ok_or_else(|| {
            Error::invalid(operation, "the width and the height must be 1 to 65,536")
                .with_context("width", extent[0])
                .with_context("height", extent[1])
        })?;
    let mut pitches = [0; 3];
    for (index, (name, plane, element, _)) in planes.iter().enumerate() {
        let invalid = |message| Error::invalid(operation, message).with_context("plane", name);
        let of_row = u32::try_from(plane.pitch).ok().filter(|_| plane.pitch >= row_sizes[index]);
        pitches[index] = of_row.ok_or_else(|| {
            invalid("the pitch must be at least the size of a row, and fit in 32 bits")
                .with_context("pitch", plane.pitch)
                .with_context("row", row_sizes[index])
        })?;
        let element = u64::from(*element);
        if !plane.pitch.is_multiple_of(element) || !plane.start().get().is_multiple_of(element) {
            return Err(invalid("the address and the pitch must be multiples of the size of an element")
                .with_context("address", format_args!("{:#x}", plane.start().get()))
                .with_context("pitch", plane.pitch)
                .with_context("element", element));
        }
    }
    let layout = Layout { extent, yuv: yuv.format, rgb: rgb.order, pitches };
    let [luma, chroma, rgba] = pitches;
    let sizes = plane_sizes(&[luma, chroma, rgba, extent[0], extent[1], sample]).unwrap_or([u64::MAX; 3]);
    for ((name, plane, _, written), needed) in planes.iter().zip(sizes) {
        let invalid = |message| Error::invalid(operation, message).with_context("plane", name);
        if plane.size() < needed {
            return Err(invalid("the rows end after the memory; pass a larger range, or a smaller size or pitch")
                .with_context("needed", needed)
                .with_context("size", plane.size()));
        }
        if *written == target && plane.is_read_only() {
            return Err(invalid("the exporter allows reads only; convert to other memory"));
        }
    }
    Ok(layout)
}
