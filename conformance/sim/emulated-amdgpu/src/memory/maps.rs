//! The mappings of a file in this process, as `/proc/self/maps` lists them.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::abi::Result;

/// A mapping of a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    protection: ProtFlags,
    offset: u64,
}

/// Parses a line. `None` for mappings of other files.
fn parse(line: &str, inode: u64) -> Option<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    // Anonymous memory files share a device; the inode distinguishes them.
    if fields.nth(1)?.parse::<u64>().ok()? != inode {
        return None;
    }
    let flags = [('r', ProtFlags::READ), ('w', ProtFlags::WRITE), ('x', ProtFlags::EXEC)];
    let protection = flags.iter().filter(|(letter, _)| permissions.contains(*letter)).map(|(_, flag)| *flag).collect();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: number(start)?, end: number(end)?, protection, offset: number(offset)? })
}

/// Replaces every mapping of `size` bytes of a file starting at `from`, by the same mapping of another file starting at
/// `start`.
///
/// Mappings larger than the range are kept: one of them is the emulation's own mapping of the whole file.
pub(super) fn replace(old: BorrowedFd<'_>, offset: u64, size: u64, new: impl AsFd, start: u64) -> Result<()> {
    let inode = rustix::fs::fstat(old)?.st_ino;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Errno::IO)?;
    for mapping in maps.lines().filter_map(|line| parse(line, inode)) {
        let length = mapping.end - mapping.start;
        if mapping.offset < offset || mapping.offset + length > offset + size {
            continue;
        }
        let (Ok(at), Ok(length)) = (usize::try_from(mapping.start), usize::try_from(length)) else {
            return Err(Errno::NOMEM);
        };
        let at = std::ptr::with_exposed_provenance_mut(at);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range is a mapping of the buffer object, which is not accessed meanwhile, and the new file has
        // the same bytes, so the replacement is not observable.
        unsafe { rustix::mm::mmap(at, length, mapping.protection, flags, &new, start + mapping.offset - offset)? };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let line = "7f00-7f10 rw-s 00200000 00:01 4242        /memfd:emulated-amdgpu-memory (deleted)";
        let mapping =
            Mapping { start: 0x7f00, end: 0x7f10, protection: ProtFlags::READ | ProtFlags::WRITE, offset: 0x20_0000 };
        assert_eq!(parse(line, 4242), Some(mapping));
        assert_eq!(parse(line, 4243), None);
        assert_eq!(parse("7f00-7f10 r--p 00000000 00:00 0", 4242), None);
    }
}
