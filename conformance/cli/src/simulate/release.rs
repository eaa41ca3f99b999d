//! Simulated releases of AMD's runtime.

use std::fmt;
use std::str::FromStr;

/// Releases, oldest first, with the version number that the runtime reports: those with which the simulator's tests run
/// the suite.
const RELEASES: &[(&str, u32)] = &[
    ("5.2.3", 50_221_153),
    ("5.6.0", 50_631_061),
    ("5.7.1", 50_731_921),
    ("6.0.0", 60_032_830),
    ("6.1.0", 60_140_091),
    ("6.2.0", 60_241_133),
    ("6.3.0", 60_342_131),
    ("6.4.3", 60_443_484),
    ("7.2.4", 70_253_211),
    ("7.13", 71_300_000),
    ("7.14", 71_400_000),
    ("7.16", 71_600_000),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Release {
    name: &'static str,
    number: u32,
}

impl Release {
    /// The version number, as the runtime reports it.
    pub(super) const fn number(self) -> u32 {
        self.number
    }
}

impl FromStr for Release {
    type Err = String;

    /// Finds a release by its numbers, or the newest one that begins with these numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let begins = |name: &str| name.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        match RELEASES.iter().rfind(|(name, _)| begins(name)) {
            Some((name, number)) => Ok(Self { name, number: *number }),
            None => {
                let names: Vec<_> = RELEASES.iter().map(|(name, _)| *name).collect();
                Err(format!("`{text}` is not simulated; use one of {}", names.join(", ")))
            }
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_are_the_newest_such_release() {
        for (text, name) in [("5.7.1", "5.7.1"), ("6", "6.4.3"), ("7", "7.16"), ("7.1", ""), ("5.", "")] {
            let release = text.parse::<Release>().map(|release| release.to_string());
            assert_eq!(release.unwrap_or_default(), name, "{text}");
        }
    }

    #[cfg(any(target_os = "linux", windows))]
    #[test]
    fn all_that_the_simulator_is_tested_as_are_here() {
        for row in gpu_interop_sim_abi::hip::version::tested_versions() {
            let known = RELEASES.iter().any(|(_, number)| i64::from(*number) == i64::from(row.version));
            assert!(known, "{}", row.name());
        }
        for (name, number) in RELEASES {
            let minor = format!("{}.{}", number / 10_000_000, number / 100_000 % 100);
            assert!(name.starts_with(&minor), "{name}: {number}");
        }
        assert!(RELEASES.is_sorted_by_key(|(_, number)| number));
    }
}
