//! Layouts of the structs that cross the interface of `libnvidia-encode`, version 11.1. Drivers from 470 on support it.

use std::ffi::{c_char, c_int, c_uint};

use crate::driver_library::{Status, structs, zeroed};

/// `NVENCAPI_VERSION`: the major version, and the minor one in the highest byte.
pub(crate) const VERSION: c_uint = 11 | 1 << 24;
/// The same as `NvEncodeAPIGetMaxSupportedVersion` returns it.
pub(crate) const SUPPORTED_VERSION: c_uint = 11 << 4 | 1;

/// `NVENCAPI_STRUCT_VERSION`: the version field of a struct.
const fn version(number: c_uint) -> c_uint {
    VERSION | number << 16 | 7 << 28
}

/// The same, of structs that contain a codec's parameters.
const fn codec_version(number: c_uint) -> c_uint {
    version(number) | 1 << 31
}

/// `NV_ENC_ERR_NO_ENCODE_DEVICE`, `NV_ENC_ERR_UNSUPPORTED_DEVICE`.
pub(crate) const WITHOUT_ENGINE: [c_int; 2] = [1, 2];
/// `NV_ENC_DEVICE_TYPE_CUDA`.
pub(crate) const CUDA: c_uint = 1;
/// `NV_ENC_TUNING_INFO_HIGH_QUALITY`.
pub(crate) const HIGH_QUALITY: c_uint = 1;
/// `NV_ENC_PARAMS_RC_CONSTQP`.
pub(crate) const CONSTANT_QP: c_uint = 0;
/// `NVENC_INFINITE_GOPLENGTH`.
pub(crate) const ONE_GROUP: c_uint = c_uint::MAX;
/// `NV_ENC_INPUT_RESOURCE_TYPE_CUDADEVICEPTR`.
pub(crate) const DEVICE_POINTER: c_uint = 1;
/// `NV_ENC_BUFFER_FORMAT_NV12`.
pub(crate) const NV12: c_uint = 1;
/// `NV_ENC_PIC_STRUCT_FRAME`.
pub(crate) const PROGRESSIVE: c_uint = 1;
/// `NV_ENC_PIC_FLAG_FORCEIDR`, `NV_ENC_PIC_FLAG_OUTPUT_SPSPPS`.
pub(crate) const KEY_FRAME: c_uint = 2 | 4;

/// An encoder, or one of its objects.
pub(crate) type Handle = usize;

