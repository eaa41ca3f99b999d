//! The device and its primary context.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

pub use gpu_interop_sim_abi::write_text;

use crate::array::{LEVELS, MIPMAPPED, SURFACES, TEXTURES};
use crate::event::EVENTS;
use crate::graph::{GRAPHS, READY};
use crate::kernel::MODULES;
use crate::semaphore::SEMAPHORES;
use crate::stream::{self, STREAMS};
use crate::{memory, objects, settings};

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
    uuid[15] ^= told_apart(device).to_le_bytes()[0];
    uuid
}

/// A device's LUID, which exists on Windows only.
pub fn luid(device: c_int) -> [u8; 8] {
    /// The LUID of sim-d3d.
    const FIRST: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0];
    let given = settings::text("GPU_INTEROP_SIM_LUID").and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    let mut luid = given.map_or(FIRST, u64::to_be_bytes);
    luid[7] ^= told_apart(device).to_le_bytes()[0];
    luid
}

/// Domain, bus and device of a device's PCI address.
pub fn pci(device: c_int) -> [c_int; 3] {
    let parse = |text: String| {
        let mut parts = text.split([':', '.']).map(|part| c_int::from_str_radix(part, 16));
        Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
    };
    let [domain, bus, slot] = settings::text("GPU_INTEROP_SIM_PCI").and_then(parse).unwrap_or([0xffff, 0x5a, 0x1f]);
    [domain, (bus + told_apart(device)) & 0xff, slot]
}

/// A device's number, or 0 if all devices report the same identity.
fn told_apart(device: c_int) -> c_int {
    if settings::number("GPU_INTEROP_SIM_ALIKE", 0) == 0 { device } else { 0 }
}
