//! The state of a test's driver: its settings, and what it was called with.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use ash::vk::{self, Handle};
use rustix::fs::MemfdFlags;

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
    /// The feature `bufferDeviceAddress`, and its function.
    pub(crate) addresses: bool,
    /// The value of every timeline.
    pub(crate) reached: u64,
    /// Host waits raise the value, up to this one.
    pub(crate) wait_reaches: u64,
    /// Shared memory must be a dedicated allocation (`DEDICATED_ONLY`).
    pub(crate) dedicated_only: bool,
    /// Shared memory is imported (`IMPORTABLE`).
    pub(crate) importable: bool,
    /// The memory types of descriptors that are imported, one bit each.
    pub(crate) fd_types: u32,
    /// Every object requires a dedicated allocation.
    pub(crate) requires_dedicated: bool,
    /// Every format has `VK_FORMAT_FEATURE_DISJOINT_BIT`.
    pub(crate) disjoint: bool,
    /// The device has `VK_EXT_image_drm_format_modifier`, enabled.
    pub(crate) modifiers: bool,
    /// The device has `VK_EXT_external_memory_dma_buf`, enabled.
    pub(crate) dma_bufs: bool,
    /// The device has `VK_EXT_queue_family_foreign`, enabled.
    pub(crate) foreign: bool,
    /// Number of memory planes of each modifier.
    pub(crate) memory_planes: u32,
    /// Images of linear tiling are exported as dma-bufs.
    pub(crate) linear_dma_bufs: bool,
    /// Bytes from one memory plane of an image to the next one.
    pub(crate) plane_step: u64,
    /// Features of every semaphore: `EXPORTABLE` and `IMPORTABLE`.
    pub(crate) semaphores: u32,
    /// Exported sync files are of signalled fences, which have none.
    pub(crate) signalled: bool,
    /// Result of exports of semaphores.
    pub(crate) export_semaphore: vk::Result,
    /// Result of queries of fences and waits for them.
    pub(crate) fence: vk::Result,
    /// Result of submissions.
    pub(crate) submit: vk::Result,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: vk::API_VERSION_1_2,
            has_1_1: true,
            fills_1_1: true,
            timelines: true,
            timeline_functions: true,
            addresses: true,
            reached: 0,
            wait_reaches: 0,
            dedicated_only: false,
            importable: true,
            fd_types: 0x2,
            requires_dedicated: false,
            disjoint: true,
            modifiers: false,
            dma_bufs: true,
            foreign: true,
            memory_planes: 2,
            linear_dma_bufs: true,
            plane_step: 4096,
            semaphores: 0x3,
            signalled: false,
            export_semaphore: vk::Result::SUCCESS,
            fence: vk::Result::SUCCESS,
            submit: vk::Result::SUCCESS,
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
    static IN_SUBMISSION: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
}

/// Runs `action` in the next submission, in place of another thread.
pub(crate) fn in_submission(action: impl FnOnce() + 'static) {
    IN_SUBMISSION.with_borrow_mut(|next| *next = Some(Box::new(action)));
}

pub(super) fn submission() {
    if let Some(action) = IN_SUBMISSION.take() {
        action();
    }
}

pub(crate) fn settings() -> Settings {
    STATE.with_borrow(|state| state.settings)
}

/// Changes the settings of a driver in use.
pub(crate) fn change(change: impl FnOnce(&mut Settings)) {
    STATE.with_borrow_mut(|state| change(&mut state.settings));
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

/// Begins anew with these settings.
pub(super) fn reset(settings: Settings) {
    STATE.set(State { settings, ..State::default() });
}

/// Takes the calls recorded since the last call of this function.
pub(crate) fn calls() -> Vec<String> {
    STATE.with_borrow_mut(|state| std::mem::take(&mut state.calls))
}

pub(super) fn record(call: &str, arguments: String) {
    STATE.with_borrow_mut(|state| state.calls.push(format!("{call} {arguments}")));
}

/// Writes a new handle: the first of type 0xb is 0xb1.
pub(super) fn new_handle<T: Handle>(type_number: u64, to: *mut T) -> vk::Result {
    let number = STATE.with_borrow_mut(|state| {
        let count = &mut state.counts[usize::try_from(type_number).expect("below 16")];
        *count += 1;
        *count
    });
    // SAFETY: the library passes a pointer for one handle.
    unsafe { to.write(T::from_raw((type_number << 4) | number)) };
    vk::Result::SUCCESS
}
