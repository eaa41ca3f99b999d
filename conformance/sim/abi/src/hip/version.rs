//! The simulated version of AMD's runtime.
//!
//! Four versions on Linux were recorded (`conformance/tests/hip_calls_compared`). A version between two of them behaves
//! as the older one, unless the source of the newer one states since when a behaviour differs. [`Behaviour`] lists what
//! was not recorded: Windows, and versions between and after the recorded ones. Each row names its source, which is
//! AMD's code or a report. On Windows the runtime uses PAL. It uses ROCr if it was built so and the runtime's own
//! variable `GPU_ENABLE_PAL` is 0.

use std::ffi::c_int;

use crate::hip::generation::Generation;
use crate::settings;

/// Versions with the same behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Era {
    /// As 5.2.3: before 5.5.
    Early,
    /// As 5.7.1.
    Five,
    /// As 6.4.3: before 7.2.
    Six,
    /// As 7.2.4, and later.
    Seven,
}

/// The first version of each era except the oldest.
pub(super) const SINCE: [c_int; 3] = [50_500_000, 60_000_000, 70_200_000];

impl Era {
    /// The era of the selected version.
    pub fn now() -> Self {
        Self::of(Generation::now().version())
    }

    fn of(version: c_int) -> Self {
        match SINCE.iter().filter(|since| version >= **since).count() {
            0 => Self::Early,
            1 => Self::Five,
            2 => Self::Six,
            _ => Self::Seven,
        }
    }

    /// Selects the value for this era.
    pub fn pick<T: Copy>(self, [early, five, six, seven]: [T; 4]) -> T {
        match self {
            Self::Early => early,
            Self::Five => five,
            Self::Six => six,
            Self::Seven => seven,
        }
    }
}

/// The layer below the runtime on Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LowerLayer {
    /// The default.
    Pal,
    /// Since 2025.
    Rocr,
}

impl LowerLayer {
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
struct BehaviourRow {
    behaviour: Behaviour,
    from: c_int,
    before: c_int,
    below: &'static [LowerLayer],
    /// The source of the row. It states if a version is derived from a date.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers of this file"))]
    source: &'static str,
}

const BOTH: &[LowerLayer] = &[LowerLayer::Pal, LowerLayer::Rocr];
const FIRST: c_int = 0;
/// In every known version.
const NONE_YET: c_int = c_int::MAX;

/// Rows: `BEHAVIOUR, FROM to BEFORE, BELOW; SOURCE;`.
macro_rules! rows {
    ($($behaviour:ident, $from:tt to $before:tt, $below:expr; $source:literal;)*) => {
        &[$(BehaviourRow { behaviour: Behaviour::$behaviour, from: $from, before: $before, below: $below, source: $source }),*]
    };
}

const BEHAVIOURS: &[BehaviourRow] = rows! {
    ExtraReference, 70_200_000 to 70_300_000, BOTH;
        "recorded of 7.2.4 on Linux; on Windows a user's device memory did not come back, with a driver whose HIP is \
         by its date 7.2; corrected by rocm-systems#3528 (2026-02-25), in which version first is not known";
    LevelsKeepImages, FIRST to 71_600_000, BOTH;
        "rocm-systems#8153, merged 2026-07-06; the first version after that date is 7.16";
    RecordsWords, 71_600_000 to NONE_YET, BOTH;
        "rocm-systems#8911, merged 2026-07-21; the first version after that date is 7.16";
    MemoryNames, 60_100_000 to NONE_YET, &[LowerLayer::Pal];
        "SWDEV-411343, clr 9551d48e7 (2023-12-14): in the branch of 6.1.0, in none of 6.0";
    NoKmtMemory, FIRST to 71_400_000, &[LowerLayer::Rocr];
        "rocm-systems#6101 (2026-05); the first version after that date is 7.14";
    FenceAsKmt, 60_100_000 to 60_300_000, &[LowerLayer::Pal];
        "SWDEV-447691, clr 9fdddb7c5 (2024-04-25), is not in the branch of 6.2.0; before 6.1 there was no such flag";
    NoFence, FIRST to NONE_YET, &[LowerLayer::Rocr];
        "rocm-systems 01280b9d, projects/clr/rocclr/device/rocm/rocdevice.cpp: opaque kinds only";
    WritesReleaseNothing, FIRST to NONE_YET, &[LowerLayer::Pal];
        "rocm-systems#11605, open since 2026-09-14";
};

impl Behaviour {
    /// `true` if the selected version has the behaviour on this system.
    pub fn now(self) -> bool {
        let windows_only = !matches!(self, Self::ExtraReference | Self::LevelsKeepImages | Self::RecordsWords);
        (cfg!(windows) || !windows_only) && self.of(Generation::now().version(), LowerLayer::now())
    }

    /// The versions at which the behaviour above PAL or ROCr changes.
    #[cfg(test)]
    pub(super) fn changes(below: LowerLayer) -> impl Iterator<Item = c_int> {
        let rows = BEHAVIOURS.iter().filter(move |row| row.below.contains(&below));
        rows.flat_map(|row| [row.from, row.before]).filter(|version| ![FIRST, NONE_YET].contains(version))
    }

    fn of(self, version: c_int, below: LowerLayer) -> bool {
        BEHAVIOURS
            .iter()
            .any(|row| row.behaviour == self && (row.from..row.before).contains(&version) && row.below.contains(&below))
    }
}

/// A version, with the layer below the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestedVersion {
    /// Value of `GPU_INTEROP_SIM_VERSION`.
    pub version: c_int,
    /// Value of `GPU_ENABLE_PAL`.
    pub below: LowerLayer,
}

