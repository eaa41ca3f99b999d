//! Semaphores in shared memory.
//!
//! Three layouts are supported: the host backend's, which sim-d3d uses as well; sim-d3d's keyed mutexes; and
//! SwiftShader's binary semaphores. For any other memory a signal has no effect and a wait does not block: the real
//! drivers import files of the wrong kind, too.

mod layout;
#[cfg(target_os = "linux")]
mod swift_shader;

use std::sync::Arc;
use std::time::Duration;

use crate::objects::Objects;
pub use crate::semaphore::layout::TimedOut;
use crate::system::{ImportHandle, Mapping};
use crate::{code, die, system};

/// Semaphores by handle.
pub static SEMAPHORES: Objects<Semaphore> = Objects::new();

/// The minimum size of a layout, bytes.
const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Host,
    KeyedMutex,
    #[cfg(target_os = "linux")]
    SwiftShader,
    Unknown,
}

/// An imported semaphore.
#[derive(Debug)]
pub struct Semaphore {
    memory: Mapping,
    layout: Layout,
}

/// Parameters of a signal or a wait. A semaphore uses those of its type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Point {
    /// A timeline's value.
    pub value: u64,
    /// A keyed mutex's key.
    pub key: u64,
    /// Timeout of the wait for the key, milliseconds; `u32::MAX` is infinite.
    pub timeout_ms: u32,
}

impl Semaphore {
    /// Imports a handle, which the caller still owns. `None` if it is not memory.
    pub fn open(given: ImportHandle) -> Option<Self> {
        let memory = system::map(given)?;
        let mut semaphore = Self { memory, layout: Layout::Unknown };
        if semaphore.memory.length() < PAGE {
            return Some(semaphore);
        }
        if semaphore.host().is_one() {
            semaphore.layout = Layout::Host;
        } else if semaphore.keyed_mutex().is_one() {
            semaphore.layout = Layout::KeyedMutex;
        } else {
            #[cfg(target_os = "linux")]
            if swift_shader::is_one(given) {
                semaphore.layout = Layout::SwiftShader;
                semaphore.swift_shader().refer();
            }
        }
        Some(semaphore)
    }

    fn host(&self) -> &layout::HostState {
        // SAFETY: the memory is mapped, is at least a page, and holds words for which any value is valid.
        unsafe { &*std::ptr::with_exposed_provenance(self.memory.base()) }
    }

    /// In the last page: Direct3D has one handle for a keyed mutex and for the resource that it guards, whose data is
    /// at the start.
    fn keyed_mutex(&self) -> &layout::KeyedMutexState {
        let last = (self.memory.length() / PAGE - 1) * PAGE;
        // SAFETY: as above: there is a whole page from there on.
        unsafe { &*std::ptr::with_exposed_provenance(self.memory.base() + last) }
    }

    #[cfg(target_os = "linux")]
    fn swift_shader(&self) -> &swift_shader::State {
        // SAFETY: as above; mutex and condition are touched by their own functions only.
        unsafe { &*std::ptr::with_exposed_provenance(self.memory.base()) }
    }

    /// Signals the semaphore, or releases it with a key. A timeline accepts any value, also a lower one, as with the
    /// real driver. A binary semaphore ignores the value.
    pub fn signal(&self, point: Point) {
        match self.layout {
            Layout::Host => self.host().signal(point.value),
            Layout::KeyedMutex => self.keyed_mutex().release(point.key),
            #[cfg(target_os = "linux")]
            Layout::SwiftShader => self.swift_shader().signal(),
            Layout::Unknown => {}
        }
    }

    /// Waits, for the first two types until the device is lost. A binary semaphore is unsignalled afterwards; a mutex
    /// is acquired.
    ///
    /// # Errors
    /// If the wait for a key timed out.
    pub fn wait(&self, point: Point) -> Result<(), TimedOut> {
        match self.layout {
            Layout::Host => self.host().wait(point.value),
            Layout::KeyedMutex => {
                let limit = Some(Duration::from_millis(point.timeout_ms.into()));
                return self.keyed_mutex().acquire(point.key, limit.filter(|_| point.timeout_ms != u32::MAX));
            }
            #[cfg(target_os = "linux")]
            Layout::SwiftShader => self.swift_shader().wait(),
            Layout::Unknown => {}
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
impl Drop for Semaphore {
    fn drop(&mut self) {
        if self.layout == Layout::SwiftShader {
            self.swift_shader().forget();
        }
    }
}

/// `CUDA_ERROR_TIMEOUT`. The real drivers' code for a timeout of a key is unknown.
const TIMEOUT: u32 = 909;

/// The operation of a batch on its semaphores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Signals them.
    Signals,
    /// Waits for them.
    Waits,
}

impl BatchKind {
    /// The flag of NvSci that such a batch takes, and that means nothing to other semaphores.
    pub fn flag(self) -> u32 {
        match self {
            Self::Signals => 1,
            Self::Waits => 2,
        }
    }

    fn act(self, semaphore: &Semaphore, point: Point) -> Result<(), u32> {
        match self {
            Self::Signals => {
                semaphore.signal(point);
                Ok(())
            }
            Self::Waits => semaphore.wait(point).map_err(|_| TIMEOUT),
        }
    }
}

/// The semaphore of a handle. The driver dereferences an invalid handle and crashes.
fn semaphore_of(handle: usize) -> Arc<Semaphore> {
    SEMAPHORES.get(handle).unwrap_or_else(|| die())
}

/// The work of a batch. `point` gives the point and the flags of each semaphore. The work aborts the process when it
/// runs if one of them has been destroyed.
///
/// # Errors
/// [`code::INVALID_VALUE`] for no semaphores, and for other flags.
pub fn batch_work(
    kind: BatchKind,
    semaphores: &[usize],
    point: &dyn Fn(usize) -> (Point, u32),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    code::reject_if(semaphores.is_empty())?;
    let one = |(index, semaphore): (usize, &usize)| {
        semaphore_of(*semaphore);
        let (point, flags) = point(index);
        code::reject_if(flags & !kind.flag() != 0)?;
        Ok((*semaphore, point))
    };
    let all = semaphores.iter().enumerate().map(one).collect::<Result<Vec<_>, u32>>()?;
    Ok(move || all.iter().try_for_each(|(semaphore, point)| kind.act(&semaphore_of(*semaphore), *point)))
}
