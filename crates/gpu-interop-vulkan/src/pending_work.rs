//! Lists of objects that pending work uses.

/// Keeps objects until the work that uses them has finished.
pub(crate) trait PendingWork: Send + Sync {
    /// Drops the objects whose work has finished. Does not block, except in the destructors of owners.
    fn free_finished(&self);
}
