//! SwiftShader's binary semaphores, as measured with builds for x86-64 and glibc.

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::system::ImportHandle;

/// Their layout.
#[repr(C)]
pub(super) struct State {
    mutex: libc::pthread_mutex_t,
    condition: libc::pthread_cond_t,
    references: AtomicI32,
    signalled: AtomicBool,
}

const _: () = assert!(offset_of!(State, condition) == 40);
const _: () = assert!(offset_of!(State, references) == 88);
const _: () = assert!(offset_of!(State, signalled) == 92);

/// `true` if a descriptor refers to one: their memory files have a name.
pub(super) fn is_one(fd: ImportHandle) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    name.to_string_lossy().starts_with("/memfd:SwiftShader.Semaphore")
}

impl State {
    /// Adds a user.
    pub(super) fn refer(&self) {
        self.references.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a user.
    pub(super) fn forget(&self) {
        self.references.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn signal(&self) {
        self.locked(|state| {
            state.signalled.store(true, Ordering::SeqCst);
            // SAFETY: a process-shared condition, created by SwiftShader.
            unsafe { libc::pthread_cond_broadcast((&raw const state.condition).cast_mut()) };
        });
    }

    pub(super) fn wait(&self) {
        self.locked(|state| {
            while !state.signalled.swap(false, Ordering::SeqCst) {
                // SAFETY: a process-shared condition and its mutex, which is locked.
                unsafe {
                    libc::pthread_cond_wait(
                        (&raw const state.condition).cast_mut(),
                        (&raw const state.mutex).cast_mut(),
                    )
                };
            }
        });
    }

    /// Calls a function with the mutex locked.
    fn locked(&self, run: impl FnOnce(&Self)) {
        let mutex = (&raw const self.mutex).cast_mut();
        // SAFETY: a process-shared mutex, created by SwiftShader, in memory that stays mapped.
        unsafe { libc::pthread_mutex_lock(mutex) };
        run(self);
        // SAFETY: locked above, by this thread.
        unsafe { libc::pthread_mutex_unlock(mutex) };
    }
}
