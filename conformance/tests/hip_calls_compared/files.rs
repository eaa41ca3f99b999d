//! The descriptors of a script's process: memory files with known bytes, and invalid ones.

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::MemfdFlags;

/// A number that no descriptor of the process has.
const CLOSED: u64 = 999;

/// A descriptor created by a script.
#[derive(Debug)]
pub(crate) struct File {
    /// Its number, which its new owner may close.
    number: i32,
    /// A duplicate of the descriptor.
    duplicate: OwnedFd,
}

/// The byte at an offset of a memory file.
fn pattern(offset: usize) -> u8 {
    (offset * 7 + (offset >> 8)).to_le_bytes()[0]
}

/// Creates a descriptor of this kind; `Err` with an invalid number.
pub(crate) fn open(kind: &str, size: usize) -> Result<File, u64> {
    let fd = match kind {
        "file" => {
            let fd = rustix::fs::memfd_create("script", MemfdFlags::CLOEXEC).expect("a file");
            let bytes: Vec<u8> = (0..size).map(pattern).collect();
            rustix::fs::ftruncate(&fd, size as u64).expect("a size");
            assert_eq!(rustix::io::pwrite(&fd, &bytes, 0), Ok(size));
            fd
        }
        "pipe" => std::io::pipe().expect("a pipe").0.into(),
        "nothing" => std::fs::File::open("/dev/null").expect("a file").into(),
        "folder" => std::fs::File::open("/").expect("a folder").into(),
        _ => return Err(CLOSED),
    };
    let duplicate = fd.try_clone().expect("a duplicate");
    Ok(File { number: fd.into_raw_fd(), duplicate })
}

impl File {
    pub(crate) fn number(&self) -> u64 {
        self.number.unsigned_abs().into()
    }

    /// The current state of the descriptor.
    pub(crate) fn state(&self) -> String {
        // SAFETY: it is only queried, and the error for a closed one is a valid result.
        let fd = unsafe { BorrowedFd::borrow_raw(self.number) };
        let (Ok(now), Ok(then)) = (rustix::fs::fstat(fd), rustix::fs::fstat(&self.duplicate)) else {
            return "closed".into();
        };
        if (now.st_ino, now.st_dev) != (then.st_ino, then.st_dev) {
            return "another file".into();
        }
        match rustix::fs::tell(&self.duplicate) {
            Ok(position) => format!("open at {position}"),
            Err(_) => "open".into(),
        }
    }

    /// Changes the position, which both descriptors share.
    pub(crate) fn seek(&self, position: u64) {
        rustix::fs::seek(&self.duplicate, rustix::fs::SeekFrom::Start(position)).expect("a position");
    }

    /// The changed bytes of a memory file, as ranges.
    pub(crate) fn changes(&self, size: usize) -> String {
        let mut bytes = vec![0; size];
        let length = rustix::io::pread(&self.duplicate, &mut bytes[..], 0).expect("bytes");
        let mut ranges: Vec<(usize, Vec<u8>)> = Vec::new();
        for (at, byte) in bytes[..length].iter().enumerate().filter(|(at, byte)| **byte != pattern(*at)) {
            match ranges.last_mut() {
                Some((start, changed)) if *start + changed.len() == at => changed.push(*byte),
                _ => ranges.push((at, vec![*byte])),
            }
        }
        let range = |(start, bytes): &(usize, Vec<u8>)| format!("{start}: {}", hex(bytes));
        if ranges.is_empty() { "unchanged".into() } else { ranges.iter().map(range).collect::<Vec<_>>().join(", ") }
    }
}

/// Formats bytes in a short form, with equal ones combined.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match bytes {
        [first, rest @ ..] if rest.len() > 8 && rest.iter().all(|byte| byte == first) => {
            format!("{first:02x}*{}", bytes.len())
        }
        _ if bytes.len() > 64 => format!("{}... {} bytes", digits(&bytes[..32]), bytes.len()),
        _ => digits(bytes),
    }
}
