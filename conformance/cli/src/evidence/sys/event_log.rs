//! Windows' event log.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{ERROR_INVALID_OPERATION, ERROR_NO_MORE_ITEMS, GetLastError};
use windows_sys::Win32::System::EventLog::{
    EVT_HANDLE, EvtClose, EvtNext, EvtRender, EvtRenderEventXml, EvtSubscribe, EvtSubscribeToFutureEvents,
};
use windows_sys::Win32::System::Threading::CreateEventW;
use windows_sys::w;

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
    /// `None` once Windows ended it, and did not begin another.
    subscription: Option<Subscription>,
}

#[derive(Debug)]
struct Subscription {
    // Closed before the event that it sets.
    object: Object,
    _signal: OwnedHandle,
}

/// An entry of the log, or a gap.
#[derive(Debug)]
pub(in crate::evidence) enum Entry {
    /// An event, as a document of XML.
    Event(String),
    /// Windows has events that cannot be read, as after the log was cleared.
    Lost,
}

impl EventLog {
    /// Follows the events from now on.
    ///
    /// # Errors
    /// The error of Windows, such as a lack of rights.
    pub(in crate::evidence) fn follow() -> std::io::Result<Self> {
        Ok(Self { subscription: Some(Subscription::begin()?) })
    }

    /// The events since the last call.
    pub(in crate::evidence) fn read(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(subscription) = &self.subscription {
            match subscription.next() {
                Ok(Some(event)) => entries.push(render(&event).map_or(Entry::Lost, Entry::Event)),
                Ok(None) => break,
                Err(()) => {
                    entries.push(Entry::Lost);
                    self.subscription = Subscription::begin().ok();
                    break;
                }
            }
        }
        entries
    }
}

impl Subscription {
    /// `EvtSubscribe`.
    fn begin() -> std::io::Result<Self> {
        // SAFETY: the pointers may be null.
        let signal = unsafe { CreateEventW(null(), 1, 0, null()) };
        if signal.is_null() {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a new handle that nothing else owns.
        let signal = unsafe { OwnedHandle::from_raw_handle(signal) };
        // SAFETY: the event lives longer than the subscription; the strings end with NUL. There is neither a session, a
        // bookmark nor a callback.
        let object = unsafe {
            EvtSubscribe(0, signal.as_raw_handle(), w!("System"), w!("*"), 0, null(), None, EvtSubscribeToFutureEvents)
        };
        if object == 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { object: Object(object), _signal: signal })
    }

    /// The next event, if there is one (`EvtNext`). One at a time: Windows loses those of a call that are too long together.
    fn next(&self) -> Result<Option<Object>, ()> {
        let (mut event, mut count) = (0, 0);
        // SAFETY: there is room for one event, and both variables outlive the call. It does not wait.
        if unsafe { EvtNext(self.object.0, 1, &raw mut event, 0, 0, &raw mut count) } != 0 {
            return Ok(Some(Object(event)));
        }
        // SAFETY: the function has no requirements.
        match unsafe { GetLastError() } {
            // The second one is that of a subscription without new events.
            ERROR_NO_MORE_ITEMS | ERROR_INVALID_OPERATION => Ok(None),
            _ => Err(()),
        }
    }
}

/// An event as a document; `None` if Windows cannot render it (`EvtRender`).
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
