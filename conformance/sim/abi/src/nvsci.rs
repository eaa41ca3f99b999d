//! How a simulator of CUDA's driver reaches what is behind the objects of a simulator of NvSci. NVIDIA's driver is linked
//! with the real libraries, and has functions of theirs that are not public; these are in their place.

use std::ffi::{CStr, c_int, c_void};

/// The symbol of the function that gives an [`Interface`]: [`Entry`].
pub const ENTRY: &CStr = c"sim_nvsci_interface";

/// The type of the function at [`ENTRY`].
pub type Entry = extern "C" fn() -> *const Interface;

/// `NvSciError_NotSupported`.
pub const NOT_SUPPORTED: u32 = 0x11;

/// A GPU's id.
pub type GpuId = [u8; 16];

/// What is behind an NvSciBuf object.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BufferView {
    /// A memory file, which stays the object's.
    pub fd: c_int,
    /// Whether the object only allows reading: 1 or 0.
    pub read_only: u32,
    /// Whether it is an image: 1 or 0.
    pub image: u32,
    /// Whether it is an image that does not lie in rows: 1 or 0.
    pub block_linear: u32,
    /// Bytes.
    pub size: u64,
}

/// A point that an object will reach. It holds what it refers to until it is released.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// What is signalled.
    pub primitive: *const c_void,
    /// The value that it has then.
    pub value: u64,
}

/// What a driver asks for. Those that answer a number answer 0 or an `NvSciError`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Interface {
    /// Looks behind a buffer for a GPU that imports it, and notes the import. Fails for a GPU that it was not made for.
    pub import_buffer: unsafe extern "C" fn(object: usize, gpu: *const GpuId, view: *mut BufferView) -> u32,
    /// Ends a noted import of a buffer.
    pub release_buffer: unsafe extern "C" fn(object: usize),
    /// Fills an attribute list with what a GPU needs; 1 to signal, 2 to wait.
    pub fill_list: unsafe extern "C" fn(list: usize, gpu: *const GpuId, flags: c_int) -> u32,
    /// Imports an object for a GPU. The import holds the object.
    pub import_sync: unsafe extern "C" fn(object: usize, gpu: *const GpuId, import: *mut usize) -> u32,
    /// Ends an import of an object.
    pub release_sync: unsafe extern "C" fn(import: usize),
    /// The next point of an import's object, and a fence for it. [`NOT_SUPPORTED`] unless a list that the GPU filled asked to
    /// signal.
    pub next_point: unsafe extern "C" fn(import: usize, fence: *mut c_void, point: *mut Point) -> u32,
    /// The point of a fence. [`NOT_SUPPORTED`] unless a list that the GPU filled asked that it waits for the import's object.
    pub point_of: unsafe extern "C" fn(import: usize, fence: *const c_void, point: *mut Point) -> u32,
    /// Reaches a point.
    pub signal: unsafe extern "C" fn(point: *const Point),
    /// Waits until a point is reached.
    pub wait: unsafe extern "C" fn(point: *const Point),
    /// Releases a point.
    pub release_point: unsafe extern "C" fn(point: *const Point),
    /// Counts a signal (1) or wait (0) that synchronised memory (0) or skipped that (1).
    pub count_memsync: extern "C" fn(signal: u32, skipped: u32),
}
