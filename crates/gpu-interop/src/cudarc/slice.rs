//! Memory that cudarc and the streams of this crate use.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::RangeBounds;
use std::sync::Arc;

use ::cudarc::driver::sys::CUdeviceptr;
use ::cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, LaunchArgs,
    PushKernelArg, SyncOnDrop,
};
use gpu_interop_core::{BorrowedMemory, BufferSlice, Error, MappedBuffer, Result, byte_range};

use super::context::check_same;
use super::stream::SharedStream;
use super::sys;
use super::sys::error;

/// Device memory of `len` elements that cudarc and the streams of this crate use: a range of a [`MappedBuffer`], or a
/// `CudaSlice` of cudarc.
///
/// For cudarc it is a `DevicePtr<T>` and `DevicePtrMut<T>`, the source and destination of its copies and fills, and a
/// kernel argument (`launch_builder(..).arg(&slice)`, `.arg(&mut slice)`). [`as_view`](Self::as_view) and
/// [`as_view_mut`](Self::as_view_mut) are cudarc's views, for parts. [`operand`](Self::operand) is the same memory for
/// the streams of this crate.
///
/// The memory stays mapped until the slice has been dropped and the work of both libraries that uses it has completed:
/// on its stream, and on other streams as far as cudarc tracks them (`CudaContext::is_event_tracking` when the slice
/// was made). cudarc never frees imported memory. A graph that cudarc captures on another stream does not keep it.
pub struct SharedSlice<T: AnyBits> {
    /// For cudarc: owns its events, not the memory.
    view: ManuallyDrop<CudaSlice<T>>,
    memory: Memory,
    stream: SharedStream,
}

/// Owner of the memory.
#[derive(Debug, Clone)]
enum Memory {
    Mapped { buffer: Arc<MappedBuffer>, offset: u64, size: u64 },
    Borrowed(Arc<BorrowedMemory>),
}

impl<T: AnyBits> SharedSlice<T> {
    /// Makes a range of a mapping, in bytes, a slice for cudarc; `..` is all of it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a range that is empty or past the end, an
    /// address that `T` is not aligned at, a size that is no multiple of that of `T`, and a buffer of another device;
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a buffer that the exporter allows reads of only;
    /// otherwise the driver's error.
    pub fn mapped(stream: &SharedStream, buffer: Arc<MappedBuffer>, range: impl RangeBounds<u64>) -> Result<Self> {
        const OPERATION: &str = "SharedSlice::mapped";
        let decorate = |error: Error| error.with_device(stream.device().identity());
        let (offset, size) = byte_range(OPERATION, range, buffer.size()).map_err(decorate)?;
        if buffer.is_read_only() {
            let message = "the exporter allows reads only, and cudarc's slices are written, too";
            return Err(decorate(Error::unsupported(OPERATION, message)));
        }
        let address = buffer.as_raw().offset(offset).get();
        let len = count::<T>(OPERATION, address, size).map_err(decorate)?;
        // Marks the buffer as used on the stream, for as long as it lives.
        stream.keep(&*buffer)?;
        // SAFETY: the range is inside the mapping, aligned, and a multiple of the element's size, whose bits may be
        // any. The `Arc` keeps the mapping until the view is gone and the stream has completed what it was used for.
        let view = unsafe { sys::view(OPERATION, stream.cudarc(), address, len) }.map_err(decorate)?;
        Ok(Self { view, memory: Memory::Mapped { buffer, offset, size }, stream: stream.clone() })
    }

    /// Takes a slice of cudarc, so that streams of this crate use its memory. Blocks until cudarc's earlier work on it
    /// has completed, which includes its allocation. The slice is dropped, and its memory freed, once the returned
    /// object has been dropped and all work has completed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty slice;
    /// [`ErrorKind::DeviceMismatch`](crate::ErrorKind::DeviceMismatch) for one of another context; otherwise the
    /// driver's error. The slice is then dropped.
    pub fn borrowed(stream: &SharedStream, mut slice: CudaSlice<T>) -> Result<Self> {
        const OPERATION: &str = "SharedSlice::borrowed";
        let device = stream.device();
        check_same(OPERATION, device, slice.context())?;
        let home = stream.cudarc();
        // The home stream waits for the streams that cudarc knows of; failures are returned by the next call.
        let address = slice.device_ptr_mut(home).0;
        let synchronized = slice.stream().synchronize().and_then(|()| home.synchronize());
        synchronized.map_err(|failure| error(OPERATION, failure).with_device(device.identity()))?;
        let size = slice.num_bytes() as u64;
        let len = count::<T>(OPERATION, address, size).map_err(|error| error.with_device(device.identity()))?;
        // SAFETY: the slice was passed by value, so nothing else uses its memory, whose elements may be any bits. It is
        // allocated, no work on it is pending, and its owner, the slice, frees it when dropped.
        let memory = unsafe { sys::borrow(device, address, size, Arc::new(slice)) }?;
        stream.keep(&memory)?;
        // SAFETY: as above; the borrowed memory keeps the slice until the view is gone and the stream has completed
        // what it was used for.
        let view = unsafe { sys::view(OPERATION, home, address, len) }?;
        Ok(Self { view, memory: Memory::Borrowed(Arc::new(memory)), stream: stream.clone() })
    }

