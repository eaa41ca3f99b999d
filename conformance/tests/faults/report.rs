//! Findings of the campaign.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A defect of the library under a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Defect {
    /// The process crashed, or a thread panicked.
    Crash,
    /// A wait that does not end.
    Hang,
    /// A descriptor, a mapping or an object of the driver is leaked.
    Leak,
    /// An error without the failed function, its code, or the right kind.
    Untyped,
    /// A failure that is not reported.
    Hidden,
    /// A violated guarantee: wrong data, or a handle that is not returned.
    Broken,
    /// The library fails afterwards, without faults.
    NotAgain,
    /// The function of the fault was never called.
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

/// A defect, and the fault that shows it.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) driver: &'static str,
    pub(crate) fault: String,
    pub(crate) defect: Defect,
    pub(crate) text: String,
}

/// All findings.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many faults were injected.
    pub(crate) faults: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    /// Adds another campaign's findings.
    pub(crate) fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.findings.extend(other.findings);
    }

    /// Findings of one kind.
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
