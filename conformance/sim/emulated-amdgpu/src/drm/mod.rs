//! Ioctls of the render nodes: buffer objects, contexts and their submissions, syncobjs, and the properties of a GPU as
//! amdgpu reports them.

mod context;
mod gem;
mod info;
mod submit;
mod syncobj;
mod table;
#[cfg(test)]
mod tests;
mod wait;

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use rustix::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::abi::drm::{
    CAP_MONOTONIC_TIMESTAMPS, CAP_PRIME, CAP_SYNCOBJ, CAP_SYNCOBJ_TIMELINE, Client, GetCap, Version, VmOperation,
};
use crate::abi::{Result, drm as number, edit, request_number, write_user};
use crate::drm::context::Context;
pub(crate) use crate::drm::info::{GB_ADDR_CONFIG, RENDER_BACKENDS};
use crate::drm::table::Table;
use crate::emulation::{Emulation, File};
use crate::gpu::Gpu;
use crate::lock;
use crate::memory::Storage;
use crate::sync::Syncobj;

/// Executes an ioctl of a GPU's render node.
///
/// # Safety
///
/// `argument` is valid for the request, as the caller of `ioctl` guarantees.
pub(crate) unsafe fn ioctl(
    emulation: &'static Emulation,
    file: &File,
    gpu: usize,
    request: u64,
    argument: *mut c_void,
) -> Result<()> {
    let number = request_number(request);
    let name = number::name(number).unwrap_or_else(|| format!("drm-{number:#04x}"));
    emulation.ioctl(&name, || {
        let gpu = emulation.gpus.get(gpu).ok_or(Errno::NODEV)?;
        // SAFETY: the caller's promise.
        unsafe { dispatch(Caller { emulation, file, gpu }, request, argument) }
    })
}

/// # Safety
///
/// As for [`ioctl`].
unsafe fn dispatch(caller: Caller<'_>, request: u64, argument: *mut c_void) -> Result<()> {
    macro_rules! call {
        ($function:path) => {
            // SAFETY: the caller's promise.
            unsafe { edit(request, argument, |value| $function(caller, value)) }
        };
    }
    match request_number(request) {
        number::VERSION => call!(version),
        number::GET_CLIENT => call!(client),
        number::GET_CAP => call!(capability),
        number::INFO => call!(info::info),
        number::GEM_CREATE => call!(gem::create),
        number::GEM_USERPTR => call!(gem::userptr),
        number::GEM_CLOSE => call!(gem::close),
        number::GEM_MMAP => call!(gem::mmap_offset),
        number::GEM_VA => call!(gem::address),
        number::GEM_WAIT_IDLE => call!(gem::wait_idle),
        number::GEM_METADATA => call!(gem::metadata),
        number::GEM_OP => call!(gem::operation),
        number::PRIME_FD_TO_HANDLE => call!(gem::import),
        number::PRIME_HANDLE_TO_FD => call!(gem::export),
        number::CTX => call!(context::operation),
        number::BO_LIST => call!(submit::list),
        number::CS => call!(submit::submit),
        number::WAIT_CS => call!(wait::submission),
        number::WAIT_FENCES => call!(wait::fences),
        number::FENCE_TO_HANDLE => call!(wait::to_handle),
        number::VM => call!(vm),
        // For the owner of the display only.
        number::SCHED => Err(Errno::ACCESS),
        number::SYNCOBJ_CREATE => call!(syncobj::create),
        number::SYNCOBJ_DESTROY => call!(syncobj::destroy),
        number::SYNCOBJ_HANDLE_TO_FD => call!(syncobj::export),
        number::SYNCOBJ_FD_TO_HANDLE => call!(syncobj::import),
        number::SYNCOBJ_WAIT => call!(syncobj::wait),
        number::SYNCOBJ_RESET => call!(syncobj::reset),
        number::SYNCOBJ_SIGNAL => call!(syncobj::signal),
        number::SYNCOBJ_TIMELINE_WAIT => call!(syncobj::timeline_wait),
        number::SYNCOBJ_QUERY => call!(syncobj::query),
        number::SYNCOBJ_TRANSFER => call!(syncobj::transfer),
        number::SYNCOBJ_TIMELINE_SIGNAL => call!(syncobj::timeline_signal),
        number::SYNCOBJ_EVENTFD => call!(syncobj::eventfd),
        _ => Err(Errno::NOTTY),
    }
}

