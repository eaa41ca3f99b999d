//! The state of the emulated driver in one process.
//!
//! It is created when a process first opens a device. A child does not inherit it at a fork, because the kernel
//! driver's state belongs to the process that opened the device: inherited descriptors fail with EBADF, and devices
//! that the child opens are new.

use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::Errno;

use crate::abi::native;
use crate::counters::Counters;
use crate::event::Events;
use crate::faults::Faults;
use crate::files::Files;
use crate::gpu::Gpu;
use crate::kernel::Kernels;
use crate::log::{self, say};
use crate::memory::{Memory, Storage};
use crate::queue::{DOORBELL_BYTES, Queues};
use crate::settings::{Settings, settings};

#[derive(Debug)]
pub(crate) struct Emulation {
    process: i32,
    pub(crate) settings: &'static Settings,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) files: Files,
    pub(crate) memory: Memory,
    /// The page of doorbells of each GPU.
    pub(crate) doorbells: Vec<std::sync::Arc<Storage>>,
    /// The page of registers of each GPU that processes may write, for cache flushes. No code reads it.
    pub(crate) registers: Vec<std::sync::Arc<Storage>>,
    pub(crate) events: Events,
    pub(crate) queues: Queues,
    pub(crate) kernels: Kernels,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
}

static CURRENT: AtomicPtr<Emulation> = AtomicPtr::new(std::ptr::null_mut());
static START: Mutex<()> = Mutex::new(());

fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The state of this process, if it has opened a device.
pub(crate) fn current() -> Option<&'static Emulation> {
    // SAFETY: the stored state is leaked and therefore never freed.
    let emulation = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
    (emulation.process == process()).then_some(emulation)
}

/// `true` if this process, or a process that it was forked from, has opened a device.
pub(crate) fn inherited() -> bool {
    !CURRENT.load(Ordering::Acquire).is_null()
}

/// The state of this process, created if necessary. `None` if the settings are invalid or memory is missing.
pub(crate) fn start() -> Option<&'static Emulation> {
    if let Some(emulation) = current() {
        return Some(emulation);
    }
    let settings = settings()?;
    // Contended only by threads that open a device at the same time, so it is unlikely to be held during a fork.
    let _start = START.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(emulation) = current() {
        return Some(emulation);
    }
    match Emulation::new(settings) {
        Ok(emulation) => {
            let emulation: &'static Emulation = Box::leak(Box::new(emulation));
            CURRENT.store(std::ptr::from_ref(emulation).cast_mut(), Ordering::Release);
            Some(emulation)
        }
        Err(error) => {
            log::failure(format_args!("the emulation cannot start: {error}"));
            None
        }
    }
}

impl Emulation {
    fn new(settings: &'static Settings) -> crate::abi::Result<Self> {
        let gpus: Vec<_> = gpus(settings);
        let memory = Memory::new(&gpus)?;
        let doorbells = gpus.iter().map(|_| {
            let page = memory.new_system(DOORBELL_BYTES)?;
            // SAFETY: the page is new, has this size, and no other reference exists.
            unsafe { page.address().write_bytes(0xff, native(DOORBELL_BYTES)) };
            Ok(page)
        });
        let registers = gpus.iter().map(|_| memory.new_system(4096)).collect::<crate::abi::Result<_>>()?;
        Ok(Self {
            process: process(),
            registers,
            settings,
            doorbells: doorbells.collect::<crate::abi::Result<_>>()?,
            gpus,
            files: Files::default(),
            memory,
            events: Events::default(),
            queues: Queues::default(),
            kernels: Kernels::default(),
            faults: Faults::new(&settings.faults),
            counters: Counters::default(),
        })
    }

    /// Executes an ioctl, unless a fault makes it fail; counts and logs it.
    pub(crate) fn ioctl(&self, name: &str, execute: impl FnOnce() -> crate::abi::Result<()>) -> crate::abi::Result<()> {
        self.counters.add("ioctls", name);
        let result = self.faults.at(&format!("ioctl-{name}")).map_or_else(execute, Err);
        match result {
            Err(Errno::NOTTY) => {
                self.counters.add("unknown_ioctls", name);
                say!(1, "{name}: unknown");
            }
            Err(error) => say!(1, "{name}: {error}"),
            Ok(()) => say!(3, "{name}"),
        }
        result
    }

    /// The GPU of an ioctl.
    pub(crate) fn gpu(&self, id: u32) -> crate::abi::Result<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.id() == id).ok_or(Errno::INVAL)
    }
}

pub(crate) fn gpus(settings: &Settings) -> Vec<Gpu> {
    let gpus = settings.gpus.iter().enumerate();
    gpus.map(|(index, gpu)| Gpu::new(index, gpu, settings.vram, settings.large_bar)).collect()
}
