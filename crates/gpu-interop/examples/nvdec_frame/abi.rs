//! Layouts of the structs that cross the interface of `libnvcuvid`. Sizes are in pixels, and in bytes where noted.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use crate::driver_library::structs;
pub(crate) use crate::driver_library::zeroed;

/// `cudaVideoCodec_H264`.
pub(crate) const H264: c_uint = 4;
/// `cudaVideoChromaFormat_420`.
pub(crate) const CHROMA_420: c_uint = 1;
/// `cudaVideoSurfaceFormat_NV12`.
pub(crate) const SURFACE_NV12: c_uint = 0;
/// `cudaVideoCreate_PreferCUVID`: the video engine.
pub(crate) const VIDEO_ENGINE: c_ulong = 4;
/// `CUVID_PKT_ENDOFSTREAM`.
pub(crate) const END_OF_STREAM: c_ulong = 1;

/// A parser or decoder of the library.
pub(crate) type Handle = usize;
/// A callback of the parser: what the application passed, and a struct. Returns 0 for failure.
pub(crate) type Callback<T> = Option<unsafe extern "system" fn(*mut c_void, *mut T) -> c_int>;

structs! {
    /// `CUVIDDECODECAPS`: the first three fields are the question.
    DecoderCaps {
        codec: c_uint, chroma: c_uint, depth_minus_8: c_uint, reserved1: [c_uint; 3],
        supported: u8, engines: u8, surface_formats: u16, max_width: c_uint, max_height: c_uint, max_blocks: c_uint,
        min_width: u16, min_height: u16, histogram: [u8; 2], histogram_bins: u16, reserved2: [c_uint; 10],
    }
    /// `CUVIDEOFORMAT`: the sequence that the parser has found.
    Sequence {
        codec: c_uint, rate: [c_uint; 2], progressive: u8, depth_minus_8: [u8; 2], min_surfaces: u8,
        coded: [c_uint; 2], display: [c_int; 4], chroma: c_uint, bit_rate: c_uint, aspect: [c_int; 2], signal: [u8; 4],
        header_length: c_uint,
    }
    /// `CUVIDDECODECREATEINFO`. Rectangles are left, top, right, bottom.
    DecoderInfo {
        width: c_ulong, height: c_ulong, decode_surfaces: c_ulong, codec: c_uint, chroma: c_uint, flags: c_ulong,
        depth_minus_8: c_ulong, intra_only: c_ulong, max_width: c_ulong, max_height: c_ulong, reserved1: c_ulong,
        display: [i16; 4], surface_format: c_uint, deinterlace: c_uint, target_width: c_ulong, target_height: c_ulong,
        output_surfaces: c_ulong, lock: *mut c_void, target: [i16; 4], histogram: c_ulong, reserved2: [c_ulong; 4],
    }
    /// `CUVIDPARSERPARAMS`.
    ParserParams {
        codec: c_uint, max_surfaces: c_uint, clock_rate: c_uint, error_threshold: c_uint, display_delay: c_uint,
        annex_b: c_uint, reserved1: [c_uint; 4], user: *mut c_void, sequence: Callback<Sequence>,
        decode: Callback<c_void>, display: Callback<DisplayInfo>, operating_point: Callback<c_void>,
        reserved2: [*mut c_void; 6], header: *mut c_void,
    }
    /// `CUVIDSOURCEDATAPACKET`: bytes of the stream.
    Packet { flags: c_ulong, size: c_ulong, bytes: *const u8, timestamp: i64 }
    /// `CUVIDPARSERDISPINFO`: a picture to display.
    DisplayInfo { index: c_int, progressive: c_int, top_first: c_int, repeat_first: c_int, timestamp: i64 }
    /// `CUVIDPROCPARAMS`: how a picture is mapped.
    MapParams {
        progressive: c_int, second_field: c_int, top_first: c_int, unpaired: c_int, reserved1: [c_uint; 2],
        raw_input: u64, raw_input_layout: [c_uint; 2], raw_output: u64, raw_output_pitch: c_uint, reserved2: c_uint,
        stream: usize, reserved3: [c_uint; 46], histogram: *mut u64, reserved4: *mut c_void,
    }
    /// `CUVIDGETDECODESTATUS`.
    DecodeStatus { status: c_uint, reserved1: [c_uint; 31], reserved2: [*mut c_void; 8] }
}

/// Sizes and offsets, in bytes, of the C compiler with the headers of the Video Codec SDK.
#[cfg(all(unix, target_pointer_width = "64"))]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<DecoderCaps>() == 88 && size_of::<Sequence>() == 64 && size_of::<DecoderInfo>() == 176);
    assert!(size_of::<ParserParams>() == 136 && size_of::<Packet>() == 32 && size_of::<DisplayInfo>() == 24);
    assert!(size_of::<MapParams>() == 264 && size_of::<DecodeStatus>() == 192);
    assert!(offset_of!(DecoderCaps, supported) == 24 && offset_of!(DecoderCaps, engines) == 25);
    assert!(offset_of!(DecoderCaps, surface_formats) == 26 && offset_of!(DecoderCaps, max_width) == 28);
    assert!(offset_of!(DecoderCaps, max_height) == 32 && offset_of!(DecoderCaps, min_width) == 40);
    assert!(offset_of!(Sequence, progressive) == 12 && offset_of!(Sequence, depth_minus_8) == 13);
    assert!(offset_of!(Sequence, min_surfaces) == 15 && offset_of!(Sequence, coded) == 16);
    assert!(offset_of!(Sequence, display) == 24 && offset_of!(Sequence, chroma) == 40);
    assert!(offset_of!(DecoderInfo, decode_surfaces) == 16 && offset_of!(DecoderInfo, codec) == 24);
    assert!(offset_of!(DecoderInfo, chroma) == 28 && offset_of!(DecoderInfo, flags) == 32);
    assert!(offset_of!(DecoderInfo, max_width) == 56 && offset_of!(DecoderInfo, display) == 80);
    assert!(offset_of!(DecoderInfo, surface_format) == 88 && offset_of!(DecoderInfo, target_width) == 96);
    assert!(offset_of!(DecoderInfo, output_surfaces) == 112 && offset_of!(DecoderInfo, lock) == 120);
    assert!(offset_of!(ParserParams, user) == 40 && offset_of!(ParserParams, sequence) == 48);
    assert!(offset_of!(ParserParams, decode) == 56 && offset_of!(ParserParams, display) == 64);
    assert!(offset_of!(ParserParams, display_delay) == 16 && offset_of!(ParserParams, header) == 128);
    assert!(offset_of!(Packet, size) == 8 && offset_of!(Packet, bytes) == 16 && offset_of!(Packet, timestamp) == 24);
    assert!(offset_of!(DisplayInfo, top_first) == 8 && offset_of!(DisplayInfo, timestamp) == 16);
    assert!(offset_of!(MapParams, stream) == 56 && offset_of!(MapParams, histogram) == 248);
};
