//! The memory of a script's process: outputs, inputs, and their inspection.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
