//! The versions that the suite is tested with on sim-hip: at least one between two changes of behaviour. Tests read
//! this list, so an added version is tested.

use std::ffi::c_int;

use super::behaviour::Below;

/// A version, with the layer below the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Value of `GPU_INTEROP_SIM_VERSION`.
    pub version: c_int,
    /// Value of `GPU_ENABLE_PAL`.
    pub below: Below,
}

const PAL: &[Below] = &[Below::Pal];
const ROCR: &[Below] = &[Below::Rocr];
const BOTH: &[Below] = &[Below::Pal, Below::Rocr];

/// Versions, oldest first, with the layers that each is tested with on Windows. The number is that of a release; for
/// versions after 7.2 only the minor version is known, which decides.
const VERSIONS: &[(c_int, &[Below])] = &[
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

impl Row {
    /// `7.2`, or `7.2_rocr` above ROCr on Windows.
    #[must_use]
    pub fn name(self) -> String {
        let (major, minor) = self.minor();
        let below = if self.below == Below::Rocr { "_rocr" } else { "" };
        format!("{major}.{minor}{below}")
    }

    /// Major and minor version.
    #[must_use]
    pub fn minor(self) -> (c_int, c_int) {
        (self.version / 10_000_000, self.version / 100_000 % 100)
    }
}

/// The rows of this system.
pub fn all() -> impl Iterator<Item = Row> {
    of(cfg!(windows))
}

/// Linux has only ROCr, and the variable has no effect there: each version is one row.
fn of(windows: bool) -> impl Iterator<Item = Row> {
    let rows = VERSIONS.iter().flat_map(|(version, belows)| {
        let row = |below: &Below| Row { version: *version, below: *below };
        belows.iter().map(row)
    });
    rows.filter(move |row| windows || row.below == Below::Pal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hip::behaviour::Behaviour;
    use crate::hip::{era, generation};

    /// The versions at which a behaviour changes.
    fn changes(below: Below) -> Vec<c_int> {
        let [imports, kinds, structs] =
            [generation::CHECKS_IMPORTS, generation::CHECKS_KINDS, generation::STRUCTS_OF_6];
        let mut all: Vec<_> = Behaviour::changes(below).chain(era::SINCE).chain([imports, kinds, structs]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn each_change_has_a_row_before_the_next() {
        for (windows, below, first) in
            [(false, Below::Pal, 0), (true, Below::Pal, 0), (true, Below::Rocr, ROCR_ON_WINDOWS)]
        {
            let mut bounds = vec![first];
            bounds.extend(changes(below).into_iter().filter(|version| *version > first));
            bounds.push(c_int::MAX);
            for range in bounds.windows(2) {
                let inside = |row: &Row| row.below == below && (range[0]..range[1]).contains(&row.version);
                assert!(of(windows).any(|row| inside(&row)), "no row from {} to {}, {below:?}", range[0], range[1]);
            }
        }
    }

    #[test]
    fn rows_have_names_of_their_own() {
        for windows in [false, true] {
            let mut names: Vec<_> = of(windows).map(Row::name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        assert_eq!(Row { version: 70_253_211, below: Below::Rocr }.name(), "7.2_rocr");
        assert!(VERSIONS.is_sorted_by_key(|(version, _)| version));
    }
}
