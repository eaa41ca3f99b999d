//! GEM: buffer objects by the handles of an open render node.

/// The handles of an open file.
#[derive(Debug, Default)]
pub(crate) struct Handles;
