//! An open module of NvSciSync.

crate::module::module! {
    /// An open module of NvSciSync (`NvSciSyncModule`), which everything made from it keeps open. Cheap to clone.
    SyncModule of sync: "NvSciSync"
}
