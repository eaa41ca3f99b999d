//! Structures as kernel arguments. Their size and alignment are known only at run time.

use std::mem::MaybeUninit;

use gpu_interop::{Error, KernelArg, Result};

/// Maximum size of a structure, in units of its alignment.
const MAX_UNITS: usize = 64;

/// Borrows `N` units of `T` as one argument.
macro_rules! units {
    ($value:expr, $count:expr, $unit:ty; $($n:literal)+) => {
        match $count {
            $($n => {
                // SAFETY: `argument`'s caller promises that the value has `$n` units and lives during `'a`. `argument`
                // has checked the alignment. `MaybeUninit` permits uninitialised padding.
                Some(KernelArg::by_value(unsafe { &*$value.cast::<[MaybeUninit<$unit>; $n]>() }))
            })+
            _ => None,
        }
    };
}

macro_rules! of_unit {
    ($value:expr, $count:expr, $unit:ty) => {
        units! { $value, $count, $unit;
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42
            43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
        }
    };
}

/// A unit of 16 bytes: the alignment of `float4` in CUDA and HIP.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Sixteen {
    _bytes: [u8; 16],
}

/// Creates the kernel argument of `size` bytes at `value`, aligned to `alignment` bytes.
///
/// # Safety
/// `value` is null, not aligned, or points to `size` bytes. These bytes are not written during `'a`.
pub(crate) unsafe fn argument<'a>(
    operation: &'static str,
    value: *const u8,
    size: usize,
    alignment: usize,
) -> Result<KernelArg<'a>> {
    let invalid = |message: &str| {
        Error::invalid(operation, message).with_context("size", size).with_context("alignment", alignment)
    };
    if !matches!(alignment, 1 | 2 | 4 | 8 | 16) {
        return Err(invalid("the alignment of a structure must be 1, 2, 4, 8 or 16 bytes"));
    }
    if value.is_null() || !value.addr().is_multiple_of(alignment) {
        return Err(invalid("the structure is null or not aligned"));
    }
    let count = size / alignment;
    if !size.is_multiple_of(alignment) || count == 0 || count > MAX_UNITS {
        return Err(invalid("the size of a structure must be a positive multiple of its alignment, at most 64 times"));
    }
    let argument = match alignment {
        1 => of_unit!(value, count, u8),
        2 => of_unit!(value, count, u16),
        4 => of_unit!(value, count, u32),
        8 => of_unit!(value, count, u64),
        _ => of_unit!(value, count, Sixteen),
    };
    argument.ok_or_else(|| invalid("the structure has no size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_size_and_alignment_of_the_structure() {
        let value = [Sixteen { _bytes: [7; 16] }; MAX_UNITS];
        let start = value.as_ptr().cast::<u8>();
        for alignment in [1, 2, 4, 8, 16] {
            for count in 1..=MAX_UNITS {
                // SAFETY: the bytes are inside the array, which has the greatest alignment.
                let argument = unsafe { argument("test", start, count * alignment, alignment) };
                let Ok(KernelArg::Value(value)) = argument else { panic!("{argument:?}") };
                assert_eq!((value.as_ptr(), value.size(), value.align()), (start, count * alignment, alignment));
            }
        }
        let wrong = [(start, 4, 3), (start, 6, 4), (start, 0, 4), (start, 65, 1), (std::ptr::null(), 4, 4)];
        for (value, size, alignment) in wrong {
            // SAFETY: rejected before the value is read.
            assert!(unsafe { argument("test", value, size, alignment) }.is_err(), "{size} {alignment}");
        }
        // SAFETY: rejected before the value is read, because it is not aligned.
        assert!(unsafe { argument("test", start.add(1), 4, 4) }.is_err());
    }
}
