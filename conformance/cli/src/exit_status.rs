//! Exit statuses of the command other than 0.

/// Exit status: a case has failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status: the run was impossible as requested, was interrupted, or ran nothing.
pub(crate) const NOT_RUN: u8 = 2;
/// Exit status: the GPU was lost, and the run stopped.
pub(crate) const GPU_LOST: u8 = 3;
