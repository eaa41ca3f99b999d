//! The parser, the decoder, and decoded pictures as memory of the device.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gpu_interop::backend::DevicePtr;
use gpu_interop::cudarc::cudarc::driver::CudaContext;
use gpu_interop::{BorrowedMemory, Device, PlaneLayout, Stream, VideoFormat};

use crate::abi::{
    CHROMA_420, DecodeStatus, DecoderInfo, DisplayInfo, END_OF_STREAM, H264, Handle, MapParams, Packet, ParserParams,
    SURFACE_NV12, Sequence, VIDEO_ENGINE, zeroed,
};
use crate::library::{Nvcuvid, check};
use crate::note;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Pictures mapped at the same time: one whose copies are pending, and the next.
const OUTPUT_SURFACES: c_ulong = 2;
/// `cuvidDecodeStatus_Error`, `cuvidDecodeStatus_Error_Concealed`.
const DAMAGED: [c_uint; 2] = [8, 9];

/// The GPU: its primary context, and the stream on which decoded pictures become visible.
pub(crate) struct Gpu {
    pub(crate) device: Device,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Stream,
}

/// A decoded picture in the decoder's memory. Unmapped when the copies of this memory have completed.
pub(crate) struct Picture {
    pub(crate) memory: BorrowedMemory,
    pub(crate) planes: Vec<PlaneLayout>,
    /// Width and height in luma texels.
    pub(crate) extent: [u32; 2],
}

struct Decoder {
    library: Arc<Nvcuvid>,
    context: Arc<CudaContext>,
    handle: Handle,
    extent: [u32; 2],
}

impl Decoder {
    fn new(library: &Arc<Nvcuvid>, context: &Arc<CudaContext>, sequence: &Sequence) -> Result<Self> {
        let [left, top, right, bottom] = sequence.display;
        let extent = [u32::try_from(right - left)?, u32::try_from(bottom - top)?];
        let depths = sequence.depth_minus_8;
        note(format_args!(
            "sequence: codec {}, chroma {}, depths - 8 {depths:?}, coded {:?}, shown {:?}, progressive {}, {} surfaces",
            sequence.codec,
            sequence.chroma,
            sequence.coded,
            sequence.display,
            sequence.progressive,
            sequence.min_surfaces
        ));
        if (sequence.codec, sequence.chroma, depths) != (H264, CHROMA_420, [0, 0]) || !VideoFormat::Nv12.divides(extent)
        {
            return Err("the clip is not H.264 4:2:0 of 8 bits with even width and height".into());
        }
        #[allow(clippy::useless_conversion, reason = "a C long has 32 bits on Windows only")]
        let mut info = DecoderInfo {
            width: sequence.coded[0].into(),
            height: sequence.coded[1].into(),
            max_width: sequence.coded[0].into(),
            max_height: sequence.coded[1].into(),
            decode_surfaces: sequence.min_surfaces.into(),
            codec: H264,
            chroma: CHROMA_420,
            flags: VIDEO_ENGINE,
            display: [left.try_into()?, top.try_into()?, right.try_into()?, bottom.try_into()?],
            surface_format: SURFACE_NV12,
            // No scaling.
            target_width: extent[0].into(),
            target_height: extent[1].into(),
            output_surfaces: OUTPUT_SURFACES,
            ..zeroed()
        };
        let mut handle = 0;
        // SAFETY: both pointers are valid for the call; the primary context is current on this thread.
        check("cuvidCreateDecoder", unsafe { (library.create_decoder)(&raw mut handle, &raw mut info) })?;
        Ok(Self { library: library.clone(), context: context.clone(), handle, extent })
    }

    /// Maps a picture for the display; its contents become visible on the stream.
    fn map(self: &Arc<Self>, gpu: &Gpu, shown: &DisplayInfo) -> Result<Picture> {
        let mut params = MapParams {
            progressive: shown.progressive,
            top_first: shown.top_first,
            unpaired: (shown.repeat_first < 0).into(),
            stream: gpu.stream.as_raw().get(),
            ..zeroed()
        };
        let (mut address, mut pitch) = (0, 0);
        let (at, step, how) = (&raw mut address, &raw mut pitch, &raw mut params);
        // SAFETY: the decoder is live, the pointers are valid for the call, and the stream is of the current context.
        check("cuvidMapVideoFrame64", unsafe { (self.library.map)(self.handle, shown.index, at, step, how) })?;
        let mapping = Arc::new(Mapping { decoder: self.clone(), address });
        let mut status = zeroed::<DecodeStatus>();
        // SAFETY: the decoder is live and the pointer is valid for the call.
        let queried = unsafe { (self.library.status)(self.handle, shown.index, &raw mut status) };
        note(format_args!("picture {}: {address:#x}, pitch {pitch}; status {queried}: {}", shown.index, status.status));
        if queried == 0 && DAMAGED.contains(&status.status) {
            return Err(format!("the engine reports a damaged picture: status {}", status.status).into());
        }
        // The rows of both planes have one pitch, and chroma follows the last row of luma.
        let planes = VideoFormat::Nv12.layout(0, self.extent, pitch.into(), 1)?;
        let size = planes.last().and_then(PlaneLayout::end).ok_or("a picture has planes")?;
        // SAFETY: the mapping is of at least this size and lives as long as its owner. Nothing but this stream uses it.
        let memory = unsafe { gpu.device.borrow_memory(DevicePtr::new(address), size, mapping) }?;
        Ok(Picture { memory, planes, extent: self.extent })
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        // SAFETY: created in `new`, without mapped pictures: these keep the decoder. Destroyed once.
        let _ = check("cuvidDestroyDecoder", unsafe { (self.library.destroy_decoder)(self.handle) });
    }
}

