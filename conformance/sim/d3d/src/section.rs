//! Memory shared as a section.

use std::os::windows::io::{IntoRawHandle, OwnedHandle};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use windows::Win32::Foundation::HANDLE;
use windows::core::{PCWSTR, Result};

use crate::os::{self, View};
use crate::{E_INVALIDARG, E_NOTIMPL, faults};

const PAGE: usize = 4096;

/// Memory of whole pages.
#[derive(Debug)]
pub(crate) struct Section {
    state: RwLock<State>,
    length: usize,
    /// The number of its KMT handle, if any.
    kmt: Option<u32>,
}

#[derive(Debug)]
struct State {
    view: View,
    /// `None` if it has a name: the name ends with the last handle, which others own. Without a handle, a later section
    /// of that name cannot be distinguished from this one.
    handle: Option<OwnedHandle>,
    /// `true` if it can be shared.
    shared: bool,
}

impl State {
    fn new(handle: OwnedHandle, length: usize, shared: bool) -> Result<Self> {
        let view = View::new(os::raw(&handle), length)?;
        Ok(Self { view, handle: Some(handle), shared })
    }
}

impl Section {
    /// Creates a section of at least this size, zeroed.
    pub(crate) fn new(size: usize) -> Result<Self> {
        let length = pages(size)?;
        let handle = os::create_section(length, PCWSTR::null())?;
        Ok(Self { state: RwLock::new(State::new(handle, length, false)?), length, kmt: None })
    }

    /// As [`new`](Self::new), for memory that is never exported and therefore has no handle.
    pub(crate) fn private(size: usize) -> Result<Self> {
        let mut section = Self::new(size)?;
        section.state.get_mut().unwrap_or_else(PoisonError::into_inner).handle = None;
        Ok(section)
    }

    /// As [`new`](Self::new), with a KMT handle.
    pub(crate) fn with_kmt_handle(size: usize) -> Result<Self> {
        let length = pages(size)?;
        let process = std::process::id() << 12;
        // The maximum number of KMT handles of a process.
        for counter in 1..1 << 12 {
            let number = process | counter;
            let name = wide(&format!(r"Local\gpu-interop-sim-kmt-{number:x}"));
            let Ok(handle) = os::create_section(length, PCWSTR(name.as_ptr())) else { continue };
            return Ok(Self { state: RwLock::new(State::new(handle, length, true)?), length, kmt: Some(number) });
        }
        Err(E_NOTIMPL.into())
    }

    /// Opens another module's section.
    pub(crate) fn open(handle: HANDLE) -> Result<Self> {
        let state = State::new(os::duplicate(handle)?, 0, true)?;
        let length = state.view.length();
        Ok(Self { state: RwLock::new(state), length, kmt: None })
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn kmt(&self) -> Option<u32> {
        self.kmt
    }

    /// `true` if others may change it.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).shared
    }

    /// Calls a function with the first byte's address. It must be short: naming the section waits for it.
    pub(crate) fn with<T>(&self, run: impl FnOnce(*mut u8) -> T) -> T {
        run(self.state.read().unwrap_or_else(PoisonError::into_inner).view.base())
    }

    /// A new handle, owned by the caller. A section gets its name when it is created, so a section that was shared
    /// already cannot be named.
    pub(crate) fn share(&self, name: PCWSTR) -> Result<HANDLE> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let handle = if name.is_null() { state.share()? } else { state.name(self.length, name)? };
        static EXPORTS: AtomicU32 = AtomicU32::new(0);
        if faults::wanted(faults::LEAK_HANDLE) && EXPORTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(50) {
            std::mem::forget(os::duplicate(os::raw(&handle))?);
        }
        Ok(HANDLE(handle.into_raw_handle()))
    }
}

impl State {
    fn share(&mut self) -> Result<OwnedHandle> {
        let Some(handle) = &self.handle else {
            eprintln!("the simulator cannot share a named object again");
            return Err(E_NOTIMPL.into());
        };
        self.shared = true;
        os::duplicate(os::raw(handle))
    }

    /// Returns a new handle, with a name.
    fn name(&mut self, length: usize, name: PCWSTR) -> Result<OwnedHandle> {
        let handle = os::create_section(length, name)?;
        if self.shared {
            eprintln!("the simulator cannot name an object that it has shared without a name");
            return Err(E_NOTIMPL.into());
        }
        let view = View::new(os::raw(&handle), length)?;
        // SAFETY: both views have that size and do not overlap; neither has another user.
        unsafe { view.base().copy_from_nonoverlapping(self.view.base(), length) };
        self.view = view;
        (self.handle, self.shared) = (None, true);
        Ok(handle)
    }
}

/// The size rounded up to whole pages, at least one.
fn pages(size: usize) -> Result<usize> {
    Ok(size.max(1).checked_next_multiple_of(PAGE).ok_or(E_INVALIDARG)?)
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// A range of a section, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) section: Arc<Section>,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

impl Part {
    /// Calls `run` with the address of a range.
    ///
    /// # Panics
    /// If the range is not inside.
    pub(crate) fn with<T>(&self, offset: usize, size: usize, run: impl FnOnce(*mut u8) -> T) -> T {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.size);
        assert!(inside, "{size} bytes from {offset} of a resource of {} bytes", self.size);
        // SAFETY: this range is inside of its section, and the requested one inside of this one.
        self.section.with(|base| run(unsafe { base.add(self.offset + offset) }))
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) {
        // SAFETY: the range has that many bytes; only devices access their content.
        self.with(offset, data.len(), |to| unsafe { to.copy_from(data.as_ptr(), data.len()) });
    }

    /// Copies rows of `size` bytes from one range to another, possibly of the same section. The locks are taken in
    /// sequence, because a lock cannot be taken twice.
    pub(crate) fn copy(from: (&Self, usize), to: (&Self, usize), size: usize) {
        let skip = usize::from(faults::wanted(faults::SHORT_COPY)).min(size);
        let mut data = vec![0_u8; size];
        // SAFETY: as many bytes are there.
        from.0.with(from.1, size, |from| unsafe { data.as_mut_ptr().copy_from(from, size) });
        to.0.write(to.1 + skip, &data[skip..]);
    }
}
