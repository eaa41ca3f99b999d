//! Fences: a counter with the events that wait for it.

use std::sync::Mutex;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::System::Threading::SetEvent;
use windows::core::Result;

use super::os;

#[derive(Default)]
pub(crate) struct Counter(Mutex<(u64, Vec<(u64, isize)>)>);

impl Counter {
    pub(crate) fn new(value: u64) -> Self {
        Self(Mutex::new((value, Vec::new())))
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.lock().expect("no panic").0
    }

    /// Sets the value, and signals and forgets the events that waited for it.
    pub(crate) fn set(&self, value: u64) {
        let mut state = self.0.lock().expect("no panic");
        state.0 = value;
        state.1.retain(|(at, event)| {
            let waits = *at > value;
            if !waits {
                let event = HANDLE(std::ptr::with_exposed_provenance_mut(event.cast_unsigned()));
                // SAFETY: it is a duplicate of this object's own.
                unsafe { SetEvent(event) }.expect("an event");
                os::close(event);
            }
            waits
        });
    }

    /// As Windows does, this refers to the event itself, whatever becomes of the caller's handle.
    pub(crate) fn notify(&self, value: u64, event: HANDLE) -> Result<()> {
        let twin = os::duplicate(event)?;
        let mut state = self.0.lock().expect("no panic");
        state.1.push((value, twin.0.expose_provenance().cast_signed()));
        let present = state.0;
        drop(state);
        self.set(present);
        Ok(())
    }

    /// How many events wait.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().expect("no panic").1.len()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        for (_, event) in &self.0.get_mut().expect("no panic").1 {
            os::close(HANDLE(std::ptr::with_exposed_provenance_mut(event.cast_unsigned())));
        }
    }
}
