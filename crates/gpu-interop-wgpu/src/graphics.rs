//! The wgpu side of an [`Interop`](crate::Interop).

use std::future::Future;
use std::task::{Context, Poll, Waker};

use gpu_interop::{Error, Result};

use crate::native::Native;

/// A wgpu device, its queue, and what is beneath.
#[derive(Debug)]
pub(crate) struct Graphics {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) native: Native,
}

impl Graphics {
    /// Calls wgpu, and returns the validation error that it reports, instead of its error handler. Only the calling
    /// thread's errors are caught.
    pub(crate) fn checked<T>(&self, operation: &'static str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let returned = call();
        let mut reported = std::pin::pin!(scope.pop());
        // It is ready: only browsers make it wait.
        match reported.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(error)) => {
                let message = "wgpu rejected the submission; its source is wgpu's error";
                Err(Error::invalid(operation, message).with_source(error))
            }
            _ => returned,
        }
    }
}
