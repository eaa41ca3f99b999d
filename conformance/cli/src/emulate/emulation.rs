//! An emulation: its backend, option and temporary files.

use std::path::PathBuf;
use std::str::FromStr;

/// The backend on the emulation.
pub(super) const BACKEND: &str = "hip";

/// The vendor in `--emulate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Emulation {
    /// The release of the runtime, or its first numbers; `None` for any.
    pub(super) version: Option<String>,
}

impl FromStr for Emulation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (vendor, version) = text.split_once(':').map_or((text, None), |(vendor, version)| (vendor, Some(version)));
        if vendor != "amd" {
            return Err(format!("`{vendor}` is not emulated; use amd, or amd:VERSION"));
        }
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match version {
            Some(version) if !version.split('.').all(is_number) => {
                Err(format!("`{version}` is no version: numbers with points between them, as 5.2.3"))
            }
            version => Ok(Self { version: version.map(ToOwned::to_owned) }),
        }
    }
}

impl std::fmt::Display for Emulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("--emulate amd")?;
        self.version.iter().try_for_each(|version| write!(f, ":{version}"))
    }
}

/// The emulation of this process. Removes its temporary files when dropped.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) folder: PathBuf,
}

impl Drop for Session {
    fn drop(&mut self) {
        // If the removal fails, two small files remain.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
