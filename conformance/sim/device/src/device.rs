//! The device: initialisation of its driver, its primary context, its identity, its used memory, and the count of its
//! live objects for leak checks.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use gpu_interop_sim_abi::write_text;

use crate::array::{LEVELS, MIPMAPPED, SURFACES, TEXTURES};
use crate::graph::{GRAPHS, READY};
use crate::kernel::MODULES;
use crate::memory::IMPORTED;
use crate::physical::{PHYSICAL, RESERVED};
use crate::semaphore::SEMAPHORES;
use crate::stream::{EVENTS, STREAMS};
use crate::{array, code, memory, objects, report, settings, stream};

static RETAINED: AtomicU64 = AtomicU64::new(0);
/// Number of the primary context: even after a reset, and odd again once it is retained.
static CONTEXT: AtomicU64 = AtomicU64::new(1);

/// Retains the primary context.
pub fn retain() {
    RETAINED.fetch_add(1, Ordering::SeqCst);
    CONTEXT.fetch_or(1, Ordering::SeqCst);
}

/// The number of the primary context; `None` after a reset, until it is retained.
pub fn context() -> Option<u64> {
    let number = CONTEXT.load(Ordering::SeqCst);
    (number % 2 == 1).then_some(number)
}

/// Destroys all objects of the device but exportable memory, which belongs to no context, and memory that survives.
/// Waits for pending work: the threads of streams access memory that ends here. The number of references to the context
/// stays.
pub fn reset() {
    stream::drain_all();
    objects::note_reset();
    STREAMS.take_all().iter().for_each(|stream| stream.abandon());
    EVENTS.take_all();
    GRAPHS.take_all();
    READY.take_all();
    MODULES.take_all();
    SEMAPHORES.take_all();
    SURFACES.take_all();
    TEXTURES.take_all();
    LEVELS.take_all();
    MIPMAPPED.take_all();
    memory::reset();
    let _ = CONTEXT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |number| (number % 2 == 1).then_some(number + 1));
}

/// Releases the primary context; `false` if it was not retained.
pub fn release() -> bool {
    RETAINED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

/// The number of times that the primary context is retained.
pub fn retained() -> u64 {
    RETAINED.load(Ordering::SeqCst)
}

/// `true` if the machine has more than one device, visible or not.
pub fn has_others() -> bool {
    settings::number("GPU_INTEROP_SIM_DEVICES", 1) > 1
}

/// The devices that a list of numbers makes visible, by their numbers among all devices.
pub fn visible(list: Option<&str>) -> Vec<c_int> {
    settings::visible(list, settings::number("GPU_INTEROP_SIM_DEVICES", 1))
}

/// An attribute set by `GPU_INTEROP_SIM_ATTRIBUTES`: its value, or the code that the query returns.
pub fn attribute(number: c_int) -> Option<Result<c_int, u32>> {
    settings::answers("GPU_INTEROP_SIM_ATTRIBUTES")
        .into_iter()
        .find(|(name, _)| *name == number)
        .map(|(_, answer)| answer)
}

/// `true` if the device exists, visible or not.
pub fn exists(device: c_int) -> bool {
    (0..settings::number("GPU_INTEROP_SIM_DEVICES", 1)).contains(&device)
}

/// A device's UUID, derived from that of the first device.
pub fn uuid(device: c_int, first: [u8; 16]) -> [u8; 16] {
    let mut uuid = settings::bytes("GPU_INTEROP_SIM_UUID").unwrap_or(first);
    uuid[15] ^= identity_offset(device).to_le_bytes()[0];
    uuid
}

/// A device's LUID, which exists on Windows only.
pub fn luid(device: c_int) -> [u8; 8] {
    /// The LUID of sim-d3d.
    const FIRST: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0];
    let given = settings::text("GPU_INTEROP_SIM_LUID").and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    let mut luid = given.map_or(FIRST, u64::to_be_bytes);
    luid[7] ^= identity_offset(device).to_le_bytes()[0];
    luid
}

