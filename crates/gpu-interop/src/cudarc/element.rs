//! Elements of shared slices.

use ::cudarc::driver::DeviceRepr;

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
