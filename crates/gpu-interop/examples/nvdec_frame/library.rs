//! The functions of `libnvcuvid`, found at run time.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{
    CHROMA_420, DecodeStatus, DecoderCaps, DecoderInfo, H264, Handle, MapParams, Packet, ParserParams, SURFACE_NV12,
    zeroed,
};
use crate::driver_library::{LoadError, functions};
use crate::note;

/// The library's name where the driver installs it.
pub(crate) const NAME: &str = if cfg!(windows) { "nvcuvid.dll" } else { "libnvcuvid.so.1" };

/// What the machine lacks for decoding on the GPU.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Missing {
    #[error(
        "NVIDIA's decoder library cannot be used ({0}); install the driver's video libraries (Debian: libnvcuvid1) or a \
         newer driver, or give the container the driver capability `video` (NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility,video)"
    )]
    Library(#[from] LoadError),
    #[error("no video engine decodes H.264 4:2:0 of 8 bits to NV12 here: {0}; another GPU or MIG profile may have one")]
    Engine(String),
}

/// A status that is not 0: a `CUresult`.
#[derive(Debug, thiserror::Error)]
#[error("{function} failed with CUresult {code}")]
pub(crate) struct Failure {
    pub(crate) function: &'static str,
    pub(crate) code: c_int,
}

/// Turns a status into a result.
pub(crate) fn check(function: &'static str, code: c_int) -> Result<(), Failure> {
    note(format_args!("{function}: {code}"));
    if code == 0 { Ok(()) } else { Err(Failure { function, code }) }
}

functions! {
    /// The loaded library.
    Nvcuvid {
        get_caps = "cuvidGetDecoderCaps": fn(*mut DecoderCaps);
        create_parser = "cuvidCreateVideoParser": fn(*mut Handle, *mut ParserParams);
        parse = "cuvidParseVideoData": fn(Handle, *mut Packet);
        destroy_parser = "cuvidDestroyVideoParser": fn(Handle);
        create_decoder = "cuvidCreateDecoder": fn(*mut Handle, *mut DecoderInfo);
        decode = "cuvidDecodePicture": fn(Handle, *mut c_void);
        map = "cuvidMapVideoFrame64": fn(Handle, c_int, *mut u64, *mut c_uint, *mut MapParams);
        unmap = "cuvidUnmapVideoFrame64": fn(Handle, u64);
        status = "cuvidGetDecodeStatus": fn(Handle, c_int, *mut DecodeStatus);
        destroy_decoder = "cuvidDestroyDecoder": fn(Handle);
    }
}

impl Nvcuvid {
    /// Checks that an engine of the current context's GPU decodes H.264 4:2:0 of 8 bits to NV12.
    pub(crate) fn check_engine(&self) -> Result<(), Missing> {
        let mut caps = DecoderCaps { codec: H264, chroma: CHROMA_420, ..zeroed() };
        // SAFETY: the struct is complete, and the function keeps no pointer to it.
        let queried = check("cuvidGetDecoderCaps", unsafe { (self.get_caps)(&raw mut caps) });
        queried.map_err(|failure| Missing::Engine(failure.to_string()))?;
        let DecoderCaps { supported, engines, surface_formats, max_width, max_height, .. } = caps;
        let found = format!(
            "supported {supported}, {engines} engines, surface formats {surface_formats:#x}, at most {max_width} x \
             {max_height} pixels"
        );
        note(format_args!("{found}"));
        let is_usable = supported != 0 && surface_formats & (1 << SURFACE_NV12) != 0;
        if is_usable { Ok(()) } else { Err(Missing::Engine(found)) }
    }
}
