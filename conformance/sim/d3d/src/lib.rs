//! Simulates the parts of Direct3D that a machine without a GPU lacks: devices whose shared handles are real handles of
//! the operating system, and whose copies, signals and waits access the real memory.
//!
//! As a Rust library it creates devices whose state tests can inspect (`Device11`, `Device12`). As a DLL it exports the
//! functions by which a program opens a device: `D3D11CreateDevice`, `D3D12CreateDevice`, `CreateDXGIFactory1` and
//! `CreateDXGIFactory2`, and the symbol by which all simulators identify themselves. In the folder of a program, under
//! the names `d3d12.dll` and `dxgi.dll`, it is the program's Direct3D: wgpu's backend runs on it.
//!
//! A method that this project does not call aborts the process, or returns `E_NOTIMPL` or nothing. A call that violates
//! a rule of Direct3D known here aborts it, on any thread: copies beyond a buffer's end, execution of a list that is
//! still recording; with Direct3D 12 also commands and barriers in a wrong resource state (`resource12`), views that
//! exceed a buffer or lack a flag of their resource (`device12`), and the release of a resource of pending commands.
//!
//! # Conventions
//! All simulators share these conventions, which no driver has:
//! * Memory is a section of the paging file. A buffer or heap begins at its first byte; a texture has the layout of
//!   `layout`. A named export is the section of that name: it gets the name with the first export, and later exports
//!   with another name or none are rejected.
//! * A fence is a section of one page that begins as a timeline semaphore of the host backend. Another module or
//!   process may raise the value, so waits poll it every millisecond.
//! * A keyed mutex is the last page of its resource's section: Direct3D has one handle for both.
//! * A KMT handle `N` is the section `Local\gpu-interop-sim-kmt-N`, in hexadecimal, as long as its resource lives.
//!
//! # Settings
//! * `GPU_INTEROP_SIM_LUID`: the LUID of the adapter, 16 hexadecimal digits, in the byte order of compute drivers.
//! * `GPU_INTEROP_SIM_D3D`: faults, for tests of their detection; `faults.rs` lists them.
//!
//! Windows only.

#![cfg(windows)]
#![allow(clippy::expect_used, clippy::panic, reason = "a violation of a simulator's rules ends the process")]

mod counter;
mod device11;
mod device12;
pub mod entry;
mod faults;
mod layout;
mod list12;
mod object;
pub mod os;
mod queue;
mod resource11;
mod resource12;
mod section;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use windows::Win32::Foundation::LUID;
use windows::core::HRESULT;

pub use crate::counter::{Counter, KeyedMutex};
pub use crate::device11::{Behavior11, Device11};
pub use crate::device12::{Behavior12, Device12};

/// `E_NOTIMPL`.
pub const E_NOTIMPL: HRESULT = HRESULT(0x8000_4001_u32.cast_signed());
const E_INVALIDARG: HRESULT = HRESULT(0x8007_0057_u32.cast_signed());
const E_HANDLE: HRESULT = HRESULT(0x8007_0006_u32.cast_signed());
const INVALID_CALL: HRESULT = HRESULT(0x887a_0001_u32.cast_signed());
const NOT_FOUND: HRESULT = HRESULT(0x887a_0002_u32.cast_signed());
const DEVICE_REMOVED: HRESULT = HRESULT(0x887a_0005_u32.cast_signed());
const DEVICE_HUNG: HRESULT = HRESULT(0x887a_0006_u32.cast_signed());
const NAME_ALREADY_EXISTS: HRESULT = HRESULT(0x887a_002c_u32.cast_signed());

/// The default LUID.
pub const LUID_BYTES: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0];

/// Aborts the process if a thread panics, as a panicking method does: no other thread would notice its end.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Records a request for tests.
fn note<T>(log: &Mutex<Vec<T>>, entry: T) {
    let mut log = log.lock().expect("no panic");
    if log.len() < 1000 {
        log.push(entry);
    }
}

/// The value of a result, or its code as the result of a method.
macro_rules! answered {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return error.code(),
        }
    };
}
use answered;

/// The adapter's LUID.
///
/// # Panics
/// If the environment contains an invalid LUID.
pub(crate) fn luid() -> LUID {
    static READ: OnceLock<[u8; 8]> = OnceLock::new();
    let bytes = READ.get_or_init(|| {
        let Ok(text) = std::env::var("GPU_INTEROP_SIM_LUID") else { return LUID_BYTES };
        let number = u64::from_str_radix(&text, 16).ok().filter(|_| text.len() == 16);
        number.expect("GPU_INTEROP_SIM_LUID: 16 hexadecimal digits").to_be_bytes()
    });
    let [a, b, c, d, high @ ..] = *bytes;
    LUID { LowPart: u32::from_le_bytes([a, b, c, d]), HighPart: i32::from_le_bytes(high) }
}

/// Locks a mutex, ignoring poison: a panic does not invalidate the data of the simulator's locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
