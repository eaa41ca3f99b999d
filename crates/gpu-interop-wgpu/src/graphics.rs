//! The wgpu side of an [`Interop`](crate::Interop).

use std::future::Future;
use std::task::{Context, Poll, Waker};

use gpu_interop::{Error, ErrorKind, Result};

use crate::native::Native;

/// A wgpu device, its queue, and what is beneath.
#[derive(Debug)]
pub(crate) struct Graphics {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) native: Native,
}

impl Graphics {
    /// Calls wgpu, and returns the error that it reports, instead of its error handler. Only the calling thread's errors
    /// are caught.
    pub(crate) fn checked<T>(&self, operation: &'static str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let scopes = [Internal, OutOfMemory, Validation].map(|filter| self.device.push_error_scope(filter));
        let returned = call();
        // The innermost first.
        let mut reported = None;
        for scope in scopes.into_iter().rev() {
            let mut popped = std::pin::pin!(scope.pop());
            // It is ready: only browsers make it wait.
            if let Poll::Ready(Some(error)) = popped.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                reported = reported.or(Some(error));
            }
        }
        let Some(error) = reported else { return returned };
        let (kind, message) = match error {
            wgpu::Error::OutOfMemory { .. } => {
                (ErrorKind::OutOfMemory, "wgpu is out of memory; its error is the source")
            }
            wgpu::Error::Validation { .. } => {
                (ErrorKind::InvalidArgument, "wgpu rejected the call; its error is the source")
            }
            wgpu::Error::Internal { .. } => (ErrorKind::Driver, "wgpu failed; its error is the source"),
        };
        Err(Error::new(kind, operation, message).with_source(error))
    }
}
