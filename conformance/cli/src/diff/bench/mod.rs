//! Differences of measurements: the figures of `conformance bench` before and after a change.

mod compare;
mod html;
mod noise;
mod report;
mod text;

pub(super) use compare::compare;
pub(super) use html::render as page;
pub(crate) use report::{BENCH_DIFF_SCHEMA, BenchDifference, FigureKind};
pub(super) use text::render as text;
