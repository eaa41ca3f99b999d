//! What made a report: the program, and an emulated kernel driver below the vendor's runtime.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that made a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// The `conformance` command of this version.
    #[must_use]
    pub fn this() -> Self {
        Self { name: "gpu-interop conformance".into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// A run of the vendor's runtime on an emulated kernel driver and GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Emulated {
    /// The emulated kernel driver's own name.
    pub kernel_driver: String,
    /// The runtime's version from its file name: `5.2.21153`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runtime: Option<String>,
    /// The vendor's release of the runtime: `5.2.3`. Known if a package has installed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub release: Option<String>,
}

impl Emulated {
    /// The release, or else the runtime's own version. Expectations compare it.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.release.as_deref().or(self.runtime.as_deref())
    }
}

impl fmt::Display for Emulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EMULATED: AMD's HIP runtime")?;
        if let Some(version) = self.version() {
            write!(f, " {version}")?;
        }
        f.write_str(" on an emulated kernel driver; no AMD GPU")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_said_before_the_runtimes_own_version() {
        let said = |runtime: Option<&str>, release: Option<&str>| {
            let own = |text: Option<&str>| text.map(ToOwned::to_owned);
            Emulated { kernel_driver: "d".into(), runtime: own(runtime), release: own(release) }.to_string()
        };
        let line =
            |version: &str| format!("EMULATED: AMD's HIP runtime{version} on an emulated kernel driver; no AMD GPU");
        assert_eq!(said(Some("5.2.21153"), Some("5.2.3")), line(" 5.2.3"));
        assert_eq!(said(Some("5.2.21153"), None), line(" 5.2.21153"));
        assert_eq!(said(None, None), line(""));
    }
}
