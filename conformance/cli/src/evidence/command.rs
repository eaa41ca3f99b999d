//! The hash of the command's file, computed beside the run.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};

/// The length of a read, bytes.
const CHUNK: usize = 1 << 20;

/// The hash of this program's file, being computed.
#[derive(Debug)]
pub(crate) struct Hash(JoinHandle<Option<String>>);

impl Hash {
    /// Starts to compute it.
    pub(crate) fn start() -> Self {
        Self(std::thread::spawn(|| of_file(&std::env::current_exe().ok()?).ok()))
    }

    /// Waits for it; `None` if the file cannot be read.
    pub(crate) fn finish(self) -> Option<String> {
        self.0.join().ok().flatten()
    }
}

/// SHA-256 of a file, hexadecimal.
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

/// SHA-256 of some bytes, hexadecimal.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), expected);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "abc").expect("written");
        assert_eq!(of_file(file.path()).expect("read"), expected);
    }
}