/// Domain, bus and device of a device's PCI address.
pub fn pci(device: c_int) -> [c_int; 3] {
    let parse = |text: String| {
        let mut parts = text.split([':', '.']).map(|part| c_int::from_str_radix(part, 16));
        Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
    };
    let [domain, bus, slot] = settings::text("GPU_INTEROP_SIM_PCI").and_then(parse).unwrap_or([0xffff, 0x5a, 0x1f]);
    [domain, (bus + identity_offset(device)) & 0xff, slot]
}

/// A device's number, or 0 if all devices report the same identity.
fn identity_offset(device: c_int) -> c_int {
    if settings::number("GPU_INTEROP_SIM_ALIKE", 0) == 0 { device } else { 0 }
}

/// Number of the process that initialised the driver first; 0 for none.
static INITIALISED_BY: AtomicU32 = AtomicU32::new(0);

/// Marks the driver as initialised.
///
/// # Errors
/// [`code::NOT_INITIALIZED`] in a process that was forked from the one that initialised it, as measured with NVIDIA's driver.
pub fn initialise() -> Result<(), u32> {
    let (this, none) = (std::process::id(), 0);
    let first =
        INITIALISED_BY.compare_exchange(none, this, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|first| first);
    if first != none && first != this {
        return Err(code::NOT_INITIALIZED);
    }
    report_at_exit();
    Ok(())
}

/// `true` if this process has initialised the driver.
#[must_use]
pub fn is_initialised() -> bool {
    INITIALISED_BY.load(Ordering::SeqCst) == std::process::id()
}

/// Size of the device's memory, bytes.
pub const TOTAL_MEMORY: u64 = 64 << 30;

static MEMORY_IN_USE: AtomicU64 = AtomicU64::new(0);

/// Free memory, bytes.
pub fn free_memory() -> u64 {
    TOTAL_MEMORY.saturating_sub(MEMORY_IN_USE.load(Ordering::SeqCst))
}

/// Used bytes while this lives.
#[derive(Debug)]
pub(crate) struct InUse(u64);

impl InUse {
    pub(crate) fn new(bytes: usize) -> Self {
        MEMORY_IN_USE.fetch_add(bytes as u64, Ordering::SeqCst);
        Self(bytes as u64)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        MEMORY_IN_USE.fetch_sub(self.0, Ordering::SeqCst);
    }
}

gpu_interop_sim_abi::live! {
    /// Imported memory.
    imports: IMPORTED.len() as u64,
    /// Mapped ranges of imported memory.
    mappings: memory::live().0,
    /// Mapped images, and levels that outlive theirs.
    arrays: array::live(),
    /// Imported semaphores.
    semaphores: SEMAPHORES.len() as u64,
    /// Streams, without the default stream.
    streams: STREAMS.len() as u64,
    /// Events.
    events: EVENTS.len() as u64,
    /// Modules.
    modules: MODULES.len() as u64,
    /// Allocations that cannot be exported.
    allocations: memory::live().1,
    /// Exportable memory, with one descriptor each.
    descriptors: PHYSICAL.len() as u64,
    /// Reserved ranges of addresses.
    reservations: RESERVED.len() as u64,
    /// References to primary contexts.
    contexts: retained(),
    /// Surfaces.
    surfaces: SURFACES.len() as u64,
    /// Textures.
    textures: TEXTURES.len() as u64,
    /// Graphs, captured and executable.
    graphs: (GRAPHS.len() + READY.len()) as u64,
}

/// The number of live objects of all kinds. Writes the number of each kind if `each` is not NULL.
///
/// # Safety
/// `each` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_live(each: *mut Live) -> u64 {
    let live = Live::now();
    if !each.is_null() {
        // SAFETY: the caller's promise.
        unsafe { each.write(live) };
    }
    live.total()
}

/// Registers a report at the end of the process to the file that `GPU_INTEROP_SIM_REPORT` names, if it is set.
pub fn report_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn tell() {
        let live = Live::now();
        report::add(|process| format!("{} alive at the end of {process}: {live:?}", live.total()));
    }
    ONCE.call_once(|| report::at_exit(tell));
}
