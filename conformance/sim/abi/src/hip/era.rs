//! The simulated version of AMD's runtime.
//!
//! Four versions were recorded (`conformance/tests/hip_calls_compared`). A version between two of them behaves as the
//! older one, unless the source of the younger one states since when it behaves otherwise.

use std::ffi::c_int;

use super::generation::Generation;

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
    #[must_use]
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
    #[must_use]
    pub fn pick<T: Copy>(self, [early, five, six, seven]: [T; 4]) -> T {
        match self {
            Self::Early => early,
            Self::Five => five,
            Self::Six => six,
            Self::Seven => seven,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_versions_are_each_of_their_own() {
        let eras = [50_221_153, 50_731_921, 60_443_484, 70_253_211].map(Era::of);
        assert_eq!(eras, [Era::Early, Era::Five, Era::Six, Era::Seven]);
        assert_eq!([50_500_000, 70_100_000, 80_000_000].map(Era::of), [Era::Five, Era::Six, Era::Seven]);
        assert_eq!(Era::Six.pick([0, 1, 2, 3]), 2);
        assert!(Era::Early < Era::Seven);
    }
}
