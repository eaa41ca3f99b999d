//! The memory and the descriptors of a script's process, and HIP's structs by their names in scripts.
//!
//! Descriptors are memory files with known bytes, or invalid. Structs have the layouts of AMD's headers: for HIP 6 and
//! later from the generated bindings, and for HIP 5 where the stride of a caller's arrays differs.

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cubecl_hip_sys as hip;
use rustix::fs::MemfdFlags;

/// Initial content of memory that a call may write to.
const UNTOUCHED: u8 = 0x5a;
const CELL: usize = 64;

/// Memory for one result: its address. It lives as long as the process.
pub(crate) fn cell() -> u64 {
    keep(&[UNTOUCHED; CELL])
}

/// A copy of bytes that lives as long as the process, aligned to 16: its address.
pub(crate) fn keep(bytes: &[u8]) -> u64 {
    let mut words = vec![0_u128; bytes.len().div_ceil(16)];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(16)) {
        let mut whole = [0; 16];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u128::from_le_bytes(whole);
    }
    Box::leak(words.into_boxed_slice()).as_mut_ptr().expose_provenance() as u64
}

fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("an address"))
}

/// The bytes at an address. A script that reads an invalid address ends there.
pub(crate) fn bytes(address: u64, length: usize) -> Vec<u8> {
    // SAFETY: the script names its own memory or the runtime's, or tests an invalid address: a crash ends the process,
    // and is its result. Any bytes are valid.
    (0..length).map(|index| unsafe { pointer::<u8>(address).add(index).read_volatile() }).collect()
}

/// The text at an address, to its NUL.
pub(crate) fn text(address: u64) -> String {
    let end = (0..4096).find(|index| bytes(address + index, 1) == [0]).unwrap_or(4096);
    String::from_utf8_lossy(&bytes(address, usize::try_from(end).unwrap_or(0))).into_owned()
}

/// Writes a word of 4 or 8 bytes.
pub(crate) fn put(address: u64, width: usize, value: u64) {
    // SAFETY: as in `bytes`; scripts align their words.
    unsafe {
        match width {
            4 => AtomicU32::from_ptr(pointer(address)).store(u32::try_from(value).expect("32 bits"), Ordering::SeqCst),
            _ => AtomicU64::from_ptr(pointer(address)).store(value, Ordering::SeqCst),
        }
    }
}

/// A word of 4 or 8 bytes.
pub(crate) fn word(address: u64, width: usize) -> u64 {
    // SAFETY: as in `put`.
    unsafe {
        match width {
            4 => AtomicU32::from_ptr(pointer(address)).load(Ordering::SeqCst).into(),
            _ => AtomicU64::from_ptr(pointer(address)).load(Ordering::SeqCst),
        }
    }
}

