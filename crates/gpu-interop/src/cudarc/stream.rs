//! Streams of cudarc as streams of this crate.

use std::ops::Deref;
use std::sync::Arc;

use ::cudarc::driver::CudaStream;
use gpu_interop_core::backend::RawStream;
use gpu_interop_core::{Device, Result, Stream};

use super::context::check_same;
use super::sys::error;

/// A stream of cudarc that is also a [`Stream`] of this crate, by `Deref`. Cheap to clone.
///
/// Work of both libraries runs in the order in which it is enqueued. Keeps the `CudaStream` until the last clone has
/// been dropped and the work of this crate on it has completed. Dropping it neither waits nor destroys the stream while
/// others hold the `Arc`.
#[derive(Debug, Clone)]
pub struct SharedStream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stream: Stream,
    cudarc: Arc<CudaStream>,
    device: Device,
    /// cudarc waits for work on other streams only while it owns a stream of the context that is not the default one.
    _one_more: Option<Arc<CudaStream>>,
}

impl SharedStream {
    /// Shares a stream of cudarc. The context of the stream becomes current on this thread, as in every method of
    /// cudarc.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a stream of a context that is not primary,
    /// for `CudaContext::per_thread_stream`, which is another stream on every thread, and for a stream that is
    /// capturing a graph; [`ErrorKind::DeviceMismatch`](crate::ErrorKind::DeviceMismatch) for a stream of another GPU
    /// or of another driver library than the device's; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a
    /// device of another backend; otherwise the driver's error.
    ///
    /// # Safety
    /// No graph is captured on the stream (`CudaStream::begin_capture`, or a wait for an event of a capturing stream)
    /// while a clone of the returned object exists, or an object that was used on it.
    ///
    /// cudarc's functions for captures are safe, and what a capture records runs again with each launch: writes of
    /// memory that has been freed since, and host functions whose data has been freed. No check before a call can
    /// exclude that, because another thread may begin a capture right after it. Capture graphs on another stream, or by
    /// `Graph` of this crate.
    pub unsafe fn new(device: &Device, stream: Arc<CudaStream>) -> Result<Self> {
        const OPERATION: &str = "SharedStream::new";
        let context = stream.context();
        check_same(OPERATION, device, context)?;
        let raw = stream.cu_stream().addr();
        let instead = "share another stream, such as `CudaContext::new_stream` or `default_stream`";
        // SAFETY: the stream belongs to the device's context, which was compared, and is live as long as the `Arc`.
        unsafe { device.check_raw_stream(OPERATION, RawStream::new(raw), instead) }?;
        let failed = |failure| error(OPERATION, failure).with_device(device.identity());
        let one_more = context.is_event_tracking().then(|| context.new_stream()).transpose().map_err(failed)?;
        // SAFETY: as above, and checked; the owner contains no object of this crate. The caller guarantees that no later
        // capture happens.
        let shared = unsafe { device.stream_from_raw_with_owner(RawStream::new(raw), stream.clone()) }?;
        let inner = Inner { stream: shared, cudarc: stream, device: device.clone(), _one_more: one_more };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The stream of cudarc.
    #[must_use]
    pub fn cudarc(&self) -> &Arc<CudaStream> {
        &self.inner.cudarc
    }

    /// The device of the stream.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl Deref for SharedStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.inner.stream
    }
}

impl AsRef<Stream> for SharedStream {
    fn as_ref(&self) -> &Stream {
        self
    }
}
