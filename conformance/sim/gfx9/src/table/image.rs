//! Instructions that access images through descriptors.

use super::Row;

pub(super) static MIMG: &[Row] = &[];
