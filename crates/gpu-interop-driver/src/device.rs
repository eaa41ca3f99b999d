//! One device, from its opening to its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpu_interop_core::backend::{DevicePtr, RawStream};
use gpu_interop_core::{Capabilities, DeviceIdentity, Result};

use crate::call::call;
use crate::capabilities;
use crate::copied_fill::{self, Values};
use crate::driver::Driver;
use crate::exportable::Allocation;
use crate::functions::DeviceNumber;
use crate::graph::Graphs;
use crate::host_words::{HostWords, Value};
use crate::levels::Levels;
use crate::mapping::Imports;
use crate::unfenced::Unfenced;
use crate::vendor::{Context, Vendor};

/// Calls a function of the driver with the device current, as `call` does. In an unsafe block.
macro_rules! current {
    ($device:ident.$enter:ident().$function:ident $($rest:tt)*) => {{
        let (driver, _current) = $device.context.$enter()?;
        call!(driver.$function $($rest)*)
    }};
}

/// As `current`, for functions that write what they made to their first argument: the number and the function's name.
macro_rules! create {
    ($device:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = 0;
        current!($device.enter().$function(&raw mut made $(, $argument)*))
            .map(|()| (made, $device.context.driver.functions.$function.operation))
    }};
}

mod calls;
mod memory;

/// A device of a vendor's driver.
#[derive(Debug)]
pub(crate) struct VendorDevice<V: Vendor> {
    context: Arc<Context<V>>,
    identity: DeviceIdentity,
    capabilities: Capabilities,
    architecture: Option<String>,
    /// Exportable allocations, and imports of such, by their first address.
    allocations: Mutex<HashMap<usize, Allocation<V>>>,
    unfenced: Unfenced,
    graphs: Graphs,
    /// Those that are mapped as a whole.
    imports: Imports,
    /// Where they end apart from their image.
    levels: Levels,
    /// Where the host writes words of signal memory.
    host_words: HostWords,
    /// Where the driver's own fills are not to be used.
    copied_fills: Option<Values>,
    /// Work may be pending for ever: drivers that wait for all of it before they free anything would, too.
    abandoned: AtomicBool,
}

impl<V: Vendor> VendorDevice<V> {
    pub(crate) fn open(driver: Arc<Driver<V>>, device: DeviceNumber, identity: DeviceIdentity) -> Result<Self> {
        let (capabilities, architecture) = (capabilities::of(&driver, device), V::architecture(&driver, device));
        let context = Arc::new(Context::open(driver, device)?);
        let copied_fills = if V::fills_by_copies(&context.driver) {
            let (driver, _current) = context.enter()?;
            Some(Values::new(driver, context.device)?)
        } else {
            None
        };
        Ok(Self {
            context,
            identity,
            capabilities,
            architecture,
            allocations: Mutex::default(),
            unfenced: Unfenced::default(),
            graphs: Graphs::default(),
            imports: Imports::default(),
            levels: Levels::default(),
            host_words: HostWords::default(),
            copied_fills,
            abandoned: AtomicBool::new(false),
        })
    }

    /// A fill of so many bytes is about to be enqueued.
    #[inline]
    fn fills(&self, stream: RawStream, size: u64) {
        if size < V::OVERTAKEN_FILLS {
            self.unfenced.add(stream.get());
        }
    }

    /// Has a stream write a word. Where another stream would not see that, the host writes those of signal memory.
    ///
    /// # Safety
    /// The stream is live, and the word is aligned, and live until it is written.
    unsafe fn write_value(&self, stream: RawStream, word: DevicePtr, value: Value) -> Result<()> {
        if !V::WRITES_ARE_SEEN {
            let (driver, _current) = self.context.enter()?;
            // SAFETY: the caller's promise; the device is current.
            if let Some(written) = unsafe { self.host_words.write(driver, stream, word, value) } {
                return written;
            }
        }
        let (driver, _current) = self.context.enter_to_enqueue()?;
        let (stream, word) = (stream.get(), word.get());
        // SAFETY: the caller's promise; the device is current.
        unsafe {
            match value {
                Value::Narrow(value) => call!(driver.stream_write_value_32(stream, word, value, 0)),
                Value::Wide(value) => call!(driver.stream_write_value_64(stream, word, value, 0)),
            }
        }
    }

    fn allocations(&self) -> MutexGuard<'_, HashMap<usize, Allocation<V>>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Vendor> Drop for VendorDevice<V> {
    fn drop(&mut self) {
        // Those that were to be freed when the device could not be made current.
        let left = std::mem::take(&mut *self.allocations());
        if self.abandoned.load(Ordering::Relaxed) && !left.is_empty() {
            // Work that uses them may still be pending, for ever.
            tracing::error!(allocations = left.len(), "exportable memory of a device that was given up is leaked");
            std::mem::forget(left);
            return;
        }
        if !left.is_empty() || self.copied_fills.is_some() {
            let entered = self.context.enter();
            drop(left);
            let waits_for_ever = V::FREES_WAIT_FOR_STREAMS && self.abandoned.load(Ordering::Relaxed);
            match (entered, &self.copied_fills) {
                (Ok((driver, _current)), Some(values)) if !waits_for_ever => {
                    // SAFETY: a device is dropped once its streams are idle, by contract; it is current.
                    unsafe { values.free(driver) };
                }
                (Err(error), Some(_)) => copied_fill::report(&error),
                _ => {}
            }
        }
    }
}