    /// Number of elements, never 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// The stream whose order the slice follows.
    #[must_use]
    pub fn shared_stream(&self) -> &SharedStream {
        &self.stream
    }

    /// cudarc's view of the slice; `slice` and `split_at` of it are views of parts.
    #[must_use]
    pub fn as_view(&self) -> CudaView<'_, T> {
        self.view.as_view()
    }

    /// cudarc's view of the slice, for writing.
    #[must_use]
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        // Not `&mut CudaSlice`: moved out and dropped, that would free the memory.
        self.view.as_view_mut()
    }

    /// The same memory as an operand of streams of this crate. Work on another stream than
    /// [`shared_stream`](Self::shared_stream) is not ordered with cudarc's.
    ///
    /// # Errors
    /// None in practice: the range was checked.
    pub fn operand(&self) -> Result<BufferSlice<'_>> {
        match &self.memory {
            Memory::Mapped { buffer, offset, size } => buffer.slice(*offset..offset + size),
            Memory::Borrowed(memory) => Ok((&**memory).into()),
        }
    }

    pub(super) fn view(&self) -> &CudaSlice<T> {
        &self.view
    }

    pub(super) fn view_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.view
    }
}

/// Number of elements in `size` bytes at `address`.
fn count<T>(operation: &'static str, address: u64, size: u64) -> Result<usize> {
    let (width, alignment) = (size_of::<T>() as u64, align_of::<T>() as u64);
    let invalid = |message: &str| {
        Err(Error::invalid(operation, message)
            .with_context("address", format_args!("{address:#x}"))
            .with_context("size", format_args!("{size} bytes"))
            .with_context("element", std::any::type_name::<T>()))
    };
    if width == 0 || size == 0 {
        return invalid("the slice or its elements are empty");
    }
    if !address.is_multiple_of(alignment) {
        return invalid("the address is not aligned for the element");
    }
    if !size.is_multiple_of(width) {
        return invalid("the size is not a multiple of the element's");
    }
    usize::try_from(size / width).or_else(|_| invalid("the slice exceeds the address space"))
}

impl<T: AnyBits> Drop for SharedSlice<T> {
    fn drop(&mut self) {
        let context = self.stream.cudarc().context().clone();
        // An error that cudarc keeps from earlier would take the place of the waits below.
        let earlier = context.check_err();
        // SAFETY: taken once: this is the only drop, and no method takes it.
        let view = unsafe { sys::take(&mut self.view) };
        // The stream waits for the other streams that cudarc used the slice on. Frees nothing.
        view.leak();
        if let Err(failure) = context.check_err().or_else(|_| context.synchronize()) {
            let error = error("SharedSlice::drop", failure);
            tracing::error!(%error, "cudarc's work on shared memory cannot be waited for; the memory stays mapped");
            std::mem::forget(self.memory.clone());
        }
        context.record_err(earlier);
    }
}

impl<T: AnyBits> fmt::Debug for SharedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSlice")
            .field("len", &self.len())
            .field("element", &std::any::type_name::<T>())
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl<T: AnyBits> DeviceSlice<T> for SharedSlice<T> {
    fn len(&self) -> usize {
        self.view.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.view.stream()
    }
}

impl<T: AnyBits> DevicePtr<T> for SharedSlice<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.view.device_ptr(stream)
    }
}

impl<T: AnyBits> DevicePtrMut<T> for SharedSlice<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.view.device_ptr_mut(stream)
    }
}

/// Elements that any contents of memory are a value of: the exporter may have written anything. Integers, floats, and
/// arrays of them; not `bool`, which cudarc's `DeviceRepr` includes.
///
/// # Safety
/// Every bit pattern is a value of the type, and it has no padding, references or pointers that Rust code follows.
pub unsafe trait AnyBits: DeviceRepr + 'static {}

macro_rules! any_bits {
    ($($number:ty),+) => { $(
        // SAFETY: every bit pattern is a number.
        unsafe impl AnyBits for $number {}
    )+ };
}

any_bits!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);

// SAFETY: an array is its elements, without padding.
unsafe impl<T: AnyBits, const N: usize> AnyBits for [T; N] {}

// SAFETY: pushes the argument of the slice's view, which lives as long: the address of its device pointer.
unsafe impl<'a, 'b: 'a, T: AnyBits> PushKernelArg<&'b SharedSlice<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b SharedSlice<T>) -> &mut Self {
        self.arg(arg.view())
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, T: AnyBits> PushKernelArg<&'b mut SharedSlice<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b mut SharedSlice<T>) -> &mut Self {
        self.arg(arg.view_mut())
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn elements_must_fit() {
        assert_eq!(count::<u32>("op", 0x1000, 4096).expect("aligned"), 1024);
        assert_eq!(count::<[f32; 3]>("op", 0x1004, 36).expect("aligned"), 3);
        for (address, size, part) in [(0x1002, 4096, "aligned"), (0x1000, 4094, "multiple"), (0x1000, 0, "empty")] {
            let error = count::<u32>("op", address, size).expect_err(part);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(part) && error.to_string().contains("u32"), "{error}");
        }
        assert!(count::<[u32; 0]>("op", 0x1000, 4096).is_err());
    }
}
