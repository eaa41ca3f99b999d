//! Windows' event log.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};

use windows_sys::Win32::System::EventLog::{
    EVT_HANDLE, EvtClose, EvtNext, EvtRender, EvtRenderEventXml, EvtSubscribe, EvtSubscribeToFutureEvents,
};
use windows_sys::Win32::System::Threading::CreateEventW;
use windows_sys::w;

/// Events read at once.
const EVENTS: u32 = 16;

/// An object of the event log.
#[derive(Debug)]
struct Object(EVT_HANDLE);

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's, and not used afterwards.
        unsafe { EvtClose(self.0) };
    }
}

/// New events of the channel `System`, to which drivers report errors and resets of GPUs.
#[derive(Debug)]
pub(in crate::evidence) struct EventLog {
    // Closed before the event that it sets.
    subscription: Object,
    _signal: OwnedHandle,
}

impl EventLog {
    /// Follows the events from now on (`EvtSubscribe`).
    ///
    /// # Errors
    /// The error of Windows, such as a lack of rights.
    pub(in crate::evidence) fn follow() -> std::io::Result<Self> {
        // SAFETY: the pointers may be null.
        let signal = unsafe { CreateEventW(null(), 1, 0, null()) };
        if signal.is_null() {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a new handle that nothing else owns.
        let signal = unsafe { OwnedHandle::from_raw_handle(signal) };
        // SAFETY: the event lives longer than the subscription; the strings end with NUL. There is neither a session, a
        // bookmark nor a callback.
        let subscription = unsafe {
            EvtSubscribe(0, signal.as_raw_handle(), w!("System"), w!("*"), 0, null(), None, EvtSubscribeToFutureEvents)
        };
        if subscription == 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { subscription: Object(subscription), _signal: signal })
    }

    /// The events since the last call, as documents of XML (`EvtNext`, `EvtRender`).
    pub(in crate::evidence) fn read(&mut self) -> Vec<String> {
        let mut documents = Vec::new();
        loop {
            let (mut handles, mut count) = ([0; EVENTS as usize], 0);
            // SAFETY: the array has this many elements, and both outlive the call. It does not wait.
            let any = unsafe { EvtNext(self.subscription.0, EVENTS, handles.as_mut_ptr(), 0, 0, &raw mut count) };
            if any == 0 {
                return documents;
            }
            let events: Vec<Object> = handles.into_iter().take(count as usize).map(Object).collect();
            documents.extend(events.iter().filter_map(render));
            if events.is_empty() {
                return documents;
            }
        }
    }
}

/// An event as a document; `None` if Windows cannot render it.
fn render(event: &Object) -> Option<String> {
    let (mut used, mut properties) = (0, 0);
    let call = |buffer: *mut c_void, size: u32, used: &mut u32, properties: &mut u32| {
        // SAFETY: the event is live; the buffer has this size in bytes, and all outlive the call.
        unsafe { EvtRender(0, event.0, EvtRenderEventXml, size, buffer, used, properties) }
    };
    // Fails, with the size of the document.
    call(null_mut(), 0, &mut used, &mut properties);
    let mut text = vec![0_u16; used.div_ceil(2) as usize];
    let size = u32::try_from(2 * text.len()).ok()?;
    if call(text.as_mut_ptr().cast(), size, &mut used, &mut properties) == 0 {
        return None;
    }
    let end = text.iter().position(|unit| *unit == 0).unwrap_or(text.len());
    Some(String::from_utf16_lossy(&text[..end]))
}