/// `true` if a word gets a value within a time limit.
pub(crate) fn becomes(address: u64, width: usize, value: u64, limit: Duration) -> bool {
    let begin = Instant::now();
    while word(address, width) != value {
        if begin.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The effect of a call on a cell, and the value there.
pub(crate) fn result(cell: u64) -> (String, u64) {
    let bytes: [u8; 8] = bytes(cell, 8).try_into().expect("8 bytes");
    let untouched = [UNTOUCHED; 8];
    let value = if bytes == untouched {
        return ("kept".into(), 0);
    } else if bytes[4..] == untouched[4..] {
        u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")).into()
    } else {
        u64::from_le_bytes(bytes)
    };
    // A larger value is an address, or differs between runs for another reason.
    (if value < 65536 { value.to_string() } else { "set".into() }, value)
}

/// The address of a host function by its name in scripts.
pub(crate) fn function(name: &str) -> Option<u64> {
    let function: unsafe extern "C" fn(*mut c_void) = match name {
        "store" => store,
        "hold" => hold,
        _ => return None,
    };
    Some(function as *const c_void as u64)
}

/// Writes 7 to the given word.
unsafe extern "C" fn store(data: *mut c_void) {
    put(data.expose_provenance() as u64, 4, 7);
}

/// Waits up to 3 seconds until the first word is not 0, and writes 9 to the second.
unsafe extern "C" fn hold(data: *mut c_void) {
    let data = data.expose_provenance() as u64;
    let begin = Instant::now();
    while word(data, 4) == 0 && begin.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(1));
    }
    put(data + 4, 4, 9);
}

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
pub(crate) fn open_file(kind: &str, size: usize) -> Result<File, u64> {
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

/// A field: its name, offset and size.
type Field = (&'static str, usize, usize);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    name: &'static str,
    size: usize,
    fields: &'static [Field],
}

/// Layouts: `"name": TYPE { "field": member, bytes; ... }`. A field may be so many bytes behind the start of a member.
macro_rules! layouts {
    ($($name:literal: $type:ty { $($field:literal: $of:ident $(+ $more:literal)?, $length:literal;)* })*) => {
        &[$(Layout {
            name: $name,
            size: size_of::<$type>(),
            fields: &[$(($field, offset_of!($type, $of) $(+ $more)?, $length)),*],
        }),*]
    };
}

/// Of HIP 6 and later.
const LAYOUTS: &[Layout] = layouts! {
    "memory": hip::hipExternalMemoryHandleDesc_st {
        "type": type_, 4; "fd": handle, 4; "name": handle + 8, 8; "size": size, 8; "flags": flags, 4;
    }
    "range": hip::hipExternalMemoryBufferDesc_st {
        "offset": offset, 8; "size": size, 8; "flags": flags, 4;
    }
    "semaphore": hip::hipExternalSemaphoreHandleDesc_st {
        "type": type_, 4; "fd": handle, 4; "name": handle + 8, 8; "flags": flags, 4;
    }
    "params": hip::hipExternalSemaphoreSignalParams_st {
        "value": params, 8; "flags": flags, 4;
    }
    "node": hip::hipExternalSemaphoreSignalNodeParams {
        "semaphores": extSemArray, 8; "params": paramsArray, 8; "count": numExtSems, 4;
    }
    "prop": hip::hipMemAllocationProp {
        "type": type_, 4; "handles": __bindgen_anon_1, 4; "location": location, 4; "device": location + 4, 4;
    }
    "access": hip::hipMemAccessDesc {
        "location": location, 4; "device": location + 4, 4; "flags": flags, 4;
    }
    "copy": hip::HIP_MEMCPY3D {
        "from_kind": srcMemoryType, 4; "from_host": srcHost, 8; "from": srcDevice, 8; "from_pitch": srcPitch, 8;
        "from_height": srcHeight, 8; "to_kind": dstMemoryType, 4; "to_host": dstHost, 8; "to": dstDevice, 8;
        "to_pitch": dstPitch, 8; "to_height": dstHeight, 8; "width": WidthInBytes, 8; "height": Height, 8;
        "depth": Depth, 8;
    }
};

/// Signals and waits of HIP 5, as printed by a C program with its headers.
const PARAMS_5: Layout = Layout { name: "params", size: 136, fields: &[("value", 0, 8), ("flags", 64, 4)] };

/// The layout of this name in a major version of HIP.
pub(crate) fn layout(name: &str, major: u32) -> Option<Layout> {
    if name == PARAMS_5.name && major < 6 {
        return Some(PARAMS_5);
    }
    LAYOUTS.iter().find(|layout| layout.name == name).copied()
}

impl Layout {
    /// The struct with these fields, and zeros.
    pub(crate) fn bytes(&self, values: &[(String, u64)]) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; self.size];
        for (name, value) in values {
            let field = self.fields.iter().find(|(field, ..)| field == name);
            let &(_, offset, length) = field.ok_or_else(|| format!("{} has no {name}", self.name))?;
            bytes[offset..offset + length].copy_from_slice(&value.to_le_bytes()[..length]);
        }
        Ok(bytes)
    }
}
