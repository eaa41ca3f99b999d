//! Counters that the exporter and a stream share: what a hand-over costs by each strategy of the library's `Timeline`.
//!
//! | variant | how values get to the stream and back |
//! |---|---|
//! | `raw` | the driver imports the exporter's timeline; its functions are called directly |
//! | `native` | the library's `Timeline` by `TimelineStrategy::Native`: the same, through the safe objects |
//! | `bridge` | the library's `Timeline` by `TimelineStrategy::HostBridge`, of a timeline that is not exported |
//! | `fence` | not at all: the host waits for the one side before it tells the other to begin |
//!
//! There is work on both sides in every round, and words of every round are checked on both sides: a hand-over of
//! nothing takes a tenth of the time and proves nothing. Where both sides use the GPU's graphics and compute engine, it
//! changes its context twice a round, which costs more than all the rest. A queue that only copies needs no such
//! change, so that the strategies' own cost shows there.

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
