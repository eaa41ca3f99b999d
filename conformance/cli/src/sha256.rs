//! SHA-256 in hexadecimal digits.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

/// The length of a read, bytes.
const CHUNK: usize = 1 << 20;

/// The hash of these bytes.
pub(crate) fn of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The hash of a file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn of_file(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(&chunk[..length]);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hash of lines, each followed by a newline.
pub(crate) fn of_lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> String {
    let text = lines.into_iter().fold(String::new(), |text, line| text + line.as_ref() + "\n");
    of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_that_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::of(b"abc"), abc);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "abc").expect("written");
        assert_eq!(super::of_file(file.path()).expect("read"), abc);
        assert_eq!(super::of_lines(["a", "b"]), super::of(b"a\nb\n"));
    }
}