structs! {
    /// `GUID`.
    Guid { first: u32, second: u16, third: u16, rest: [u8; 8] }
    /// `NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS`.
    Open {
        version: c_uint, kind: c_uint, device: usize, reserved: usize, api_version: c_uint, reserved1: [c_uint; 253],
        reserved2: [usize; 64],
    }
    /// `NV_ENC_RC_PARAMS`; `qp` is of P, B and I frames.
    RateControl { version: c_uint, mode: c_uint, qp: [c_uint; 3], rest: [c_uint; 27] }
    /// `NV_ENC_CONFIG`.
    Config {
        version: c_uint, profile: Guid, group: c_uint, interval: c_int, monochrome: c_uint, field_mode: c_uint,
        precision: c_uint, rate: RateControl, codec: [c_uint; 448], reserved: [c_uint; 278], reserved2: [usize; 64],
    }
    /// `NV_ENC_PRESET_CONFIG`.
    Preset { version: c_uint, config: Config, reserved1: [c_uint; 255], reserved2: [usize; 64] }
    /// `NV_ENC_INITIALIZE_PARAMS`.
    Initialize {
        version: c_uint, codec: Guid, preset: Guid, extent: [c_uint; 2], aspect: [c_uint; 2], rate: [c_uint; 2],
        asynchronous: c_uint, decides_types: c_uint, flags: c_uint, private_size: c_uint, private: usize,
        config: *mut Config, max_extent: [c_uint; 2], hint_counts: [c_uint; 8], tuning: c_uint, format: c_uint,
        reserved: [c_uint; 287], reserved2: [usize; 64],
    }
    /// `NV_ENC_CREATE_BITSTREAM_BUFFER`.
    Bitstream {
        version: c_uint, size: c_uint, heap: c_uint, reserved: c_uint, handle: Handle, pointer: usize,
        reserved1: [c_uint; 58], reserved2: [usize; 64],
    }
    /// `NV_ENC_REGISTER_RESOURCE`.
    Register {
        version: c_uint, kind: c_uint, extent: [c_uint; 2], pitch: c_uint, index: c_uint, address: usize,
        handle: Handle, format: c_uint, uses: c_uint, fences: [usize; 2], reserved1: [c_uint; 247],
        reserved2: [usize; 60],
    }
    /// `NV_ENC_MAP_INPUT_RESOURCE`.
    Map {
        version: c_uint, index: c_uint, resource: usize, registered: Handle, mapped: Handle, format: c_uint,
        reserved1: [c_uint; 251], reserved2: [usize; 63],
    }
    /// `NV_ENC_PIC_PARAMS`.
    Picture {
        version: c_uint, extent: [c_uint; 2], pitch: c_uint, flags: c_uint, index: c_uint, timestamp: u64,
        duration: u64, input: Handle, output: Handle, event: usize, format: c_uint, structure: c_uint, kind: c_uint,
        codec: [u64; 192], hint_counts: [c_uint; 8], hints: usize, reserved1: [c_uint; 6], reserved2: [usize; 2],
        qp_map: usize, qp_map_size: c_uint, bits: c_uint, distances: [u16; 2], alpha: usize, reserved3: [c_uint; 286],
        reserved4: [usize; 59],
    }
    /// `NV_ENC_LOCK_BITSTREAM`.
    Lock {
        version: c_uint, flags: c_uint, handle: Handle, slices: usize, index: c_uint, status: c_uint,
        slice_count: c_uint, size: c_uint, timestamp: u64, duration: u64, bytes: *const u8, rest: [c_uint; 370],
    }
    /// `NV_ENCODE_API_FUNCTION_LIST`.
    Functions {
        version: c_uint, reserved: c_uint, other: usize,
        codec_count: Option<unsafe extern "system" fn(Handle, *mut c_uint) -> Status>, other1: [usize; 2],
        codecs: Option<unsafe extern "system" fn(Handle, *mut Guid, c_uint, *mut c_uint) -> Status>,
        other2: [usize; 6],
        initialize: Option<unsafe extern "system" fn(Handle, *mut Initialize) -> Status>, other3: [usize; 2],
        create_bitstream: Option<unsafe extern "system" fn(Handle, *mut Bitstream) -> Status>,
        destroy_bitstream: Option<unsafe extern "system" fn(Handle, Handle) -> Status>,
        encode: Option<unsafe extern "system" fn(Handle, *mut Picture) -> Status>,
        lock: Option<unsafe extern "system" fn(Handle, *mut Lock) -> Status>,
        unlock: Option<unsafe extern "system" fn(Handle, Handle) -> Status>, other4: [usize; 6],
        map: Option<unsafe extern "system" fn(Handle, *mut Map) -> Status>,
        unmap: Option<unsafe extern "system" fn(Handle, Handle) -> Status>,
        destroy: Option<unsafe extern "system" fn(Handle) -> Status>, other5: usize,
        open: Option<unsafe extern "system" fn(*mut Open, *mut Handle) -> Status>,
        register: Option<unsafe extern "system" fn(Handle, *mut Register) -> Status>,
        unregister: Option<unsafe extern "system" fn(Handle, Handle) -> Status>, other6: [usize; 5],
        last_error: Option<unsafe extern "system" fn(Handle) -> *const c_char>, other7: usize,
        preset: Option<unsafe extern "system" fn(Handle, Guid, Guid, c_uint, *mut Preset) -> Status>,
        rest: [usize; 278],
    }
}

/// `NV_ENC_CODEC_H264_GUID`.
pub(crate) const H264: Guid =
    Guid { first: 0x6bc8_2762, second: 0x4e63, third: 0x4ca4, rest: [0xaa, 0x85, 0x1e, 0x50, 0xf3, 0x21, 0xf6, 0xbf] };
