//! Stand-ins for the parts of Direct3D that no machine without a GPU has: devices whose shared handles are real handles
//! of the operating system, to file mappings and events.
#![allow(dead_code, unused_imports, reason = "each test uses some of it")]
#![allow(clippy::expect_used, clippy::panic)]

mod device11;
mod device12;
mod fence;
mod object;
pub(crate) mod os;

pub(crate) use device11::{Behavior11, Device11};
pub(crate) use device12::{Behavior12, Device12};

use windows::core::HRESULT;

/// The codes that stand-ins answer.
pub(crate) const E_NOTIMPL: HRESULT = HRESULT(0x8000_4001_u32.cast_signed());
pub(crate) const DEVICE_REMOVED: HRESULT = HRESULT(0x887a_0005_u32.cast_signed());
pub(crate) const DEVICE_HUNG: HRESULT = HRESULT(0x887a_0006_u32.cast_signed());
pub(crate) const NAME_ALREADY_EXISTS: HRESULT = HRESULT(0x887a_002c_u32.cast_signed());

/// The LUID of the stand-ins, and its bytes as compute drivers give them.
pub(crate) const LUID: windows::Win32::Foundation::LUID =
    windows::Win32::Foundation::LUID { LowPart: 0x4433_2211, HighPart: 0x0000_0055 };
pub(crate) const LUID_BYTES: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0];
