//! Calls of management libraries.

pub(super) mod nvml;