/// `NV_ENC_PRESET_P4_GUID`.
pub(crate) const P4: Guid =
    Guid { first: 0x90a7_b826, second: 0xdf06, third: 0x4862, rest: [0xb9, 0xd2, 0xcd, 0x6d, 0x73, 0xa0, 0x86, 0x81] };

impl PartialEq for Guid {
    fn eq(&self, other: &Self) -> bool {
        (self.first, self.second, self.third, self.rest) == (other.first, other.second, other.third, other.rest)
    }
}

/// Structs with their version, otherwise of zeros.
macro_rules! versions {
    ($($name:ident: $version:expr;)*) => { $(
        impl Default for $name {
            fn default() -> Self {
                Self { version: $version, ..zeroed() }
            }
        }
    )* };
}

versions! {
    Open: version(1);
    Config: codec_version(7);
    Preset: codec_version(4);
    Initialize: codec_version(5);
    Bitstream: version(1);
    Register: version(3);
    Map: version(4);
    Picture: codec_version(4);
    Lock: version(1);
    Functions: version(2);
}

/// Sizes and offsets, in bytes, of the C compiler with the header of Debian's package libffmpeg-nvenc-dev 11.1.
#[cfg(all(unix, target_pointer_width = "64"))]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Open>() == 1552 && size_of::<Config>() == 3584 && size_of::<Preset>() == 5128);
    assert!(size_of::<Initialize>() == 1808 && size_of::<Bitstream>() == 776 && size_of::<Register>() == 1536);
    assert!(size_of::<Map>() == 1544 && size_of::<Picture>() == 3344 && size_of::<Lock>() == 1544);
    assert!(size_of::<RateControl>() == 128 && size_of::<Functions>() == 2552);
    assert!(offset_of!(Open, device) == 8 && offset_of!(Open, api_version) == 24);
    assert!(offset_of!(Config, group) == 20 && offset_of!(Config, interval) == 24 && offset_of!(Config, rate) == 40);
    assert!(offset_of!(RateControl, mode) == 4 && offset_of!(RateControl, qp) == 8);
    assert!(offset_of!(Config, codec) == 168 && offset_of!(Preset, config) == 8);
    assert!(offset_of!(Initialize, codec) == 4 && offset_of!(Initialize, preset) == 20);
    assert!(offset_of!(Initialize, extent) == 36 && offset_of!(Initialize, decides_types) == 64);
    assert!(offset_of!(Initialize, config) == 88 && offset_of!(Initialize, tuning) == 136);
    assert!(offset_of!(Bitstream, handle) == 16 && offset_of!(Register, kind) == 4);
    assert!(offset_of!(Register, extent) == 8 && offset_of!(Register, pitch) == 16);
    assert!(offset_of!(Register, address) == 24 && offset_of!(Register, handle) == 32);
    assert!(offset_of!(Register, format) == 40 && offset_of!(Register, uses) == 44);
    assert!(offset_of!(Map, registered) == 16 && offset_of!(Map, mapped) == 24 && offset_of!(Map, format) == 32);
    assert!(offset_of!(Picture, extent) == 4 && offset_of!(Picture, pitch) == 12 && offset_of!(Picture, flags) == 16);
    assert!(offset_of!(Picture, input) == 40 && offset_of!(Picture, output) == 48);
    assert!(offset_of!(Picture, format) == 64 && offset_of!(Picture, structure) == 68);
    assert!(offset_of!(Picture, codec) == 80 && offset_of!(Lock, handle) == 8);
    assert!(offset_of!(Lock, size) == 36 && offset_of!(Lock, bytes) == 56);
    // The n-th function is at 8 n + 8.
    assert!(offset_of!(Functions, codec_count) == 16 && offset_of!(Functions, codecs) == 40);
    assert!(offset_of!(Functions, initialize) == 96 && offset_of!(Functions, create_bitstream) == 120);
    assert!(offset_of!(Functions, encode) == 136 && offset_of!(Functions, unlock) == 152);
    assert!(offset_of!(Functions, map) == 208 && offset_of!(Functions, destroy) == 224);
    assert!(offset_of!(Functions, open) == 240 && offset_of!(Functions, unregister) == 256);
    assert!(offset_of!(Functions, last_error) == 304 && offset_of!(Functions, preset) == 320);
};
