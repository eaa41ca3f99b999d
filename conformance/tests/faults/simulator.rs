//! The backends under test, each on its simulator; the simulator's controls: faults, counts of calls, and live objects;
//! and resource snapshots of the process: objects of the simulator, descriptors, memory files.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use gpu_interop::cuda::CudaBackend;
use gpu_interop::hip::HipBackend;
use gpu_interop::{Backend, BinaryImage, Device, Feature, ModuleImage, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// The kinds of objects of `gpu_interop_sim_device::live`, in its order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ObjectKind { $($kind),+ }

        const NAMES: &[&str] = &[$(stringify!($kind)),+];
    };
}

kinds! {
    Imports, Mappings, Arrays, Semaphores, Streams, Events, Modules, Allocations, Descriptors, Reservations, Contexts,
    Surfaces, Textures, Graphs,
}

const KINDS: usize = NAMES.len();

/// Live objects by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Live([u64; KINDS]);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = NAMES.iter().zip(self.0).filter(|(_, count)| *count != 0);
        f.debug_map().entries(counts.map(|(name, count)| (name, count.cast_signed()))).finish()
    }
}

impl Live {
    pub(crate) fn of(&self, kind: ObjectKind) -> u64 {
        self.0[kind as usize]
    }

    pub(crate) fn add(&mut self, kind: ObjectKind) {
        self.0[kind as usize] += 1;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(kind, more)| *kind += more);
    }

    /// The total of all kinds.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The increase since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|kind| self.0[kind].wrapping_sub(before.0[kind])))
    }
}

/// The controls of a library in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Simulator {
    fail: unsafe extern "C" fn(*const c_char) -> c_int,
    calls: unsafe extern "C" fn(*const c_char) -> u64,
    gives: unsafe extern "C" fn(*const c_char) -> c_int,
    live: unsafe extern "C" fn(*mut [u64; KINDS]) -> u64,
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

/// The driver's vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    /// NVIDIA's.
    Cuda,
    /// AMD's.
    Hip,
}

/// A backend and its surroundings.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) name: &'static str,
    pub(crate) vendor: Vendor,
    /// The device that is opened.
    pub(crate) ordinal: usize,
    /// The simulator's settings.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Functions hidden from the library.
    pub(crate) without: &'static [&'static str],
    /// Functions that only another driver of the list calls, with the reason.
    pub(crate) spared: &'static [(&'static str, &'static str)],
    /// `true` if every code is injected, `false` if only some.
    pub(crate) whole: bool,
}

const PINNED: &str = "asked where hipExtMallocWithFlags is missing or fails";

/// Every backend under test.
pub(crate) const DRIVERS: [Driver; 3] = [
    Driver {
        name: "cuda",
        vendor: Vendor::Cuda,
        ordinal: 0,
        // Each call but signals and waits makes the device's context current and restores this one.
        environment: &[("GPU_INTEROP_SIM_CONTEXT", "foreign")],
        without: &[],
        spared: &[("cuDevicePrimaryCtxGetState", "asked where cuCtxGetId is missing")],
        whole: true,
    },
    Driver {
        name: "hip",
        vendor: Vendor::Hip,
        // Not the thread's device, so that each call changes the current device and restores it. The two devices have
        // the same identity, because a null result instead of a device's number is a valid device.
        ordinal: 1,
        environment: &[("GPU_INTEROP_SIM_DEVICES", "2"), ("GPU_INTEROP_SIM_ALIKE", "1")],
        without: &[],
        spared: &[
            ("hipGetDeviceProperties", "asked where hipGetDevicePropertiesR0600 is missing"),
            ("hipHostRegister", PINNED),
            ("hipHostGetDevicePointer", PINNED),
            ("hipHostUnregister", PINNED),
        ],
        whole: true,
    },
    Driver {
        name: "hip 5",
        vendor: Vendor::Hip,
        ordinal: 0,
        // HIP 5.2 has neither attribute, and the exercise has exportable memory and timelines.
        environment: &[("GPU_INTEROP_SIM_HIP_LAYOUT", "5"), ("GPU_INTEROP_SIM_ATTRIBUTES", "89:1,10013:1")],
        // Newer than HIP 5; and signal memory, for which pinned memory is the fallback.
        without: &["hipGetDevicePropertiesR0600", "hipExtMallocWithFlags"],
        spared: &[
            ("hipGetDevicePropertiesR0600", "not there"),
            ("hipExtMallocWithFlags", "not there"),
            ("hipMemsetD8Async", "fills are copies"),
            ("hipSetDevice", "the device is the thread's own"),
        ],
        whole: false,
    },
];

