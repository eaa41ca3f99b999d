//! Behaviour of AMD's runtime by version that is not in the recordings: a table with the source of each row.
//!
//! The recordings cover four versions on Linux (`conformance/tests/hip_calls_compared`). The rows here are from AMD's
//! sources and reports: about Windows, which was not recorded, and about versions between and after the recorded ones.
//! On Windows the runtime uses PAL, or ROCr if it was built so and the runtime's own variable `GPU_ENABLE_PAL` is 0.

use std::ffi::c_int;

use super::generation::Generation;
use crate::settings;

/// The layer below the runtime on Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// The default.
    Pal,
    /// Since 2025.
    Rocr,
}

impl Below {
    fn now() -> Self {
        if settings::text(Self::VARIABLE).as_deref() == Some(Self::Rocr.setting()) { Self::Rocr } else { Self::Pal }
    }

    /// The variable that the runtime itself reads (rocm-systems#5119, #8050).
    pub const VARIABLE: &str = "GPU_ENABLE_PAL";

    /// The value of [`Self::VARIABLE`].
    pub fn setting(self) -> &'static str {
        match self {
            Self::Pal => "1",
            Self::Rocr => "0",
        }
    }
}

/// A behaviour of some versions only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// A mapping holds one reference too many to its import.
    ExtraReference,
    /// A level of an image that was not destroyed keeps the image's memory allocated.
    LevelsKeepImages,
    /// Streams in capture record writes of words and waits for words.
    RecordsWords,
    /// Memory is imported by its name, without a handle.
    MemoryNames,
    /// KMT handles of memory are rejected.
    NoKmtMemory,
    /// A Direct3D 12 fence is opened as a KMT handle.
    FenceAsKmt,
    /// Direct3D 12 fences are not supported.
    NoFence,
    /// A stream's write of a word does not release another stream that is already waiting for it.
    WritesReleaseNothing,
}

/// Versions with a behaviour: from one version on, and before another.
struct Row {
    behaviour: Behaviour,
    from: c_int,
    before: c_int,
    below: &'static [Below],
    /// The source of the row. It states if a version is derived from a date.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers of this file"))]
    source: &'static str,
}

const BOTH: &[Below] = &[Below::Pal, Below::Rocr];
const FIRST: c_int = 0;
/// In every known version.
const NONE_YET: c_int = c_int::MAX;

/// Rows: `BEHAVIOUR, FROM to BEFORE, BELOW; SOURCE;`.
macro_rules! rows {
    ($($behaviour:ident, $from:tt to $before:tt, $below:expr; $source:literal;)*) => {
        &[$(Row { behaviour: Behaviour::$behaviour, from: $from, before: $before, below: $below, source: $source }),*]
    };
}

const TABLE: &[Row] = rows! {
    ExtraReference, 70_200_000 to 70_300_000, BOTH;
        "recorded of 7.2.4 on Linux; on Windows a user's device memory did not come back, with a driver whose HIP is \
         by its date 7.2; corrected by rocm-systems#3528 (2026-02-25), in which version first is not known";
    LevelsKeepImages, FIRST to 71_600_000, BOTH;
        "rocm-systems#8153, merged 2026-07-06; the first version after that date is 7.16";
    RecordsWords, 71_600_000 to NONE_YET, BOTH;
        "rocm-systems#8911, merged 2026-07-21; the first version after that date is 7.16";
    MemoryNames, 60_100_000 to NONE_YET, &[Below::Pal];
        "SWDEV-411343, clr 9551d48e7 (2023-12-14): in the branch of 6.1.0, in none of 6.0";
    NoKmtMemory, FIRST to 71_400_000, &[Below::Rocr];
        "rocm-systems#6101 (2026-05); the first version after that date is 7.14";
    FenceAsKmt, 60_100_000 to 60_300_000, &[Below::Pal];
        "SWDEV-447691, clr 9fdddb7c5 (2024-04-25), is not in the branch of 6.2.0; before 6.1 there was no such flag";
    NoFence, FIRST to NONE_YET, &[Below::Rocr];
        "rocm-systems 01280b9d, projects/clr/rocclr/device/rocm/rocdevice.cpp: opaque kinds only";
    WritesReleaseNothing, FIRST to NONE_YET, &[Below::Pal];
        "rocm-systems#11605, open since 2026-09-14";
};

impl Behaviour {
    /// `true` if the selected version has the behaviour on this system.
    pub fn now(self) -> bool {
        let windows_only = !matches!(self, Self::ExtraReference | Self::LevelsKeepImages | Self::RecordsWords);
        (cfg!(windows) || !windows_only) && self.of(Generation::now().version(), Below::now())
    }

    /// The versions at which the behaviour above PAL or ROCr changes.
    #[cfg(test)]
    pub(super) fn changes(below: Below) -> impl Iterator<Item = c_int> {
        let rows = TABLE.iter().filter(move |row| row.below.contains(&below));
        rows.flat_map(|row| [row.from, row.before]).filter(|version| ![FIRST, NONE_YET].contains(version))
    }

    fn of(self, version: c_int, below: Below) -> bool {
        TABLE
            .iter()
            .any(|row| row.behaviour == self && (row.from..row.before).contains(&version) && row.below.contains(&below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_behaviour_is_of_the_versions_that_its_source_says() {
        use Behaviour::{ExtraReference, FenceAsKmt, MemoryNames, NoFence, RecordsWords};
        for (behaviour, below, has, has_not) in [
            (ExtraReference, Below::Pal, [70_253_211, 70_260_201], [70_100_000, 71_400_000]),
            (RecordsWords, Below::Pal, [71_600_000, 71_700_000], [60_443_484, 71_500_000]),
            (MemoryNames, Below::Pal, [60_140_091, 70_260_201], [50_731_921, 60_032_830]),
            (MemoryNames, Below::Rocr, [0; 2], [60_140_091, 71_600_000]),
            (FenceAsKmt, Below::Pal, [60_140_091, 60_241_133], [60_032_830, 60_342_131]),
            (NoFence, Below::Rocr, [70_200_000, 71_600_000], [0; 2]),
        ] {
            for version in has.into_iter().filter(|version| *version != 0) {
                assert!(behaviour.of(version, below), "{behaviour:?}, {version}");
            }
            for version in has_not.into_iter().filter(|version| *version != 0) {
                assert!(!behaviour.of(version, below), "{behaviour:?}, {version}");
            }
        }
    }

    #[test]
    fn every_row_has_a_source_and_some_version() {
        for row in TABLE {
            assert!(row.from < row.before && !row.below.is_empty() && row.source.len() > 20, "{:?}", row.behaviour);
        }
    }
}
