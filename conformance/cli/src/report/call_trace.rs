//! Driver calls in reports.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The newest driver calls of a scenario. Only the library's calls: neither those of an
/// exporter nor those of the scenario's other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrace {
    /// The number of calls that are not listed: older ones, and those that only make a device current.
    pub left_out: u64,
    /// The calls in the order of their start. Empty for a backend without a driver.
    pub newest: Vec<Call>,
}

/// A driver call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// The call's number in its process, from 1.
    pub number: u64,
    /// The calling thread's id.
    pub thread: i32,
    /// The function's name in the vendor's documentation.
    pub function: String,
    /// The arguments: pointers and 64-bit values in hexadecimal, others in decimal, the contents of descriptors and
    /// batches.
    pub arguments: String,
    /// The start of the call, microseconds after that of the scenario.
    pub began_us: u64,
    /// The result; absent if the call did not return before the scenario's end: it crashed or was still blocked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub returned: Option<Returned>,
}

/// The result of a driver call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// The code: a `CUresult` or `hipError_t`.
    pub code: u32,
    /// Output values: handles, addresses, numbers.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub made: String,
    /// The call's duration, nanoseconds.
    pub duration_ns: u64,
}

impl CallTrace {
    /// The trace as text: a heading, and one line a call.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let first = match (self.left_out, self.newest.len()) {
            (0, 0) => "no function of a driver was called".into(),
            (0, count) => format!("the {count} driver calls, with microseconds and thread:"),
            (left_out, count) => {
                format!(
                    "the newest {count} driver calls ({left_out} left out: older ones, and those that make a device current), with microseconds and thread:"
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
