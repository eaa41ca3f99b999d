//! One test at a time with the validation layer.

use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::sync::lock;

/// Waits until no other test of this process uses the validation layer, and keeps them waiting until this test's thread
/// ends. Version 1.3.239 of the layer crashes now and then if one thread creates or destroys a device while another
/// calls it, because they share a table without a lock (KhronosGroup/Vulkan-ValidationLayers, #4391).
pub(crate) fn alone_with_the_layer() {
    static LAYER: Mutex<()> = Mutex::new(());
    thread_local! {
        static TURN: MutexGuard<'static, ()> = lock(&LAYER);
    }
    TURN.with(|_| ());
}
