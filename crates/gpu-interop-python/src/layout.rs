//! Shapes and strides of tensors, and their bounds.

use gpu_interop::{Error, Result};

use crate::dtype::Dtype;

const OPERATION: &str = "Memory.tensor";

/// Most dimensions of a tensor; numpy's limit.
pub(crate) const MOST_DIMENSIONS: usize = 64;

/// Position of a tensor's elements in memory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<i64>,
    /// In elements, as in DLPack.
    pub(crate) strides: Vec<i64>,
    /// Bytes from the start of the memory to the element with all indices 0.
    pub(crate) offset: u64,
}

impl Layout {
    /// Checks that all elements are inside `size` bytes of memory at address `base`, and aligned.
    pub(crate) fn new(
        dtype: Dtype,
        shape: Vec<i64>,
        strides: Option<Vec<i64>>,
        offset: u64,
        (base, size): (u64, u64),
    ) -> Result<Self> {
        let invalid =
            |message: &str| Error::invalid(OPERATION, message).with_context("shape", format_args!("{shape:?}"));
        if shape.len() > MOST_DIMENSIONS {
            return Err(invalid("a tensor has at most 64 dimensions"));
        }
        if shape.iter().any(|length| *length < 0) {
            return Err(invalid("a length of the shape is negative"));
        }
        let bytes = shape.iter().try_fold(dtype.size(), |bytes, length| bytes.checked_mul(length.unsigned_abs()));
        if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
            return Err(invalid("the tensor exceeds the address space"));
        }
        let strides = match strides {
            None => packed(&shape).ok_or_else(|| invalid("the tensor exceeds the address space"))?,
            Some(strides) if strides.len() != shape.len() => {
                return Err(invalid("strides and shape have different lengths").with_context("strides", strides.len()));
            }
            Some(strides) => strides,
        };
        let aligned = offset.is_multiple_of(alignment(dtype)) && base.is_multiple_of(alignment(dtype));
        if !aligned {
            return Err(
                invalid("the offset is not a multiple of the size of an element").with_context("offset", offset)
            );
        }
        let inside = extent(&shape, &strides).and_then(|(least, greatest)| {
            let element = i128::from(dtype.size());
            let first = i128::from(offset) + i128::from(least) * element;
            // A tensor without elements has no end.
            let empty = shape.contains(&0);
            let end = i128::from(offset) + if empty { 0 } else { (i128::from(greatest) + 1) * element };
            (first >= 0 && end <= i128::from(size)).then_some(())
        });
        if inside.is_none() {
            return Err(invalid(
                "the tensor goes past the memory; reduce the shape, the strides or the offset; strides count \
                                elements, not bytes: divide those of numpy by the size of an element",
            )
            .with_context("strides", format_args!("{strides:?} elements of {}", dtype.name))
            .with_context("offset", offset)
            .with_context("memory", format_args!("{size} bytes")));
        }
        Ok(Self { dtype, shape, strides, offset })
    }

    /// Number of elements.
    pub(crate) fn elements(&self) -> u64 {
        self.shape.iter().map(|length| length.unsigned_abs()).product()
    }

    /// Bytes of the elements, without gaps.
    pub(crate) fn bytes(&self) -> u64 {
        self.elements() * self.dtype.size()
    }

    /// True if the elements are packed in C order.
    pub(crate) fn is_packed(&self) -> bool {
        self.elements() == 0
            || packed(&self.shape).is_some_and(|packed| {
                // The stride of a dimension of length 1 has no effect.
                self.shape.iter().zip(packed.iter().zip(&self.strides)).all(|(length, (a, b))| *length == 1 || a == b)
            })
    }

    /// Strides in bytes, as in numpy.
    pub(crate) fn byte_strides(&self) -> Vec<i64> {
        let size = i64::from(self.dtype.bits / 8);
        self.strides.iter().map(|stride| stride.saturating_mul(size)).collect()
    }
}

/// Alignment of an element in bytes. Complex numbers are aligned as their parts.
fn alignment(dtype: Dtype) -> u64 {
    dtype.size().clamp(1, 8) / if dtype.name == "complex64" { 2 } else { 1 }
}

/// Strides of packed elements in C order; `None` if the tensor exceeds 64 bits.
fn packed(shape: &[i64]) -> Option<Vec<i64>> {
    let mut stride = 1_i64;
    let mut strides = vec![0; shape.len()];
    for (length, slot) in shape.iter().zip(&mut strides).rev() {
        *slot = stride;
        stride = stride.checked_mul((*length).max(1))?;
    }
    Some(strides)
}

/// Least and greatest index of an element, in elements from the first; `None` if they exceed 64 bits.
fn extent(shape: &[i64], strides: &[i64]) -> Option<(i64, i64)> {
    let mut bounds = (0_i64, 0_i64);
    if shape.contains(&0) {
        return Some(bounds);
    }
    for (length, stride) in shape.iter().zip(strides) {
        let last = (length - 1).checked_mul(*stride)?;
        bounds = (bounds.0.checked_add(last.min(0))?, bounds.1.checked_add(last.max(0))?);
    }
    Some(bounds)
}
