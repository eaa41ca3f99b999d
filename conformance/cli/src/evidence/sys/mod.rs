//! Calls of management libraries, and of Windows' event log.

#[cfg(windows)]
pub(super) mod event_log;
pub(super) mod nvml;
