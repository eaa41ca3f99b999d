//! Raw driver values: pointer-sized, copyable, valid only with the device that returned them.

use std::fmt;

macro_rules! raw_values {
    ($( $(#[$meta:meta])* $name:ident; )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(usize);

        impl $name {
            /// Wraps a driver value.
            #[must_use]
            pub const fn new(value: usize) -> Self {
                Self(value)
            }

            /// Returns the driver value.
            #[must_use]
            pub const fn get(self) -> usize {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    )+ };
}

raw_values! {
    /// A context: `CUcontext`. HIP's contexts are its devices.
    RawContext;
    /// An imported memory object: `CUexternalMemory`, `hipExternalMemory_t`.
    RawMemory;
    /// An imported semaphore: `CUexternalSemaphore`, `hipExternalSemaphore_t`.
    RawSemaphore;
    /// A stream: `CUstream`, `hipStream_t`. 0 is the driver's default stream.
    RawStream;
    /// An event: `CUevent`, `hipEvent_t`.
    RawEvent;
    /// A mipmapped array: `CUmipmappedArray`, `hipMipmappedArray_t`.
    RawMipmappedArray;
    /// An array, such as one level of a mipmapped array: `CUarray`, `hipArray_t`.
    RawArray;
    /// A surface object: `CUsurfObject`, `hipSurfaceObject_t`.
    RawSurface;
    /// A texture object: `CUtexObject`, `hipTextureObject_t`.
    RawTexture;
    /// An exportable allocation: `CUmemGenericAllocationHandle`.
    RawAllocation;
    /// A module: `CUmodule`, `hipModule_t`.
    RawModule;
    /// A kernel: `CUfunction`, `hipFunction_t`.
    RawKernel;
    /// An instantiated graph: `CUgraphExec`, `hipGraphExec_t`.
    RawGraph;
    /// A node of a graph: `CUgraphNode`, `hipGraphNode_t`.
    RawGraphNode;
}

/// An address in a device's address space: `CUdeviceptr`, `hipDeviceptr_t`.
///
/// The host must not access it unless the backend documents that it may.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct DevicePtr(u64);

impl DevicePtr {
    /// Wraps a device address.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// Returns the address.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the address plus `offset` bytes.
    #[must_use]
    pub const fn offset(self, offset: u64) -> Self {
        Self(self.0.wrapping_add(offset))
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr({:#x})", self.0)
    }
}
