//! Semaphores in memory files.
//!
//! Two layouts are known: the host backend's, and SwiftShader's binary semaphore. What is in any other file is not
//! known, so signalling it does nothing and nothing waits for it: the real drivers import a file of the wrong sort, too.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex;

use crate::lost;
use crate::mapping::Mapping;
use crate::memory::map_file;
use crate::objects::Objects;

/// Semaphores by handle.
pub static SEMAPHORES: Objects<Semaphore> = Objects::new();

/// What the host backend's semaphores begin with.
const HOST_MAGIC: u64 = u64::from_le_bytes(*b"gpuisem\x01");
const HOST_BINARY: u32 = 1;
const PAGE: usize = 4096;

/// The host backend's layout. Any value of it is possible: another process may write it.
#[repr(C)]
struct HostState {
    magic: AtomicU64,
    payload: AtomicU32,
    waiters: AtomicU32,
    value: AtomicU64,
    sequence: AtomicU32,
}

/// SwiftShader's binary semaphore, as measured of builds for x86-64 and glibc.
#[repr(C)]
struct SwiftShaderState {
    mutex: libc::pthread_mutex_t,
    condition: libc::pthread_cond_t,
    references: AtomicI32,
    signalled: AtomicBool,
}

const _: () = assert!(std::mem::offset_of!(SwiftShaderState, condition) == 40);
const _: () = assert!(std::mem::offset_of!(SwiftShaderState, references) == 88);
const _: () = assert!(std::mem::offset_of!(SwiftShaderState, signalled) == 92);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Host,
    SwiftShader,
    Unknown,
}

/// An imported semaphore.
#[derive(Debug)]
pub struct Semaphore {
    file: Mapping,
    layout: Layout,
}

impl Semaphore {
    /// Imports what a descriptor refers to, which stays open. `None` if it is no memory.
    #[must_use]
    pub fn open(fd: RawFd) -> Option<Self> {
        let file = map_file(fd)?;
        let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        let mut semaphore = Self { file, layout: Layout::Unknown };
        if semaphore.file.length() < PAGE {
            return Some(semaphore);
        }
        if semaphore.host().magic.load(Ordering::Relaxed) == HOST_MAGIC {
            semaphore.layout = Layout::Host;
        } else if name.to_string_lossy().starts_with("/memfd:SwiftShader.Semaphore") {
            semaphore.layout = Layout::SwiftShader;
            semaphore.swift_shader().references.fetch_add(1, Ordering::SeqCst);
        }
        Some(semaphore)
    }

    fn host(&self) -> &HostState {
        // SAFETY: the file is mapped, at least a page, and holds words of which any value is valid.
        unsafe { &*std::ptr::with_exposed_provenance(self.file.base()) }
    }

    fn swift_shader(&self) -> &SwiftShaderState {
        // SAFETY: as above; mutex and condition are touched by their own functions only.
        unsafe { &*std::ptr::with_exposed_provenance(self.file.base()) }
    }

    /// Signals it. A timeline takes any value, also a lower one, as with the real driver. A binary one has none.
    pub fn signal(&self, value: u64) {
        match self.layout {
            Layout::Host => {
                let state = self.host();
                let binary = state.payload.load(Ordering::Relaxed) == HOST_BINARY;
                state.value.store(if binary { 1 } else { value }, Ordering::SeqCst);
                state.sequence.fetch_add(1, Ordering::SeqCst);
                let _ = futex::wake(&state.sequence, futex::Flags::empty(), i32::MAX.cast_unsigned());
            }
            Layout::SwiftShader => self.locked(|state| {
                state.signalled.store(true, Ordering::SeqCst);
                // SAFETY: a process-shared condition, made by SwiftShader.
                unsafe { libc::pthread_cond_broadcast((&raw const state.condition).cast_mut()) };
            }),
            Layout::Unknown => {}
        }
    }

    /// Waits for it, for as long as it takes, or, with the host backend's, until the device is lost. A binary one is
    /// then no longer signalled.
    pub fn wait(&self, value: u64) {
        match self.layout {
            Layout::Host => self.wait_host(value),
            Layout::SwiftShader => self.locked(|state| {
                while !state.signalled.swap(false, Ordering::SeqCst) {
                    // SAFETY: a process-shared condition and its mutex, which is locked.
                    unsafe {
                        libc::pthread_cond_wait(
                            (&raw const state.condition).cast_mut(),
                            (&raw const state.mutex).cast_mut(),
                        )
                    };
                }
            }),
            Layout::Unknown => {}
        }
    }

    fn wait_host(&self, value: u64) {
        let state = self.host();
        let reached = || match state.payload.load(Ordering::Relaxed) {
            HOST_BINARY => state.value.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok(),
            _ => state.value.load(Ordering::SeqCst) >= value,
        };
        // Woken by the signal; the pause is for one of a process that was killed before it could wake anybody.
        let pause = futex::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        loop {
            let sequence = state.sequence.load(Ordering::SeqCst);
            if lost::is_lost() || reached() {
                return;
            }
            state.waiters.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wait(&state.sequence, futex::Flags::empty(), sequence, Some(&pause));
            state.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Runs with the mutex of SwiftShader's semaphore locked.
    fn locked(&self, run: impl FnOnce(&SwiftShaderState)) {
        let state = self.swift_shader();
        let mutex = (&raw const state.mutex).cast_mut();
        // SAFETY: a process-shared mutex, made by SwiftShader, in memory that this keeps mapped.
        unsafe { libc::pthread_mutex_lock(mutex) };
        run(state);
        // SAFETY: locked above, by this thread.
        unsafe { libc::pthread_mutex_unlock(mutex) };
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        if self.layout == Layout::SwiftShader {
            self.swift_shader().references.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