fn version(_: Caller<'_>, value: &mut Version) -> Result<()> {
    (value.major, value.minor, value.patch) = (3, 54, 0);
    for ([length, address], text) in value.texts.iter_mut().zip(["amdgpu", "20150101", "AMD GPU"]) {
        let room = *length;
        for (at, byte) in (*address..).zip(text.bytes()).take(usize::try_from(room).unwrap_or(0)) {
            if *address != 0 {
                // SAFETY: the caller of the ioctl passes a buffer of the stated size.
                unsafe { write_user(at, byte)? };
            }
        }
        *length = text.len() as u64;
    }
    Ok(())
}

/// Every user that opens a render node counts as authenticated.
fn client(_: Caller<'_>, value: &mut Client) -> Result<()> {
    value.authenticated = 1;
    Ok(())
}

fn capability(_: Caller<'_>, value: &mut GetCap) -> Result<()> {
    value.value = match value.capability {
        // Import and export.
        CAP_PRIME => 3,
        CAP_MONOTONIC_TIMESTAMPS | CAP_SYNCOBJ | CAP_SYNCOBJ_TIMELINE => 1,
        _ => 0,
    };
    Ok(())
}

/// Reserves or frees a number of the hardware for the address space, which has no effect here.
fn vm(_: Caller<'_>, value: &mut VmOperation) -> Result<()> {
    if !(1..=2).contains(&value.operation) {
        return Err(Errno::INVAL);
    }
    (value.operation, value.flags) = (0, 0);
    Ok(())
}

/// The open file of an ioctl, and the GPU of its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    emulation: &'static Emulation,
    file: &'a File,
    gpu: &'static Gpu,
}

impl Caller<'_> {
    fn object(self, handle: u32) -> Result<Arc<Storage>> {
        lock(&self.file.handles.objects).get(handle).map(Arc::clone).ok_or(Errno::NOENT)
    }

    /// The handle of an object: the existing one, or a new one.
    fn handle_of(self, storage: Arc<Storage>) -> Result<u32> {
        let mut objects = lock(&self.file.handles.objects);
        match objects.find(|known| Arc::ptr_eq(known, &storage)) {
            Some(handle) => Ok(handle),
            None => objects.insert(storage),
        }
    }

    fn context(self, id: u32) -> Result<Arc<Context>> {
        lock(&self.file.handles.contexts).get(id).map(Arc::clone).ok_or(Errno::INVAL)
    }

    fn syncobj(self, handle: u32) -> Result<Arc<Syncobj>> {
        lock(&self.file.handles.syncobjs).get(handle).map(Arc::clone).ok_or(Errno::NOENT)
    }

    fn new_syncobj(self, syncobj: Arc<Syncobj>) -> Result<u32> {
        lock(&self.file.handles.syncobjs).insert(syncobj)
    }
}

/// A descriptor that an ioctl returns.
fn returned(file: OwnedFd, flags: u32) -> Result<i32> {
    if flags & OFlags::CLOEXEC.bits() == 0 {
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    }
    Ok(file.into_raw_fd())
}

/// A descriptor that the application passes.
fn passed<'a>(number: i32) -> Result<BorrowedFd<'a>> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is used during this call only; if it is closed, its uses fail.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// The handles of an open file.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    objects: Mutex<Table<Arc<Storage>>>,
    contexts: Mutex<Table<Arc<Context>>>,
    syncobjs: Mutex<Table<Arc<Syncobj>>>,
    /// Lists of objects for submissions.
    lists: Mutex<Table<Vec<Arc<Storage>>>>,
}

/// Numbers of handles, for reports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) objects: usize,
    pub(crate) contexts: usize,
    pub(crate) syncobjs: usize,
}

impl Handles {
    pub(crate) fn held(&self) -> Held {
        Held {
            objects: lock(&self.objects).len(),
            contexts: lock(&self.contexts).len(),
            syncobjs: lock(&self.syncobjs).len(),
        }
    }
}