impl Driver {
    pub(crate) fn named(name: &str) -> &'static Self {
        DRIVERS.iter().find(|driver| driver.name == name).expect("a driver's name")
    }

    /// `true` if its devices have a feature without faults.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        let images = [Feature::MappedMipmappedArray, Feature::Surfaces, Feature::Textures];
        self.vendor == Vendor::Cuda || !images.contains(&feature)
    }
}

impl Vendor {
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Cuda => "gpu-interop-sim-cuda-images",
            Self::Hip => "gpu-interop-sim-hip",
        }
    }

    /// The variable that names the library to the backend.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Cuda => "GPU_INTEROP_CUDA_LIBRARY",
            Self::Hip => "GPU_INTEROP_HIP_LIBRARY",
        }
    }

    /// The prefix of the driver's functions.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Hip => "hip",
        }
    }

    /// `true` if a symbol is a function of its driver.
    pub(crate) fn owns(self, symbol: &str) -> bool {
        symbol.strip_prefix(self.prefix()).is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()))
    }

    /// The backend's name in errors.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }

    pub(crate) fn load(self) -> Result<Box<dyn Backend>> {
        Ok(match self {
            Self::Cuda => Box::new(CudaBackend::load()?),
            Self::Hip => Box::new(HipBackend::load()?),
        })
    }

    /// The module of kernels for a device; `None` if its architecture is unknown.
    pub(crate) fn kernels(self, device: &Device) -> Option<ModuleImage<'static>> {
        match self {
            Self::Cuda => Some(ModuleImage::Ptx(gpu_interop_kernels::ptx())),
            Self::Hip => {
                let bytes = gpu_interop_kernels::code_object(device.architecture()?)?;
                // SAFETY: whole code objects, which the tests of `gpu-interop-kernels` read to the end.
                Some(ModuleImage::Binary(unsafe { BinaryImage::new(bytes) }))
            }
        }
    }
}

/// Counts of every resource that could leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResourceSnapshot {
    pub(crate) live: Live,
    /// Open descriptors.
    pub(crate) descriptors: usize,
    /// Mappings of memory files, which hold all exported and imported memory.
    pub(crate) mappings: usize,
    /// Their bytes. Adjacent mappings count as one.
    pub(crate) bytes: usize,
}

impl ResourceSnapshot {
    /// The current counts.
    pub(crate) fn now(simulator: &Simulator) -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a list of mappings");
        let files: Vec<usize> = maps.lines().filter(|line| line.contains("/memfd:")).map(length).collect();
        Self {
            live: simulator.live(),
            descriptors: std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count(),
            mappings: files.len(),
            bytes: files.iter().sum(),
        }
    }

    /// The counts once `done`, or after a second: threads of the simulator may still be releasing objects.
    pub(crate) fn settled(simulator: &Simulator, done: impl Fn(&Self) -> bool) -> Self {
        for _ in 0..500 {
            let now = Self::now(simulator);
            if done(&now) {
                return now;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Self::now(simulator)
    }
}

/// Bytes of a line of `/proc/self/maps`.
fn length(line: &str) -> usize {
    let number = |text: &str| usize::from_str_radix(text, 16).expect("an address");
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let (start, end) = range.expect("a range of addresses");
    number(end) - number(start)
}
