//! Names of the backends.

use std::fmt;
use std::str::FromStr;

use gpu_interop_core::{Device, Error, Result};

/// Backends of this project. A build contains those whose Cargo feature is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BackendName {
    /// NVIDIA's driver.
    Cuda,
    /// AMD's driver.
    Hip,
    /// The CPU.
    Host,
}

impl BackendName {
    /// Backend of `device`; `None` for a backend of another crate.
    #[must_use]
    pub fn of(device: &Device) -> Option<Self> {
        device.backend().name.parse().ok()
    }
}

impl FromStr for BackendName {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for anything but `cuda`, `hip` and
    /// `host`, in any case.
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "cuda" => Ok(Self::Cuda),
            "hip" => Ok(Self::Hip),
            "host" => Ok(Self::Host),
            _ => Err(Error::invalid("BackendName::from_str", "the backend must be cuda, hip or host")
                .with_context("given", format_args!("{text:?}"))),
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Host => "host",
        })
    }
}
