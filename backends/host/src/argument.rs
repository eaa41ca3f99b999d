//! The arguments of a launch, kept until the kernel runs.

use std::mem::MaybeUninit;

use gpu_interop_core::{ByValue, DevicePtr, Error, KernelArg, Result};

/// The strictest alignment of an argument: that of CUDA's and HIP's vector types.
type Block = MaybeUninit<u128>;

/// An argument that outlives the call which enqueued the kernel.
#[derive(Debug, Clone)]
pub(crate) enum HostArg {
    Ptr(DevicePtr),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    Value(Value),
}

impl HostArg {
    pub(crate) fn new(operation: &'static str, arg: KernelArg<'_>) -> Result<Self> {
        Ok(match arg {
            KernelArg::Ptr(value) => Self::Ptr(value),
            KernelArg::U8(value) => Self::U8(value),
            KernelArg::U16(value) => Self::U16(value),
            KernelArg::U32(value) => Self::U32(value),
            KernelArg::U64(value) => Self::U64(value),
            KernelArg::I8(value) => Self::I8(value),
            KernelArg::I16(value) => Self::I16(value),
            KernelArg::I32(value) => Self::I32(value),
            KernelArg::I64(value) => Self::I64(value),
            KernelArg::F32(value) => Self::F32(value),
            KernelArg::F64(value) => Self::F64(value),
            KernelArg::Value(value) => Self::Value(Value::copy(operation, value)?),
            _ => return Err(Error::unsupported(operation, "kernel arguments of this kind are not supported")),
        })
    }
}

/// A copy of a struct or an array.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    blocks: Box<[Block]>,
    size: usize,
    align: usize,
}

impl Value {
    fn copy(operation: &'static str, value: ByValue<'_>) -> Result<Self> {
        let (size, align) = (value.size(), value.align());
        if align > align_of::<Block>() {
            return Err(Error::invalid(operation, "kernel arguments of this alignment are not supported")
                .with_context("alignment", align));
        }
        let mut blocks = vec![Block::uninit(); size.div_ceil(size_of::<Block>())].into_boxed_slice();
        // SAFETY: the value has this many bytes, and the blocks have at least as many; they are a new allocation.
        unsafe { value.as_ptr().copy_to_nonoverlapping(blocks.as_mut_ptr().cast(), size) };
        Ok(Self { blocks, size, align })
    }

    /// # Safety
    /// The argument was of this type.
    pub(crate) unsafe fn read<T: Copy>(&self) -> Option<T> {
        // SAFETY: as many bytes as `T` has, of a `T`, aligned to 16 bytes, which was seen to be enough for it.
        (self.size == size_of::<T>() && self.align == align_of::<T>())
            .then(|| unsafe { self.blocks.as_ptr().cast::<T>().read() })
    }
}
