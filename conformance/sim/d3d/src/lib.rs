//! Simulates the parts of Direct3D that no machine without a GPU has: devices whose shared handles are real handles
//! of the operating system, and whose copies, signals and waits move the data behind them.
//!
//! As a library of Rust it gives out devices that tests look into (`Device11`, `Device12`). As a DLL it has the
//! functions by which a program opens one: `D3D11CreateDevice`, `D3D12CreateDevice` and `CreateDXGIFactory2`. It says
//! what it is, by the symbol by which all simulators do.
//!
//! A method that nothing here calls ends the process, or answers `E_NOTIMPL` or nothing. A call that Direct3D's rules forbid
//! ends it where these are known here, whichever thread notices: copies behind a buffer's end, lists that are executed while
//! they record.
//!
//! # What is shared
//! All simulators agree on this, and no driver does it so:
//! * Memory is a section of the paging file. A buffer or heap begins at its first byte; a texture's texels are where
//!   `layout` has them. What is exported under a name is the section of that name: it gets the name with the first export,
//!   and other exports of it are refused, by another name or by none.
//! * A fence is a section of a page that begins as a timeline semaphore of the host backend does. Whoever raises the
//!   value may be another module or process, so who waits looks every millisecond.
//! * A keyed mutex is the last page of its resource's section: Direct3D has one handle for both.
//! * A KMT handle `N` is the section `Local\gpu-interop-sim-kmt-N`, in hexadecimal, as long as its resource lives.
//!
//! # What the environment asks for
//! * `GPU_INTEROP_SIM_LUID`: the LUID of the adapter, 16 hexadecimal digits, as compute drivers give its bytes.
//! * `GPU_INTEROP_SIM_D3D`: faults, by which tests see that they are found; `faults.rs` lists them.
//!
//! Windows only.
#![cfg(windows)]
#![allow(clippy::expect_used, clippy::panic, reason = "whoever breaks the rules of a simulator is to end")]

mod children;
mod context11;
mod counter;
mod device11;
mod device12;
mod dxgi;
pub mod entry;
mod faults;
mod keyed_mutex;
mod layout;
mod list12;
mod object;
pub mod os;
mod queue;
mod queue12;
mod resource11;
mod resource12;
mod section;

pub use counter::Counter;
pub use device11::{Behavior11, Device11};
pub use device12::{Behavior12, Device12};
pub use keyed_mutex::KeyedMutex;

use std::sync::{Mutex, OnceLock};

use windows::Win32::Foundation::LUID;
use windows::core::HRESULT;

/// `E_NOTIMPL`.
pub const E_NOTIMPL: HRESULT = HRESULT(0x8000_4001_u32.cast_signed());
const E_INVALIDARG: HRESULT = HRESULT(0x8007_0057_u32.cast_signed());
const E_HANDLE: HRESULT = HRESULT(0x8007_0006_u32.cast_signed());
const INVALID_CALL: HRESULT = HRESULT(0x887a_0001_u32.cast_signed());
const NOT_FOUND: HRESULT = HRESULT(0x887a_0002_u32.cast_signed());
const DEVICE_REMOVED: HRESULT = HRESULT(0x887a_0005_u32.cast_signed());
const DEVICE_HUNG: HRESULT = HRESULT(0x887a_0006_u32.cast_signed());
const NAME_ALREADY_EXISTS: HRESULT = HRESULT(0x887a_002c_u32.cast_signed());

/// The bytes of the LUID unless the environment asks for others.
pub const LUID_BYTES: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0];

/// Ends the process if the thread that has it panics, as a method that panics does: nobody waits for that thread to find
/// that it is gone.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Notes what was asked for, as far as a test looks back.
fn note<T>(log: &Mutex<Vec<T>>, entry: T) {
    let mut log = log.lock().expect("no panic");
    if log.len() < 1000 {
        log.push(entry);
    }
}

/// The value of a result, or its code as the answer of a method.
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
/// If the environment asks for one that is none.
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
