//! [`VendorDevice`]: an open device.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop_core::backend::{DevicePtr, RawStream};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Capabilities, DeviceIdentity, Result};

use crate::call::call;
use crate::capabilities;
use crate::context::Context;
use crate::copied_fill::{self, Values};
use crate::driver::Driver;
use crate::driver::Vendor;
use crate::exportable::Allocation;
use crate::functions::DeviceNumber;
use crate::graph::Graphs;
use crate::host_words::{HostWords, Value};
use crate::levels::Levels;
use crate::mapping::Imports;
use crate::signal_memory::Spare;
use crate::unfenced::Unfenced;

/// Calls a function of the driver with the device current, like `call`. Expands inside an `unsafe` block.
macro_rules! current {
    ($device:ident.$enter:ident().$function:ident $($rest:tt)*) => {{
        let (driver, _current) = $device.context.$enter()?;
        call!(driver.$function $($rest)*)
    }};
}

/// Counterpart of `current` for functions that write a handle to their first argument. Yields the handle and the
/// function's name in errors.
macro_rules! create {
    ($device:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = 0;
        current!($device.enter().$function(&raw mut made $(, $argument)*))
            .map(|()| (made, $device.context.driver.functions.$function.operation))
    }};
}

mod calls;
mod memory;

/// Open device of a vendor's driver.
#[derive(Debug)]
pub(crate) struct VendorDevice<V: Vendor> {
    context: Arc<Context<V>>,
    identity: DeviceIdentity,
    capabilities: Capabilities,
    architecture: Option<String>,
    /// Exportable allocations and native imports, by first address.
    allocations: Mutex<HashMap<usize, Arc<Allocation<V>>>>,
    unfenced: Unfenced,
    graphs: Graphs,
    /// Imports that are mapped as a whole.
    imports: Imports,
    /// Mipmap level arrays, for drivers that require freeing each.
    levels: Levels,
    /// Signal memory, for drivers on which the host writes its words.
    host_words: HostWords,
    spare: Spare,
    /// Source of fills, for drivers with defective fills.
    copied_fills: Option<Values>,
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
            spare: Spare::default(),
            copied_fills,
        })
    }

    /// Notes a fill of `size` bytes that was enqueued, or may have been although the driver returned an error.
    #[inline]
    fn note_fill(&self, stream: RawStream, size: u64) {
        if size < V::OVERTAKEN_FILLS {
            self.unfenced.add(stream.get());
        }
    }

    /// Orders later signals after the stream's fills, on drivers whose signals overtake them.
    ///
    /// # Safety
    /// The stream is live.
    #[inline(always)]
    unsafe fn fence_fills(&self, stream: RawStream) -> Result<()> {
        if V::OVERTAKEN_FILLS == 0 || self.unfenced.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.fence_noted_fills(stream) }
    }

    /// The rest of [`fence_fills`](Self::fence_fills), called only while some stream has unfenced fills.
    ///
    /// # Safety
    /// The stream is live.
    #[inline(never)]
    unsafe fn fence_noted_fills(&self, stream: RawStream) -> Result<()> {
        if let Some(fill) = self.unfenced.last(stream.get()) {
            let (driver, _current) = self.context.enter_to_enqueue()?;
            // SAFETY: the caller's promise; the device is current.
            unsafe { V::fence(driver, stream.get()) }?;
            self.unfenced.fenced(stream.get(), fill);
        }
        Ok(())
    }

    /// Enqueues the write of a word. On drivers where other streams do not see such writes, the host writes words of
    /// signal memory.
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

    fn allocations(&self) -> MutexGuard<'_, HashMap<usize, Arc<Allocation<V>>>> {
        lock(&self.allocations)
    }
}

impl<V: Vendor> Drop for VendorDevice<V> {
    fn drop(&mut self) {
        // Allocations whose free failed because the device could not be made current.
        let unfreed = std::mem::take(&mut *self.allocations());
        if self.context.abandoned.load(Ordering::Relaxed) && !unfreed.is_empty() {
            // Pending work may still use them.
            tracing::error!(allocations = unfreed.len(), "exportable memory of an abandoned device is leaked");
            std::mem::forget(unfreed);
            return;
        }
        if unfreed.is_empty() && self.copied_fills.is_none() && self.spare.is_empty() {
            return;
        }
        let entered = self.context.enter();
        drop(unfreed);
        let free_would_block = V::FREES_WAIT_FOR_STREAMS && self.context.abandoned.load(Ordering::Relaxed);
        match entered {
            Ok((driver, _current)) if !free_would_block => {
                self.spare.free(driver);
                if let Some(values) = &self.copied_fills {
                    // SAFETY: the streams of a dropped device are idle, by contract; the device is current.
                    unsafe { values.free(driver) };
                }
            }
            Err(error) if self.copied_fills.is_some() => copied_fill::report(&error),
            _ => {}
        }
    }
}
