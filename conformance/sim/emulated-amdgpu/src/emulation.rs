//! The state of the emulated driver in one process.
//!
//! It is made when a process first opens a device. After a fork the child has none of it, as the kernel driver's state belongs
//! to the process that opened the device: descriptors that it inherited fail with EBADF, and what it opens is new.

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
use crate::queue::Queues;
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
    /// The page of registers of each GPU that processes may write: of cache flushes. Nothing reads it.
    pub(crate) registers: Vec<std::sync::Arc<Storage>>,
    pub(crate) events: Events,
    pub(crate) queues: Queues,
    pub(crate) kernels: Kernels,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
}

static CURRENT: AtomicPtr<Emulation> = AtomicPtr::new(std::ptr::null_mut());
static START: Mutex<()> = Mutex::new(());

/// Bytes of a GPU's doorbells, one of 8 bytes for each queue.
pub(crate) const DOORBELL_BYTES: u64 = 8192;

fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The state of this process, if it opened a device.
pub(crate) fn current() -> Option<&'static Emulation> {
    // SAFETY: what is stored is leaked, and never freed.
    let emulation = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
    (emulation.process == process()).then_some(emulation)
}

/// Whether this process, or one that it was forked from, opened a device.
pub(crate) fn inherited() -> bool {
    !CURRENT.load(Ordering::Acquire).is_null()
}

/// The state of this process, made now if there is none. None where the settings are wrong or memory is missing.
pub(crate) fn start() -> Option<&'static Emulation> {
    if let Some(emulation) = current() {
        return Some(emulation);
    }
    let settings = settings()?;
    // Only contended by threads that open a device at the same time, and never held while the process forks, but by chance.
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
            // SAFETY: the page was just made, has this many bytes, and nothing else refers to it.
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

    /// Executes an ioctl, unless it was made to fail: counted and logged.
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

    /// The GPU that an ioctl names.
    pub(crate) fn gpu(&self, id: u32) -> crate::abi::Result<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.id() == id).ok_or(Errno::INVAL)
    }
}

pub(crate) fn gpus(settings: &Settings) -> Vec<Gpu> {
    let gpus = settings.gpus.iter().enumerate();
    gpus.map(|(index, gpu)| Gpu::new(index, gpu, settings.vram, settings.large_bar)).collect()
}