const PAL: &[LowerLayer] = &[LowerLayer::Pal];
const ROCR: &[LowerLayer] = &[LowerLayer::Rocr];

/// Versions, oldest first, with the layers that each is tested with on Windows. The number is that of a release; for
/// versions after 7.2 only the minor version is known, which decides.
const TESTED: &[(c_int, &[LowerLayer])] = &[
    (50_221_153, PAL),  // 5.2.3
    (50_631_061, PAL),  // 5.6.0
    (50_731_921, PAL),  // 5.7.1
    (60_032_830, PAL),  // 6.0.0
    (60_140_091, PAL),  // 6.1.0
    (60_241_133, PAL),  // 6.2.0
    (60_342_131, PAL),  // 6.3.0; 6.4.3 behaves alike, and is the default
    (70_253_211, BOTH), // 7.2.4
    (71_300_000, BOTH),
    (71_400_000, ROCR), // as the one before above PAL
    (71_600_000, BOTH),
];

/// The first version on Windows that can be above ROCr: rocm-systems#1748 (2025-11) has interop there.
#[cfg(test)]
const ROCR_ON_WINDOWS: c_int = 70_200_000;

impl TestedVersion {
    /// `7.2`, or `7.2_rocr` above ROCr on Windows.
    pub fn name(self) -> String {
        let (major, minor) = self.minor();
        let below = if self.below == LowerLayer::Rocr { "_rocr" } else { "" };
        format!("{major}.{minor}{below}")
    }

    /// Major and minor version.
    pub fn minor(self) -> (c_int, c_int) {
        (self.version / 10_000_000, self.version / 100_000 % 100)
    }
}

/// The rows of this system.
pub fn tested_versions() -> impl Iterator<Item = TestedVersion> {
    tested_on(cfg!(windows))
}

/// Linux has only ROCr, and the variable has no effect there: each version is one row.
fn tested_on(windows: bool) -> impl Iterator<Item = TestedVersion> {
    let rows = TESTED.iter().flat_map(|(version, belows)| {
        let row = |below: &LowerLayer| TestedVersion { version: *version, below: *below };
        belows.iter().map(row)
    });
    rows.filter(move |row| windows || row.below == LowerLayer::Pal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hip::generation;

    #[test]
    fn recorded_versions_are_each_of_their_own() {
        let eras = [50_221_153, 50_731_921, 60_443_484, 70_253_211].map(Era::of);
        assert_eq!(eras, [Era::Early, Era::Five, Era::Six, Era::Seven]);
        assert_eq!([50_500_000, 70_100_000, 80_000_000].map(Era::of), [Era::Five, Era::Six, Era::Seven]);
        assert_eq!(Era::Six.pick([0, 1, 2, 3]), 2);
        assert!(Era::Early < Era::Seven);
    }

    #[test]
    fn each_behaviour_is_of_the_versions_that_its_source_says() {
        use Behaviour::{ExtraReference, FenceAsKmt, MemoryNames, NoFence, RecordsWords};
        for (behaviour, below, has, has_not) in [
            (ExtraReference, LowerLayer::Pal, [70_253_211, 70_260_201], [70_100_000, 71_400_000]),
            (RecordsWords, LowerLayer::Pal, [71_600_000, 71_700_000], [60_443_484, 71_500_000]),
            (MemoryNames, LowerLayer::Pal, [60_140_091, 70_260_201], [50_731_921, 60_032_830]),
            (MemoryNames, LowerLayer::Rocr, [0; 2], [60_140_091, 71_600_000]),
            (FenceAsKmt, LowerLayer::Pal, [60_140_091, 60_241_133], [60_032_830, 60_342_131]),
            (NoFence, LowerLayer::Rocr, [70_200_000, 71_600_000], [0; 2]),
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
        for row in BEHAVIOURS {
            assert!(row.from < row.before && !row.below.is_empty() && row.source.len() > 20, "{:?}", row.behaviour);
        }
    }

    /// The versions at which a behaviour changes.
    fn changes(below: LowerLayer) -> Vec<c_int> {
        let [imports, kinds, structs] =
            [generation::CHECKS_IMPORTS, generation::CHECKS_KINDS, generation::STRUCTS_OF_6];
        let mut all: Vec<_> = Behaviour::changes(below).chain(SINCE).chain([imports, kinds, structs]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn each_change_has_a_row_before_the_next() {
        for (windows, below, first) in
            [(false, LowerLayer::Pal, 0), (true, LowerLayer::Pal, 0), (true, LowerLayer::Rocr, ROCR_ON_WINDOWS)]
        {
            let mut bounds = vec![first];
            bounds.extend(changes(below).into_iter().filter(|version| *version > first));
            bounds.push(c_int::MAX);
            for range in bounds.windows(2) {
                let inside = |row: &TestedVersion| row.below == below && (range[0]..range[1]).contains(&row.version);
                assert!(
                    tested_on(windows).any(|row| inside(&row)),
                    "no row from {} to {}, {below:?}",
                    range[0],
                    range[1]
                );
            }
        }
    }

    #[test]
    fn rows_have_names_of_their_own() {
        for windows in [false, true] {
            let mut names: Vec<_> = tested_on(windows).map(TestedVersion::name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        assert_eq!(TestedVersion { version: 70_253_211, below: LowerLayer::Rocr }.name(), "7.2_rocr");
        assert!(TESTED.is_sorted_by_key(|(version, _)| version));
    }
}
