//! A fake Vulkan driver that records its calls. It computes nothing: handles are numbers, memory is a file.
//!
//! All state is thread-local, so each test has its own driver.

mod commands;
mod macros;
mod objects;

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use ash::vk::{self, Handle};
use gpu_interop_core::Result;
use gpu_interop_vulkan::{HeadlessContext, VulkanInterop};
use rustix::fs::MemfdFlags;

/// The queue family of [`context`]; not 0, the default of a missing value.
pub(crate) const FAMILY: u32 = 7;

/// Properties of the fake driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The Vulkan version of the physical device.
    pub(crate) version: u32,
    /// The device has the functions of Vulkan 1.1.
    pub(crate) has_1_1: bool,
    /// The driver fills the structures of Vulkan 1.1.
    pub(crate) fills_1_1: bool,
    /// The feature `timelineSemaphore` of the physical device.
    pub(crate) timelines: bool,
    /// The device has the functions of timeline semaphores.
    pub(crate) timeline_functions: bool,
    /// Shared memory must be a dedicated allocation (`DEDICATED_ONLY`).
    pub(crate) dedicated_only: bool,
    /// Every object requires a dedicated allocation.
    pub(crate) requires_dedicated: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: vk::API_VERSION_1_2,
            has_1_1: true,
            fills_1_1: true,
            timelines: true,
            timeline_functions: true,
            dedicated_only: false,
            requires_dedicated: false,
        }
    }
}

#[derive(Default)]
struct State {
    settings: Settings,
    calls: Vec<String>,
    /// Number of handles of each type so far.
    counts: [u64; 16],
    lent: Option<(RawFd, u64)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(crate) fn settings() -> Settings {
    STATE.with_borrow(|state| state.settings)
}

/// The descriptor that a test imports, and its inode.
pub(crate) fn lent() -> (RawFd, u64) {
    STATE.with_borrow(|state| state.lent).unwrap_or((-1, 0))
}

/// Sets the descriptor that is imported next.
pub(crate) fn lend(fd: impl AsFd) {
    let file = rustix::fs::fstat(fd.as_fd()).expect("open").st_ino;
    STATE.with_borrow_mut(|state| state.lent = Some((fd.as_fd().as_raw_fd(), file)));
}

/// A memory file in place of an export. Inheritable, as from some drivers.
pub(crate) fn file(size: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("fake", MemfdFlags::empty()).expect("memfd");
    rustix::fs::ftruncate(&fd, size).expect("ftruncate");
    fd
}

/// Creates a device of a driver with these settings.
pub(crate) fn try_start(settings: Settings) -> Result<VulkanInterop> {
    STATE.set(State { settings, ..State::default() });
    // SAFETY: the functions are those of this module, with the right types; handles are never dereferenced.
    let (instance, device) = unsafe {
        (
            ash::Instance::load_with(address, vk::Instance::from_raw(0x10)),
            ash::Device::load_with(address, vk::Device::from_raw(0x11)),
        )
    };
    // SAFETY: instance and device belong together, and their functions are static.
    unsafe { VulkanInterop::new(&instance, vk::PhysicalDevice::from_raw(0x12), &device) }
}

/// The function with this name; null if the driver lacks it.
fn address(name: &CStr) -> *const c_void {
    let object = objects::address(name);
    if object.is_null() { commands::address(name) } else { object }
}

pub(crate) fn start(settings: Settings) -> VulkanInterop {
    let interop = try_start(settings).expect("a device");
    calls();
    interop
}

/// A context on a queue of [`FAMILY`].
pub(crate) fn context(interop: &VulkanInterop) -> HeadlessContext {
    // SAFETY: the fake driver accepts this queue; nothing else uses it.
    unsafe { HeadlessContext::on_queue(interop, FAMILY, vk::Queue::from_raw(0x13)) }
}

/// Takes the calls recorded since the last call of this function.
pub(crate) fn calls() -> Vec<String> {
    STATE.with_borrow_mut(|state| std::mem::take(&mut state.calls))
}

fn record(call: &str, arguments: String) {
    STATE.with_borrow_mut(|state| state.calls.push(format!("{call} {arguments}")));
}

/// Writes a new handle: the first of type 0xb is 0xb1.
fn new_handle<T: Handle>(type_number: u64, to: *mut T) -> vk::Result {
    let number = STATE.with_borrow_mut(|state| {
        let count = &mut state.counts[usize::try_from(type_number).expect("below 16")];
        *count += 1;
        *count
    });
    // SAFETY: the library passes a pointer for one handle.
    unsafe { to.write(T::from_raw((type_number << 4) | number)) };
    vk::Result::SUCCESS
}
