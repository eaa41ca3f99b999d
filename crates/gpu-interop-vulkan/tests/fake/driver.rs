//! A Vulkan driver that writes down what it is called with. It computes nothing: handles are numbers, memory is a file.
//!
//! Each test has one of its own: what is here belongs to the thread.

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

/// The family of the queue of [`context`]: not 0, which is what a forgotten number would be.
pub(crate) const FAMILY: u32 = 7;

/// What the driver says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The Vulkan version of the physical device.
    pub(crate) version: u32,
    /// Whether the device has the functions of Vulkan 1.1.
    pub(crate) has_1_1: bool,
    /// Whether the structures of Vulkan 1.1 are filled.
    pub(crate) fills_1_1: bool,
    /// The feature `timelineSemaphore` of the physical device.
    pub(crate) timelines: bool,
    /// Whether the device has the functions of timeline semaphores.
    pub(crate) timeline_functions: bool,
    /// Whether shared memory must be a dedicated allocation (`DEDICATED_ONLY`).
    pub(crate) dedicated_only: bool,
    /// Whether each object demands a dedicated allocation.
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
    /// How many handles of each sort were given.
    given: [u64; 16],
    lent: Option<(RawFd, u64)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(crate) fn settings() -> Settings {
    STATE.with_borrow(|state| state.settings)
}

/// The descriptor that a test imports, and its file.
pub(crate) fn lent() -> (RawFd, u64) {
    STATE.with_borrow(|state| state.lent).unwrap_or((-1, 0))
}

/// Says which descriptor is imported next.
pub(crate) fn lend(fd: impl AsFd) {
    let file = rustix::fs::fstat(fd.as_fd()).expect("open").st_ino;
    STATE.with_borrow_mut(|state| state.lent = Some((fd.as_fd().as_raw_fd(), file)));
}

/// A file that stands for memory or a semaphore. Programs inherit it, as drivers may have it.
pub(crate) fn file(size: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("fake", MemfdFlags::empty()).expect("memfd");
    rustix::fs::ftruncate(&fd, size).expect("ftruncate");
    fd
}

/// The device of a driver with these settings, or why there is none.
pub(crate) fn try_start(settings: Settings) -> Result<VulkanInterop> {
    STATE.set(State { settings, ..State::default() });
    // SAFETY: the functions are those below, of the right types; the handles are never followed.
    let (instance, device) = unsafe {
        (
            ash::Instance::load_with(address, vk::Instance::from_raw(0x10)),
            ash::Device::load_with(address, vk::Device::from_raw(0x11)),
        )
    };
    // SAFETY: they belong together, and what they do ends with the thread.
    unsafe { VulkanInterop::new(&instance, vk::PhysicalDevice::from_raw(0x12), &device) }
}

/// The function of this name; null if the driver has none.
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
    // SAFETY: the driver has this queue; nothing else uses it.
    unsafe { HeadlessContext::on_queue(interop, FAMILY, vk::Queue::from_raw(0x13)) }
}

/// What the driver was called with since the last look.
pub(crate) fn calls() -> Vec<String> {
    STATE.with_borrow_mut(|state| std::mem::take(&mut state.calls))
}

fn note(call: &str, with: String) {
    STATE.with_borrow_mut(|state| state.calls.push(format!("{call} {with}")));
}

/// A new handle: the first of sort 0xb is 0xb1.
fn give<T: Handle>(sort: u64, to: *mut T) -> vk::Result {
    let number = STATE.with_borrow_mut(|state| {
        let given = &mut state.given[usize::try_from(sort).expect("a sort")];
        *given += 1;
        *given
    });
    // SAFETY: a pointer of the library's for one handle.
    unsafe { to.write(T::from_raw((sort << 4) | number)) };
    vk::Result::SUCCESS
}
