//! Fences of both versions of Direct3D: their values, and waiting for them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpu_interop_core::{Error, ErrorKind, Result};
use windows::Win32::Graphics::Direct3D11::{ID3D11Device, ID3D11Fence};
use windows::Win32::Graphics::Direct3D12::{ID3D12Device, ID3D12Fence};
use windows::core::Interface;

use crate::event::Event;
use crate::handle::Checked;
use crate::hresult;

/// What a fence answers once its device is lost, and so a value that none is signalled with.
pub(crate) const LOST: u64 = u64::MAX;

/// A fence, and the device that knows why it was lost.
#[derive(Debug, Clone)]
pub(crate) enum Fence {
    D3d11 { fence: ID3D11Fence, device: ID3D11Device },
    D3d12 { fence: ID3D12Fence, device: ID3D12Device },
}

impl Fence {
    /// The value that it has reached, or that its device is lost.
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

    /// The method by which it signals events.
    fn notifies_by(&self) -> &'static str {
        match self {
            Self::D3d11 { .. } => "ID3D11Fence::SetEventOnCompletion",
            Self::D3d12 { .. } => "ID3D12Fence::SetEventOnCompletion",
        }
    }

    /// Why the device is lost; 0 if it does not say.
    fn removed_reason(&self) -> i32 {
        let answer = match self {
            // SAFETY: the device is a live object; the call has no arguments.
            Self::D3d11 { device, .. } => unsafe { device.GetDeviceRemovedReason() },
            // SAFETY: as above.
            Self::D3d12 { device, .. } => unsafe { device.GetDeviceRemovedReason() },
        };
        answer.map_or_else(|error| error.code().0, |()| 0)
    }

    /// Has `event` signalled once the value is reached, or the device is lost. The event may be closed before: the
    /// system refers to the object behind the handle.
    pub(crate) fn notify(&self, value: u64, event: &Event) -> Result<()> {
        let answer = match self {
            // SAFETY: the fence is a live object, the event is open.
            Self::D3d11 { fence, .. } => unsafe { fence.SetEventOnCompletion(value, event.as_raw()) },
            // SAFETY: as above.
            Self::D3d12 { fence, .. } => unsafe { fence.SetEventOnCompletion(value, event.as_raw()) },
        };
        answer.checked(self.notifies_by())
    }

    /// Whether both are one object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::D3d11 { fence: a, .. }, Self::D3d11 { fence: b, .. }) => a.as_raw() == b.as_raw(),
            (Self::D3d12 { fence: a, .. }, Self::D3d12 { fence: b, .. }) => a.as_raw() == b.as_raw(),
            _ => false,
        }
    }
}

/// A fence that the host waits for.
#[derive(Debug)]
pub(crate) struct Counter {
    fence: Fence,
    /// Events of waits that ran out of time, which the fence will still signal. A later wait for the value takes one
    /// up, so that waiting in short turns leaves one event behind, not one for each turn.
    left: Mutex<Vec<(u64, Event)>>,
}

impl Counter {
    pub(crate) fn new(fence: Fence) -> Self {
        Self { fence, left: Mutex::default() }
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    fn left(&self) -> MutexGuard<'_, Vec<(u64, Event)>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until the value is reached.
    pub(crate) fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let operation = self.fence.notifies_by();
        check_value("ExportableFence::wait", value)?;
        let start = Instant::now();
        loop {
            let present = self.fence.value()?;
            if present >= value {
                return Ok(());
            }
            let rest = timeout.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return Err(Error::new(ErrorKind::Timeout, operation, "the wait ran out of time")
                    .with_context("value", value)
                    .with_context("present", present));
            }
            let event = self.event(value, present)?;
            if !event.wait(rest)? {
                self.left().push((value, event));
            }
        }
    }

    /// An event that the fence signals at `value`, which it has not reached.
    fn event(&self, value: u64, present: u64) -> Result<Event> {
        let mut left = self.left();
        left.retain(|(of, _)| *of > present);
        if let Some(found) = left.iter().position(|(of, _)| *of == value) {
            return Ok(left.swap_remove(found).1);
        }
        drop(left);
        let event = Event::new()?;
        self.fence.notify(value, &event)?;
        Ok(event)
    }

    /// Refuses what is not above the present value.
    pub(crate) fn check_signal(&self, operation: &'static str, value: u64) -> Result<()> {
        check_value(operation, value)?;
        let present = self.fence.value()?;
        if value > present {
            return Ok(());
        }
        Err(Error::invalid(operation, "a fence only goes up")
            .with_context("value", value)
            .with_context("present", present))
    }
}

/// Refuses the value that tells of a lost device.
pub(crate) fn check_value(operation: &'static str, value: u64) -> Result<()> {
    if value != LOST {
        return Ok(());
    }
    Err(Error::invalid(
        operation,
        "the greatest value is what a fence answers once the device is lost; use a lesser one",
    )
    .with_context("value", value))
}
