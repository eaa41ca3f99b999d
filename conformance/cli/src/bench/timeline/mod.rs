//! The cost of a hand-over by each strategy of the library's `Timeline`.
//!
//! | variant | how values reach the stream and return |
//! |---|---|
//! | `raw` | the driver imports the exporter's timeline; raw calls |
//! | `native` | the library's `Timeline` by `TimelineStrategy::Native`: the same, through the safe objects |
//! | `bridge` | the library's `Timeline` by `TimelineStrategy::HostBridge`, of a timeline that is not exported |
//! | `fence` | none: the host waits for one side before it starts the other |
//!
//! Both sides have work in every round and verify words of every round: a hand-over without work
//! takes a tenth of the time and proves nothing. If both sides use the GPU's graphics and compute engine, it
//! switches contexts twice a round, the dominant cost. A transfer queue needs no such
//! switch, so the strategies' own cost shows there.

mod counter;
mod exchange;
mod exporter;
pub(super) mod idle;
pub(super) mod in_flight;
pub(super) mod one_way;
pub(super) mod round_trip;
mod side;

pub(super) use counter::{Counter, LibraryCounter, RawCounter};
pub(super) use exporter::Exporter;
