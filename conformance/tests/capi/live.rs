//! Live handles of a device, and linear memory by address.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop::{DevicePtr, Error, Result};
use gpu_interop_capi as c;

/// A handle of any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Before the memory that it is mapped from.
    Array,
    Memory,
    Stream,
    Event,
    Module,
    Kernel,
    Semaphore,
}

/// Linear memory: a mapping, an exportable allocation, or words of this program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) buffer: c::gpi_buffer,
    pub(crate) size: u64,
    /// The import of a mapping.
    pub(crate) memory: Option<usize>,
}

/// One mip level of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    pub(crate) array: c::gpi_array,
    pub(crate) level: u32,
    pub(crate) texel_size: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Size of the texels of each array.
    pub(crate) texels: BTreeMap<u64, u64>,
    /// Levels by the driver's array.
    pub(crate) levels: BTreeMap<u64, Level>,
    pub(crate) handles: BTreeMap<(Kind, u64), ()>,
    /// By address. Several may begin at one.
    pub(crate) linear: BTreeMap<u64, Vec<Linear>>,
    /// The device was closed, with its objects.
    pub(crate) closed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<State>);

impl Live {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    pub(crate) fn add(&self, kind: Kind, id: u64) -> usize {
        self.state().handles.insert((kind, id), ());
        usize::try_from(id).expect("64 bits")
    }

    /// Forgets a handle. False if the device has been closed, and the handle with it.
    pub(crate) fn remove(&self, kind: Kind, id: usize) -> bool {
        self.state().handles.remove(&(kind, id as u64)).is_some()
    }

    pub(crate) fn add_linear(&self, address: u64, linear: Linear) {
        self.state().linear.entry(address).or_default().push(linear);
    }

    /// Forgets memory at an address: the mapping of an import, or that without one. Drivers map parts of one import at one
    /// address; the address does not say which is freed, so the smallest is, and the ranges of the others stay known.
    pub(crate) fn remove_linear(&self, address: u64, memory: Option<usize>) -> Option<c::gpi_buffer> {
        let mut state = self.state();
        let all = state.linear.get_mut(&address)?;
        let of_import = all.iter().enumerate().filter(|(_, linear)| linear.memory == memory);
        let (index, _) = of_import.min_by_key(|(_, linear)| linear.size)?;
        let found = all.remove(index);
        if all.is_empty() {
            state.linear.remove(&address);
        }
        Some(found.buffer)
    }

    /// A region of a level, from bytes to texels.
    pub(crate) fn region(&self, raw: u64, offset: [u64; 3], extent: [u64; 3]) -> Result<c::gpi_array_region> {
        let unknown = || Error::invalid("copy_array", "the array is no level of a mapped array");
        let Level { array, level, texel_size } = *self.state().levels.get(&raw).ok_or_else(unknown)?;
        let texels = |[bytes, rows, slices]: [u64; 3]| [bytes / texel_size, rows, slices];
        let (offset, extent) = (texels(offset), texels(extent));
        Ok(c::gpi_array_region { array, level, reserved: 0, offset, extent })
    }

    /// The range of linear memory at an address.
    pub(crate) fn range(&self, operation: &'static str, address: DevicePtr, size: u64) -> Result<c::gpi_range> {
        let (state, address) = (self.state(), address.get());
        let below = state.linear.range(..=address).rev();
        let mut all = below.flat_map(|(start, all)| all.iter().map(|linear| (address - *start, *linear)));
        let found = all.find(|(offset, linear)| *offset < linear.size && size <= linear.size - *offset);
        let (offset, linear) = found.ok_or_else(|| Error::invalid(operation, "no memory is mapped at this address"))?;
        Ok(c::gpi_range { buffer: linear.buffer, offset, size })
    }
}

/// Test of [`Live::remove_linear`].
pub(crate) fn freeing_a_part_leaves_the_whole_mapping() -> Result<(), libtest_mimic::Failed> {
    let live = Live::default();
    let linear = |id, size| Linear { buffer: c::gpi_buffer { id }, size, memory: Some(7) };
    live.add_linear(4096, linear(1, 8 << 30));
    live.add_linear(4096, linear(2, 4096));
    assert_eq!(live.remove_linear(4096, Some(7)).expect("mapped").id, 2);
    let range = live.range("test", DevicePtr::new(4096 + (4 << 30)), 4096).expect("mapped");
    assert_eq!((range.buffer.id, range.offset), (1, 4 << 30));
    Ok(())
}
