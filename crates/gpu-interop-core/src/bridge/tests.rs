//! The bridge alone.
