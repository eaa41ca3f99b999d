//! The kernel's and the runtime's binary interfaces: structures, numbers, and access to arguments of ioctls.

pub(crate) mod aql;
pub(crate) mod drm;
pub(crate) mod kfd;
pub(crate) mod pm4;
pub(crate) mod sdma;

use std::ffi::c_void;

use rustix::io::Errno;

/// The result of an ioctl or another kernel entry point.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// A structure of integers, for which any bytes are valid.
///
/// # Safety
///
/// Every bit pattern is a valid value, and there is no padding.
pub(crate) unsafe trait Plain: Copy + Default {}

/// Marks structures as [`Plain`].
macro_rules! plain {
    ($($name:ty),* $(,)?) => {
        $(
            // SAFETY: the structure consists of integers and arrays of integers, laid out without padding.
            unsafe impl $crate::abi::Plain for $name {}
        )*
    };
}
pub(crate) use plain;

/// Declares structures of integers, with public fields, that are [`Plain`].
macro_rules! plain_structs {
    ($( $(#[$doc:meta])* struct $name:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty ),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
            pub(crate) struct $name {
                $( $(#[$field_doc])* pub(crate) $field: $type, )*
            }

            $crate::abi::plain!($name);
        )*
    };
}
pub(crate) use plain_structs;

/// Declares the numbers of ioctls, and `name`, which returns the name of an ioctl for faults and reports: a prefix, and
/// the constant's name in lower case with hyphens. Ioctls that are not implemented are reported by name too.
macro_rules! ioctls {
    ($prefix:literal; $($name:ident = $number:literal),* $(,)?) => {
        $(
            #[allow(dead_code)]
            pub(crate) const $name: u8 = $number;
        )*

        pub(crate) fn name(number: u8) -> Option<String> {
            let name = match number {
                $($number => stringify!($name),)*
                _ => return None,
            };
            Some(format!("{}{}", $prefix, name.to_ascii_lowercase().replace('_', "-")))
        }
    };
}
pub(crate) use ioctls;

/// The argument size in an ioctl's request number.
pub(crate) const fn request_size(request: u64) -> usize {
    (request >> 16 & 0x3fff) as usize
}

/// The type letter of a request number.
pub(crate) const fn request_type(request: u64) -> u8 {
    (request >> 8 & 0xff) as u8
}

/// The number of a request within its type.
pub(crate) const fn request_number(request: u64) -> u8 {
    (request & 0xff) as u8
}

/// Passes an ioctl's argument to `function` and writes it back, as the kernel does: a shorter structure of the caller
/// is extended with zeros, and only its own bytes are written. It is written back after a failure, too.
///
/// # Safety
///
/// `argument` is null, or points to the number of bytes that `request` states.
pub(crate) unsafe fn edit<T: Plain, R>(
    request: u64,
    argument: *mut c_void,
    function: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    if argument.is_null() {
        return Err(Errno::FAULT);
    }
    let size = request_size(request).min(size_of::<T>());
    let mut value = T::default();
    // SAFETY: `size` bytes are within both, by the caller's guarantee and by `min`; any bytes are a valid `T`.
    unsafe { std::ptr::copy_nonoverlapping(argument.cast::<u8>(), (&raw mut value).cast::<u8>(), size) };
    let result = function(&mut value);
    // SAFETY: as above, in the other direction.
    unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), argument.cast::<u8>(), size) };
    result
}

/// The bytes of a value.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the value has this many bytes, all initialised, because it has no padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The value with these bytes; missing ones are 0.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> T {
    let mut value = T::default();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: `length` bytes are within both; any bytes are a valid `T`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast::<u8>(), length) };
    value
}

/// Reads an array at an address of this process.
///
/// # Safety
///
/// `address` refers to `count` readable values.
pub(crate) unsafe fn read_array<T: Plain>(address: u64, count: u32) -> Result<Vec<T>> {
    let size = u64::try_from(size_of::<T>()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the caller's promise.
    (0..u64::from(count)).map(|index| unsafe { read_user(address.wrapping_add(index * size)) }).collect()
}

/// Converts a 64-bit number to this platform's `usize`, which has the same size.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn native(number: u64) -> usize {
    number as usize
}

/// Reads a value at an address of this process.
///
/// # Safety
///
/// `address` refers to as many readable bytes as `T` has.
pub(crate) unsafe fn read_user<T: Plain>(address: u64) -> Result<T> {
    if address == 0 {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's promise; the read needs no alignment.
    Ok(unsafe { std::ptr::with_exposed_provenance::<T>(native(address)).read_unaligned() })
}

/// Writes a value at an address of this process.
///
/// # Safety
///
/// `address` refers to as many writable bytes as `T` has.
pub(crate) unsafe fn write_user<T: Plain>(address: u64, value: T) -> Result<()> {
    if address == 0 {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's promise; the write needs no alignment.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(native(address)).write_unaligned(value) };
    Ok(())
}

plain!(u8, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_argument_is_extended_with_zeroes_and_written_back_no_further() {
        let mut words = [1_u32, 2, 3];
        // The number states two words, the structure has four.
        let request = 8 << 16;
        // SAFETY: the argument has more than the 8 bytes stated.
        let result = unsafe {
            edit::<kfd::UpdateQueue, _>(request, words.as_mut_ptr().cast(), |value| {
                assert_eq!((value.ring_base_address, value.queue_id), (2 << 32 | 1, 0));
                value.ring_base_address = 9;
                value.queue_id = 7;
                Ok(())
            })
        };
        assert_eq!((result, words), (Ok(()), [9, 0, 3]));
    }

    #[test]
    fn request_numbers_fall_into_their_parts() {
        let request = 0xc028_4b82;
        assert_eq!((request_type(request), request_number(request), request_size(request)), (b'K', 0x82, 0x28));
    }
}