/// A mapped picture, which the device owns until the work on its memory has completed.
struct Mapping {
    decoder: Arc<Decoder>,
    address: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.decoder.context.bind_to_thread();
        // SAFETY: mapped in `map`, unmapped once, and no work on it is pending.
        let _ =
            check("cuvidUnmapVideoFrame64", unsafe { (self.decoder.library.unmap)(self.decoder.handle, self.address) });
    }
}

/// State of the callbacks.
struct Session<'a> {
    library: &'a Arc<Nvcuvid>,
    gpu: &'a Gpu,
    decoder: Option<Arc<Decoder>>,
    on_picture: &'a mut dyn FnMut(Picture) -> Result<()>,
    failure: Option<Box<dyn Error>>,
}

/// Runs the body of a callback. A failure is kept for [`decode`], and a panic is one: neither goes through the library.
///
/// # Safety
/// `user` is the `RefCell<Session>` that [`decode`] passed to the parser.
unsafe fn guard(user: *mut c_void, body: impl FnOnce(&mut Session<'_>) -> Result<c_int>) -> c_int {
    // SAFETY: the caller's promise; `decode` keeps the cell until the parser, which calls on its thread, is destroyed.
    let cell = unsafe { &*user.cast::<RefCell<Session<'_>>>() };
    let Ok(mut session) = cell.try_borrow_mut() else { return 0 };
    if session.failure.is_some() {
        return 0;
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&mut session)));
    outcome.unwrap_or_else(|_| Err("a callback panicked".into())).unwrap_or_else(|failure| {
        session.failure = Some(failure);
        0
    })
}

unsafe extern "system" fn on_sequence(user: *mut c_void, sequence: *mut Sequence) -> c_int {
    let body = |session: &mut Session<'_>| {
        if sequence.is_null() || session.decoder.is_some() {
            return Err("the clip has more than one sequence, or an empty one".into());
        }
        // SAFETY: the library passes a complete struct, which consists of numbers.
        let sequence = unsafe { sequence.read() };
        session.decoder = Some(Arc::new(Decoder::new(session.library, &session.gpu.context, &sequence)?));
        // From 2 on, the number of surfaces that the parser may use.
        Ok(c_int::from(sequence.min_surfaces).max(1))
    };
    // SAFETY: the parser passes what `decode` gave it.
    unsafe { guard(user, body) }
}

unsafe extern "system" fn on_decode(user: *mut c_void, picture: *mut c_void) -> c_int {
    let body = |session: &mut Session<'_>| {
        let decoder = session.decoder.as_ref().ok_or("a picture before its sequence")?;
        // SAFETY: the decoder is live, and the picture's parameters are the parser's.
        check("cuvidDecodePicture", unsafe { (decoder.library.decode)(decoder.handle, picture) })?;
        Ok(1)
    };
    // SAFETY: as above.
    unsafe { guard(user, body) }
}

unsafe extern "system" fn on_display(user: *mut c_void, shown: *mut DisplayInfo) -> c_int {
    let body = |session: &mut Session<'_>| {
        if shown.is_null() {
            return Ok(1); // The end of the stream.
        }
        // SAFETY: the library passes a complete struct, which consists of numbers.
        let shown = unsafe { shown.read() };
        let decoder = session.decoder.as_ref().ok_or("a picture before its sequence")?;
        (session.on_picture)(decoder.map(session.gpu, &shown)?)?;
        // Unmaps pictures whose copies have completed.
        session.gpu.device.collect();
        Ok(1)
    };
    // SAFETY: as above.
    unsafe { guard(user, body) }
}

struct Parser<'a>(&'a Nvcuvid, Handle);

impl Drop for Parser<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `decode`, destroyed once.
        let _ = check("cuvidDestroyVideoParser", unsafe { (self.0.destroy_parser)(self.1) });
    }
}

/// Decodes an elementary stream of H.264 (Annex B) and passes each picture, in the order of their display. The context of
/// the GPU is current on this thread.
pub(crate) fn decode(
    library: &Arc<Nvcuvid>,
    gpu: &Gpu,
    clip: &[u8],
    on_picture: &mut dyn FnMut(Picture) -> Result<()>,
) -> Result<()> {
    library.check_engine()?;
    let session = RefCell::new(Session { library, gpu, decoder: None, on_picture, failure: None });
    let mut params = ParserParams {
        codec: H264,
        // The callback of the sequence returns the number.
        max_surfaces: 1,
        // Pictures that the engine may decode before the first is displayed.
        display_delay: 1,
        user: (&raw const session).cast_mut().cast(),
        sequence: Some(on_sequence),
        decode: Some(on_decode),
        display: Some(on_display),
        ..zeroed()
    };
    let mut handle = 0;
    // SAFETY: both pointers are valid for the call. `session` outlives the parser, which is dropped first.
    check("cuvidCreateVideoParser", unsafe { (library.create_parser)(&raw mut handle, &raw mut params) })?;
    let parser = Parser(library, handle);
    let all = Packet { size: clip.len().try_into()?, bytes: clip.as_ptr(), ..zeroed() };
    let end = Packet { flags: END_OF_STREAM, ..zeroed() };
    for mut packet in [all, end] {
        // SAFETY: the parser is live; the packet and its bytes are valid for the call.
        let parsed = check("cuvidParseVideoData", unsafe { (library.parse)(parser.1, &raw mut packet) });
        // The reason of a callback, before the parser's.
        session.borrow_mut().failure.take().map_or(Ok(()), Err)?;
        parsed?;
    }
    Ok(())
}
