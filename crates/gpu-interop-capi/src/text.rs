//! Texts in structures: arrays of a fixed size that end with NUL.

use std::ffi::c_char;

/// Copies a text into an array. A text that is too long loses its end, between two characters; a NUL inside becomes `?`.
pub(crate) fn to_array<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N.saturating_sub(1));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut array = [0; N];
    for (unit, byte) in array.iter_mut().zip(text.as_bytes().iter().take(end)) {
        let byte = if *byte == 0 { b'?' } else { *byte };
        *unit = c_char::from_ne_bytes([byte]);
    }
    array
}

/// Reads a text up to its NUL, or the end of the array. Bytes that are not UTF-8 become replacement characters.
pub(crate) fn from_array(array: &[c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().map(|unit| u8::from_ne_bytes(unit.to_ne_bytes())).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_between_characters() {
        assert_eq!(from_array(&to_array::<8>("short")), "short");
        assert_eq!(from_array(&to_array::<4>("abcd")), "abc");
        assert_eq!(from_array(&to_array::<4>("abßd")), "ab");
        assert_eq!(from_array(&to_array::<8>("a\0b")), "a?b");
        assert_eq!(from_array(&to_array::<0>("a")), "");
        assert_eq!(from_array(&[97; 3]), "aaa");
    }
}
