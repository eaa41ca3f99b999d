//! Values of fences of both Direct3D versions, and host waits for them.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result};
use windows::Win32::Graphics::Direct3D11::{ID3D11Device, ID3D11Fence};
use windows::Win32::Graphics::Direct3D12::{ID3D12Device, ID3D12Fence};
use windows::core::Interface;

use crate::handle::Checked;
use crate::hresult;
use crate::waiter::Event;

/// The value of every fence of a lost device. Signals with it are rejected.
pub(crate) const LOST: u64 = u64::MAX;

/// A fence, and its device, which has the reason for a device loss.
#[derive(Debug, Clone)]
pub(crate) enum Fence {
    D3d11 { fence: ID3D11Fence, device: ID3D11Device },
    D3d12 { fence: ID3D12Fence, device: ID3D12Device },
}

impl Fence {
    /// Returns the current value, or `DeviceLost`.
    pub(crate) fn value(&self) -> Result<u64> {
        let (operation, value) = match self {
            Self::D3d11 { fence, .. } => {
                // SAFETY: the fence is a live object; the call has no arguments.
                ("ID3D11Fence::GetCompletedValue", unsafe { fence.GetCompletedValue() })
            }
            Self::D3d12 { fence, .. } => {
                // SAFETY: as above.
                ("ID3D12Fence::GetCompletedValue", unsafe { fence.GetCompletedValue() })
            }
        };
        if value == LOST {
            return Err(hresult::lost(operation, self.removed_reason()));
        }
        Ok(value)
    }

    /// Name of the method that registers an event.
    fn notify_method(&self) -> &'static str {
        match self {
            Self::D3d11 { .. } => "ID3D11Fence::SetEventOnCompletion",
            Self::D3d12 { .. } => "ID3D12Fence::SetEventOnCompletion",
        }
    }

    /// The `HRESULT` of the device loss; 0 if the device reports none.
    fn removed_reason(&self) -> i32 {
        let result = match self {
            // SAFETY: the device is a live object; the call has no arguments.
            Self::D3d11 { device, .. } => unsafe { device.GetDeviceRemovedReason() },
            // SAFETY: as above.
            Self::D3d12 { device, .. } => unsafe { device.GetDeviceRemovedReason() },
        };
        result.map_or_else(|error| error.code().0, |()| 0)
    }

    /// Registers `event` to be signalled when the value is reached or the device is lost. The event may be closed
    /// earlier: the system holds a reference to the object.
    pub(crate) fn notify(&self, value: u64, event: &Event) -> Result<()> {
        let result = match self {
            // SAFETY: the fence is a live object, the event is open.
            Self::D3d11 { fence, .. } => unsafe { fence.SetEventOnCompletion(value, event.as_raw()) },
            // SAFETY: as above.
            Self::D3d12 { fence, .. } => unsafe { fence.SetEventOnCompletion(value, event.as_raw()) },
        };
        result.checked(self.notify_method())
    }

    /// Reports whether both are the same object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::D3d11 { fence: a, .. }, Self::D3d11 { fence: b, .. }) => a.as_raw() == b.as_raw(),
            (Self::D3d12 { fence: a, .. }, Self::D3d12 { fence: b, .. }) => a.as_raw() == b.as_raw(),
            _ => false,
        }
    }
}

/// Host waits for one fence.
#[derive(Debug)]
pub(crate) struct Counter {
    fence: Fence,
    /// Value and event of waits that timed out; the fence will still signal the events. A later wait for the same value
    /// reuses one, so repeated short waits leave one event pending rather than one each.
    pending: Mutex<Vec<(u64, Event)>>,
}

impl Counter {
    pub(crate) fn new(fence: Fence) -> Self {
        Self { fence, pending: Mutex::default() }
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    fn pending(&self) -> MutexGuard<'_, Vec<(u64, Event)>> {
        lock(&self.pending)
    }

    /// Blocks until the value is reached.
    pub(crate) fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let operation = self.fence.notify_method();
        check_value("ExportableFence::wait", value)?;
        let start = Instant::now();
        loop {
            let present = self.fence.value()?;
            if present >= value {
                return Ok(());
            }
            let rest = timeout.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return Err(Error::new(ErrorKind::Timeout, operation, hresult::TIMED_OUT)
                    .with_context("value", value)
                    .with_context("present", present));
            }
            let event = self.event(value, present)?;
            if !event.wait(rest)? {
                self.pending().push((value, event));
            }
        }
    }

    /// Returns an event that the fence signals at `value`, which is above the current value.
    fn event(&self, value: u64, present: u64) -> Result<Event> {
        let mut pending = self.pending();
        pending.retain(|(of, _)| *of > present);
        if let Some(found) = pending.iter().position(|(of, _)| *of == value) {
            return Ok(pending.swap_remove(found).1);
        }
        drop(pending);
        let event = Event::new()?;
        self.fence.notify(value, &event)?;
        Ok(event)
    }

    /// Rejects a value that is not above the current one.
    pub(crate) fn check_signal(&self, operation: &'static str, value: u64) -> Result<()> {
        check_value(operation, value)?;
        let present = self.fence.value()?;
        if value > present {
            return Ok(());
        }
        Err(Error::invalid(operation, "a fence value only increases; signal a greater value")
            .with_context("value", value)
            .with_context("present", present))
    }
}

/// Rejects [`LOST`].
pub(crate) fn check_value(operation: &'static str, value: u64) -> Result<()> {
    if value != LOST {
        return Ok(());
    }
    Err(Error::invalid(operation, "fences report the greatest value when the device is lost; use a smaller one")
        .with_context("value", value))
}
