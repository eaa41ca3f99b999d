//! The simulator's controls: faults, counts of calls, and live objects.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::driver::Vendor;

macro_rules! sorts {
    ($($sort:ident),+ $(,)?) => {
        /// The kinds of objects of `gpu_interop_sim_device::live`, in its order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Sort { $($sort),+ }

        const NAMES: &[&str] = &[$(stringify!($sort)),+];
    };
}

sorts! {
    Imports, Mappings, Arrays, Semaphores, Streams, Events, Modules, Allocations, Descriptors, Reservations, Contexts,
    Surfaces, Textures, Graphs,
}

const SORTS: usize = NAMES.len();

/// Live objects by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Live([u64; SORTS]);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = NAMES.iter().zip(self.0).filter(|(_, count)| *count != 0);
        f.debug_map().entries(counts.map(|(name, count)| (name, count.cast_signed()))).finish()
    }
}

impl Live {
    pub(crate) fn of(&self, sort: Sort) -> u64 {
        self.0[sort as usize]
    }

    pub(crate) fn add(&mut self, sort: Sort) {
        self.0[sort as usize] += 1;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sort, more)| *sort += more);
    }

    /// The total of all kinds.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The increase since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|sort| self.0[sort].wrapping_sub(before.0[sort])))
    }
}

/// The controls of a library in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Simulator {
    fail: unsafe extern "C" fn(*const c_char) -> c_int,
    calls: unsafe extern "C" fn(*const c_char) -> u64,
    gives: unsafe extern "C" fn(*const c_char) -> c_int,
    live: unsafe extern "C" fn(*mut [u64; SORTS]) -> u64,
    settle: unsafe extern "C" fn(),
    current: unsafe extern "C" fn() -> usize,
    /// Of sim-cuda.
    leave_current: Option<unsafe extern "C" fn()>,
    /// `None` if the function is hidden.
    name: Option<NameOf>,
}

/// The driver's function that returns the names of codes.
#[derive(Debug, Clone, Copy)]
enum NameOf {
    Cuda(unsafe extern "C" fn(u32, *mut *const c_char) -> u32),
    Hip(unsafe extern "C" fn(u32) -> *const c_char),
}

impl Simulator {
    /// Loads a simulator, as the backend does.
    pub(crate) fn open(vendor: Vendor, library: &Path) -> Self {
        // SAFETY: this project's own library, which supports loading at run time.
        let library = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) }.expect("the simulator");
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of `gpu_interop_sim_device`'s functions, and of the vendors'.
        unsafe {
            Self {
                fail: *library.get(c"sim_fail").expect("a simulator"),
                calls: *library.get(c"sim_calls").expect("a simulator"),
                gives: *library.get(c"sim_gives").expect("a simulator"),
                live: *library.get(c"sim_live").expect("a simulator"),
                settle: *library.get(c"sim_settle").expect("a simulator"),
                current: *library.get(c"sim_current").expect("a simulator"),
                leave_current: library.get(c"sim_leave_current").ok().map(|function| *function),
                name: match vendor {
                    Vendor::Cuda => library.get(c"cuGetErrorName").ok().map(|function| NameOf::Cuda(*function)),
                    Vendor::Hip => library.get(c"hipGetErrorName").ok().map(|function| NameOf::Hip(*function)),
                },
            }
        }
    }

    /// Sets `count` rules, and resets the counts of calls.
    pub(crate) fn fail(&self, rules: &str, count: c_int) {
        let text = CString::new(rules).expect("no NUL");
        // SAFETY: a string.
        assert_eq!(unsafe { (self.fail)(text.as_ptr()) }, count, "rules that were not understood: {rules}");
    }

    /// Removes all faults, and resets the counts of calls.
    pub(crate) fn heal(&self) {
        // SAFETY: NULL means no rules.
        assert_eq!(unsafe { (self.fail)(std::ptr::null()) }, 0);
    }

    pub(crate) fn calls(&self, function: &str) -> u64 {
        let function = CString::new(function).expect("no NUL");
        // SAFETY: a string.
        unsafe { (self.calls)(function.as_ptr()) }
    }

    /// `true` if a called function returns a result.
    pub(crate) fn gives(&self, function: &str) -> bool {
        let function = CString::new(function).expect("no NUL");
        // SAFETY: a string.
        unsafe { (self.gives)(function.as_ptr()) != 0 }
    }

    /// The driver's name for a code, if it has one.
    pub(crate) fn name_of(&self, code: u32) -> Option<String> {
        let mut name = std::ptr::null();
        match self.name? {
            // SAFETY: the pointer is valid for the call. An unknown code leaves it NULL.
            NameOf::Cuda(get) => _ = unsafe { get(code, &raw mut name) },
            // SAFETY: any number is valid.
            NameOf::Hip(get) => name = unsafe { get(code) },
        }
        // SAFETY: a string that is never freed.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())?;
        // The runtime's name of every unknown code.
        (name != "hipErrorUnknown" || code == 999).then_some(name)
    }

    /// Waits for all enqueued work.
    pub(crate) fn settle(&self) {
        // SAFETY: the function has no arguments.
        unsafe { (self.settle)() };
    }

    /// The context or device that is current on this thread.
    pub(crate) fn current(&self) -> usize {
        // SAFETY: the function has no arguments.
        unsafe { (self.current)() }
    }

    /// Leaves another context current.
    pub(crate) fn leave_current(&self) {
        // SAFETY: the function has no arguments.
        unsafe { self.leave_current.expect("a simulator")() };
    }

    pub(crate) fn live(&self) -> Live {
        let mut live = Live::default();
        // SAFETY: as many words as the library writes: a struct of them, which the sum below speaks for.
        let total = unsafe { (self.live)(&raw mut live.0) };
        assert_eq!(live.total(), total, "the sorts of the simulator and of the campaign differ");
        live
    }
}
