//! Memory that is shared as a section.

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
    /// The number of the KMT handle that it has, if it has one.
    kmt: Option<u32>,
}

#[derive(Debug)]
struct State {
    view: View,
    /// None if it has a name, which ends with the last handle: that is somebody else's. Without a handle, what has the name
    /// by then cannot be told from what had it first.
    handle: Option<OwnedHandle>,
    /// Whether others may have it.
    shared: bool,
}

impl State {
    fn new(handle: OwnedHandle, length: usize, shared: bool) -> Result<Self> {
        let view = View::new(os::raw(&handle), length)?;
        Ok(Self { view, handle: Some(handle), shared })
    }
}

impl Section {
    /// At least so many bytes, all 0.
    pub(crate) fn new(size: usize) -> Result<Self> {
        let length = pages(size)?;
        let handle = os::create_section(length, PCWSTR::null())?;
        Ok(Self { state: RwLock::new(State::new(handle, length, false)?), length, kmt: None })
    }

    /// As [`new`](Self::new), of which nobody gets a handle, and so there is none.
    pub(crate) fn private(size: usize) -> Result<Self> {
        let mut section = Self::new(size)?;
        section.state.get_mut().unwrap_or_else(PoisonError::into_inner).handle = None;
        Ok(section)
    }

    /// As [`new`](Self::new), with a KMT handle.
    pub(crate) fn with_kmt_handle(size: usize) -> Result<Self> {
        let length = pages(size)?;
        let process = std::process::id() << 12;
        // As many as a process may have at once.
        for counter in 1..1 << 12 {
            let number = process | counter;
            let name = wide(&format!(r"Local\gpu-interop-sim-kmt-{number:x}"));
            let Ok(handle) = os::create_section(length, PCWSTR(name.as_ptr())) else { continue };
            return Ok(Self { state: RwLock::new(State::new(handle, length, true)?), length, kmt: Some(number) });
        }
        Err(E_NOTIMPL.into())
    }

    /// What somebody else made.
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

    /// Whether others may change it.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).shared
    }

    /// Runs with the first byte's address. Not for long: who names the section waits.
    pub(crate) fn with<T>(&self, run: impl FnOnce(*mut u8) -> T) -> T {
        run(self.state.read().unwrap_or_else(PoisonError::into_inner).view.base())
    }

    /// A new handle, which is the caller's. A section gets its name when it is made, so that a name comes too late for what
    /// was shared already.
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
            eprintln!("the simulator cannot share what it has named once more");
            return Err(E_NOTIMPL.into());
        };
        self.shared = true;
        os::duplicate(os::raw(handle))
    }

    /// A new handle, with a name.
    fn name(&mut self, length: usize, name: PCWSTR) -> Result<OwnedHandle> {
        let handle = os::create_section(length, name)?;
        if self.shared {
            eprintln!("the simulator cannot name what it has shared without a name");
            return Err(E_NOTIMPL.into());
        }
        let view = View::new(os::raw(&handle), length)?;
        // SAFETY: both views are that long, and apart from each other; this is the only user of either.
        unsafe { view.base().copy_from_nonoverlapping(self.view.base(), length) };
        self.view = view;
        (self.handle, self.shared) = (None, true);
        Ok(handle)
    }
}

/// So many bytes in whole pages, and at least one.
fn pages(size: usize) -> Result<usize> {
    Ok(size.max(1).checked_next_multiple_of(PAGE).ok_or(E_INVALIDARG)?)
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// A part of a section, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) section: Arc<Section>,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

impl Part {
    /// The address of a range, for `run`.
    ///
    /// # Panics
    /// If the range is not inside.
    pub(crate) fn with<T>(&self, offset: usize, size: usize, run: impl FnOnce(*mut u8) -> T) -> T {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.size);
        assert!(inside, "{size} bytes from {offset} of a resource of {} bytes", self.size);
        // SAFETY: the part is inside of its section, and the range inside of the part.
        self.section.with(|base| run(unsafe { base.add(self.offset + offset) }))
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) {
        // SAFETY: as many bytes are there; what they hold is nobody's but the devices'.
        self.with(offset, data.len(), |to| unsafe { to.copy_from(data.as_ptr(), data.len()) });
    }

    /// Copies rows of `size` bytes from one part to another, which may be the same. Not all at once: a lock is not taken
    /// twice.
    pub(crate) fn copy(from: (&Self, usize), to: (&Self, usize), size: usize) {
        let skip = usize::from(faults::wanted(faults::SHORT_COPY)).min(size);
        let mut data = vec![0_u8; size];
        // SAFETY: as many bytes are there.
        from.0.with(from.1, size, |from| unsafe { data.as_mut_ptr().copy_from(from, size) });
        to.0.write(to.1 + skip, &data[skip..]);
    }
}
