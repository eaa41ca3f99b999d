//! The state of the emulated driver in one process, and the open files of its devices.
//!
//! The state is created when a process first opens a device. A child does not inherit it at a fork, because the kernel
//! driver's state belongs to the process that opened the device: inherited descriptors fail with EBADF, and devices
//! that the child opens are new.
//!
//! Each open of a device creates a memfd. A descriptor is recognised by its inode, so duplicates of any kind are the
//! same file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::abi::{Result, native};
use crate::drm::{Handles, Held};
use crate::faults::Faults;
use crate::gpu::Gpu;
use crate::kernel::Kernels;
use crate::kfd::event::Events;
use crate::lock;
use crate::memory::dmabuf::{Form, Inode};
use crate::memory::{Memory, Storage};
use crate::queue::{DOORBELL_BYTES, Queues};
use crate::report;
use crate::report::{Counters, say};
use crate::settings::{Settings, settings};
use crate::sync::Signals;

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
    pub(crate) signals: Arc<Signals>,
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
    let _start = lock(&START);
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
            report::failure(format_args!("the emulation cannot start: {error}"));
            None
        }
    }
}

impl Emulation {
    fn new(settings: &'static Settings) -> crate::abi::Result<Self> {
        let gpus: Vec<_> = gpus(settings);
        let memory = Memory::new(&gpus)?;
        let doorbells = gpus.iter().map(|_| {
            let page = memory.new_system(DOORBELL_BYTES, Form::Lavapipe)?;
            // SAFETY: the page is new, has this size, and no other reference exists.
            unsafe { page.address().write_bytes(0xff, native(DOORBELL_BYTES)) };
            Ok(page)
        });
        let registers =
            gpus.iter().map(|_| memory.new_system(4096, Form::Lavapipe)).collect::<crate::abi::Result<_>>()?;
        Ok(Self {
            process: process(),
            registers,
            settings,
            doorbells: doorbells.collect::<crate::abi::Result<_>>()?,
            signals: Signals::new(memory.keeper()),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Kfd,
    /// The render node of a GPU, by index.
    Render(usize),
}

/// An open file of a device.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) device: Device,
    /// Distinguishes the open files of a process.
    pub(crate) number: u64,
    pub(crate) handles: Handles,
}

/// The number of the next file to be opened.
static OPENED: AtomicU64 = AtomicU64::new(1);

/// The open files of a process.
#[derive(Debug, Default)]
pub(crate) struct Files(Mutex<HashMap<Inode, Arc<File>>>);

impl Files {
    fn lock(&self) -> MutexGuard<'_, HashMap<Inode, Arc<File>>> {
        lock(&self.0)
    }

    pub(crate) fn open(&self, device: Device, close_on_exec: bool) -> Result<OwnedFd> {
        let flags = if close_on_exec { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
        let name = if device == Device::Kfd { c"emulated-amdgpu-kfd" } else { c"emulated-amdgpu-render" };
        let file = rustix::fs::memfd_create(name, flags)?;
        let status = rustix::fs::fstat(&file)?;
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let opened = File { device, number, handles: Handles::default() };
        self.lock().insert((status.st_dev, status.st_ino), Arc::new(opened));
        Ok(file)
    }

    /// The open file of a descriptor, if it is one of a device.
    pub(crate) fn find(&self, descriptor: i32) -> Option<Arc<File>> {
        if descriptor < 0 {
            return None;
        }
        // SAFETY: only the status of the descriptor is queried, which fails if the descriptor is closed during the
        // call.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let status = rustix::fs::fstat(descriptor).ok()?;
        self.lock().get(&(status.st_dev, status.st_ino)).map(Arc::clone)
    }

    /// Removes files without a descriptor in this process. Returns the number of descriptors of the remaining files.
    pub(crate) fn collect(&self) -> usize {
        let mut open = Vec::new();
        for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            if let Ok(status) = rustix::fs::stat(entry.path()) {
                open.push((status.st_dev, status.st_ino));
            }
        }
        let mut files = self.lock();
        files.retain(|inode, _| open.contains(inode));
        open.iter().filter(|inode| files.contains_key(inode)).count()
    }

    /// The numbers of handles of the open files of render nodes.
    pub(crate) fn held(&self) -> Held {
        self.lock().values().map(|file| file.handles.held()).fold(Held::default(), |all, file| Held {
            objects: all.objects + file.objects,
            contexts: all.contexts + file.contexts,
            syncobjs: all.syncobjs + file.syncobjs,
        })
    }
}
