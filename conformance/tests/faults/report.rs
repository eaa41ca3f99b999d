//! What the campaign has found.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way in which the library fails to stand a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Defect {
    /// The process ended, or a thread panicked.
    Crash,
    /// Something waits without end.
    Hang,
    /// A descriptor, a mapping or an object of the driver is left.
    Leak,
    /// An error that does not say which function failed, with which code, and what that means.
    Untyped,
    /// A failure of which nothing is said.
    Hidden,
    /// A promise that does not hold: data that differ, or a handle that does not come back.
    Broken,
    /// Afterwards it does not work without faults.
    NotAgain,
    /// The fault was never met, so that nothing was tried.
    NotMet,
}

impl Defect {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Crash, "crashes"),
        (Self::Leak, "leaks"),
        (Self::Untyped, "untyped errors"),
        (Self::Hidden, "hidden failures"),
        (Self::Hang, "hangs"),
        (Self::Broken, "broken promises"),
        (Self::NotAgain, "not usable afterwards"),
        (Self::NotMet, "never met"),
    ];
}

/// A defect, and what it was found with.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) driver: &'static str,
    pub(crate) fault: String,
    pub(crate) defect: Defect,
    pub(crate) text: String,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many faults were injected.
    pub(crate) faults: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    /// Adds another.
    pub(crate) fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.findings.extend(other.findings);
    }

    /// How many of a sort there are.
    pub(crate) fn count(&self, defect: Defect) -> usize {
        self.findings.iter().filter(|finding| finding.defect == defect).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults over cuda and hip:", self.faults)?;
        for (index, (defect, name)) in Defect::ALL.into_iter().enumerate() {
            write!(f, "{} {} {name}", if index == 0 { "" } else { "," }, self.count(defect))?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:?}: {}", self.driver, self.fault, self.defect, self.text)
    }
}
