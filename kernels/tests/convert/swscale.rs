//! FFmpeg's libswscale.

pub(crate) fn compare() {}
