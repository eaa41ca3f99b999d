//! Operands of streams: memory, and packed tensors.

use std::ops::Range;
use std::sync::Arc;

use gpu_interop::{BufferSlice, Error, Result};
use pyo3::prelude::*;

use crate::backing::Backing;
use crate::error::exception;
use crate::memory::PyMemory;
use crate::tensor::PyTensor;

/// A range of bytes that streams read or write.
#[derive(Debug)]
pub(crate) struct Operand {
    backing: Arc<Backing>,
    range: Range<u64>,
    read_only: bool,
}

impl Operand {
    /// The bytes of a `Memory` or of a packed `Tensor`.
    pub(crate) fn new(operation: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(memory) = object.cast::<PyMemory>() {
            let backing = memory.get().backing(operation)?;
            return Ok(Self { range: 0..backing.size(), backing, read_only: false });
        }
        let Ok(tensor) = object.cast::<PyTensor>() else {
            let message = "pass a gpu_interop.Memory or a gpu_interop.Tensor";
            let given = object.get_type().name()?.to_string();
            return Err(exception(&Error::invalid(operation, message).with_context("given", given)));
        };
        let tensor = tensor.get();
        let layout = &tensor.layout;
        if !layout.is_packed() {
            let message = "streams copy packed tensors only; use the tensor in torch, CuPy or numpy";
            let error =
                Error::invalid(operation, message).with_context("strides", format_args!("{:?}", layout.strides));
            return Err(exception(&error));
        }
        let range = layout.offset..layout.offset + layout.bytes();
        Ok(Self { backing: Arc::clone(&tensor.backing), range, read_only: tensor.read_only })
    }

    pub(crate) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(crate) fn slice(&self) -> Result<BufferSlice<'_>> {
        self.backing.slice()?.slice(self.range.clone())
    }

    /// Rejects tensors that were declared read-only.
    pub(crate) fn check_writable(&self, operation: &'static str) -> PyResult<()> {
        if self.read_only {
            return Err(exception(&Error::invalid(
                operation,
                "the tensor is read-only; create it without readonly=True",
            )));
        }
        Ok(())
    }
}
