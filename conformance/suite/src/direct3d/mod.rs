//! Direct3D devices, of this machine or of a simulator.

mod gpu11;
mod gpu12;
mod library;

pub(crate) use gpu11::Gpu11;
pub(crate) use gpu12::{Gpu12, Subresource, Way};
pub(crate) use library::Library;

use gpu_interop::d3d::windows::core::Error;

use crate::outcome::Stop;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::failed(format!("Direct3D failed with {:#010x}: {}", error.code().0, error.message()))
    }
}
