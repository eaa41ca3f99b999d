//! The driver calls of a scenario, as a report has them.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The newest calls of a driver's functions that a scenario made, up to its end. The library's only: not those of an
/// exporter, nor those of other processes that the scenario started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrace {
    /// How many calls are not in the list: older ones, and those that make a device current, which surround the others.
    pub left_out: u64,
    /// In the order in which they began. Empty for a backend that calls no driver.
    pub newest: Vec<Call>,
}

/// One call of a driver's function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Counted from 1, the process's first.
    pub number: u64,
    /// The kernel's number of the thread that called.
    pub thread: i32,
    /// The function, as the vendor's documentation names it.
    pub function: String,
    /// Its arguments: pointers and what has more than 32 bits in hexadecimal, the rest in decimal, of descriptors and
    /// batches what they say.
    pub arguments: String,
    /// When it began, microseconds after the scenario.
    pub began_us: u64,
    /// How it returned; absent if it had not when the scenario ended: it crashed, or was still waiting.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub returned: Option<Returned>,
}

/// How a call returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// The code: a `CUresult` or `hipError_t`.
    pub code: u32,
    /// What it gave: handles, addresses, numbers.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub made: String,
    /// How long it took, nanoseconds.
    pub duration_ns: u64,
}

impl CallTrace {
    /// The lines for people: what was left out, and one a call.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let first = match (self.left_out, self.newest.len()) {
            (0, 0) => "no function of a driver was called".into(),
            (0, count) => format!("the {count} driver calls, with microseconds and thread:"),
            (left_out, count) => {
                format!(
                    "the newest {count} driver calls ({left_out} left out: older ones, and what makes a device current), with microseconds and thread:"
                )
            }
        };
        std::iter::once(first).chain(self.newest.iter().map(ToString::to_string))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, thread, function, arguments, began_us, returned } = self;
        write!(f, "{number:>6} {began_us:>9} {thread:>7} {function}({arguments})")?;
        match returned {
            None => f.write_str(" DID NOT RETURN"),
            Some(Returned { code, made, duration_ns }) => {
                write!(f, " = {code}")?;
                if !made.is_empty() {
                    write!(f, " -> {made}")?;
                }
                write!(f, " ({:.1?})", Duration::from_nanos(*duration_ns))
            }
        }
    }
}
