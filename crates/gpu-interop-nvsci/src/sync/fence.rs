//! Fences.

use std::ptr::NonNull;
use std::sync::Arc;

use gpu_interop_core::handle::NvSciFence;
use gpu_interop_core::{Error, NvSciSyncUse, Result};
use gpu_interop_driver::DriverFunction;

use super::object::SyncObject;
use super::users::User;
use crate::error::{CLEARED_FENCE, check, missing};
use crate::sync::Module;
use crate::sys::sync;

/// A future point of an object (`NvSciSyncFence`), in memory of the caller. New fences are cleared; a signal fills a
/// fence, and waits read it. A filled fence keeps its object alive. Dropping a fence clears it (`NvSciSyncFenceClear`).
#[derive(Debug)]
pub struct Fence {
    /// Boxed, because drivers receive the address.
    payload: Box<sync::Fence>,
    /// The object that filled it.
    object: Option<SyncObject>,
    module: Arc<Module>,
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Fence {
    pub(crate) fn new(module: Arc<Module>) -> Self {
        Self { payload: Box::default(), object: None, module }
    }

    /// `true` if the fence is cleared.
    #[must_use]
    pub fn is_cleared(&self) -> bool {
        *self.payload == sync::Fence::default()
    }

    /// Clears the fence and releases its reference (`NvSciSyncFenceClear`).
    pub fn clear(&mut self) {
        if !self.is_cleared() {
            // SAFETY: the fence is zeroed, or was filled by the library, which keeps the object alive.
            unsafe { (self.module.functions().fence_clear)(&raw mut *self.payload) };
            // The library zeroes the fence, too; zeroing it here guarantees that a second clear releases nothing.
            *self.payload = sync::Fence::default();
        }
        self.object = None;
    }

    pub(crate) fn module(&self) -> &Arc<Module> {
        &self.module
    }

    pub(crate) fn as_raw(&self) -> *const sync::Fence {
        &raw const *self.payload
    }

    /// The address of the fence, for waits.
    ///
    /// # Safety
    /// Copies are used only while `self` is borrowed, and only for waits.
    pub(crate) unsafe fn lend(&self) -> NvSciFence {
        // SAFETY: the payload is valid while `self` is borrowed, and waits only read; the caller guarantees the rest.
        unsafe { NvSciFence::from_raw(NonNull::from(&*self.payload).cast()) }
    }

    /// The object that filled it, if any.
    #[must_use]
    pub fn object(&self) -> Option<&SyncObject> {
        self.object.as_ref()
    }

    /// Clears the fence and calls `call` to fill it for a point of `object`. After an error it stays cleared.
    pub(crate) fn fill(
        &mut self,
        operation: &'static str,
        object: &SyncObject,
        call: impl FnOnce(NonNull<sync::Fence>) -> Result<()>,
    ) -> Result<()> {
        self.clear();
        if !Arc::ptr_eq(&self.module, object.module()) {
            return Err(Error::invalid(operation, "the fence belongs to another module than the object"));
        }
        let filled = call(NonNull::from(&mut *self.payload));
        match &filled {
            Ok(()) => self.object = Some(object.clone()),
            Err(_) => self.clear(),
        }
        filled
    }

    /// Sets the fence to the point at which a deterministic object has the value `value` (`NvSciSyncFenceUpdateFence`).
    /// `id` is the number of the primitive, as [`Fence::id_and_value`] returns it; for primitives in memory it is 0.
    /// The previous content is cleared, even on failure.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for an object whose fences are not
    /// deterministic, or of another module, and for a value above [`SyncObject::greatest_value`];
    /// [`ErrorKind::SymbolMissing`](gpu_interop_core::ErrorKind::SymbolMissing) if the library lacks the function;
    /// otherwise the library's error.
    pub fn set(&mut self, object: &SyncObject, id: u64, value: u64) -> Result<()> {
        const NAME: &str = "NvSciSyncFenceUpdateFence";
        self.clear();
        if !object.has_deterministic_fences() {
            let message = "the object's value after the next signal is unknown; require deterministic fences";
            return Err(Error::invalid(NAME, message));
        }
        if let Some(greatest) = object.greatest_value()
            && value > greatest
        {
            let error =
                Error::invalid(NAME, "the object's primitive cannot hold the value; use a value up to the greatest");
            return Err(error.with_context("value", value).with_context("greatest", greatest));
        }
        let function = self.module.functions().fence_update.get().ok_or_else(|| missing(NAME))?;
        self.fill(NAME, object, |raw| {
            // SAFETY: the object is live; the fence is cleared, and valid for the call.
            check(NAME, unsafe { function.traced(NAME, (object.as_raw(), id, value, raw.as_ptr())) })
        })
    }

    /// The number of the primitive, and the value that signals the fence (`NvSciSyncFenceExtractFence`); `None` if it
    /// is cleared.
    ///
    /// # Errors
    /// [`ErrorKind::SymbolMissing`](gpu_interop_core::ErrorKind::SymbolMissing) if the library lacks the function;
    /// otherwise the library's error.
    pub fn id_and_value(&self) -> Result<Option<(u64, u64)>> {
        const NAME: &str = "NvSciSyncFenceExtractFence";
        let function = self.module.functions().fence_extract.get().ok_or_else(|| missing(NAME))?;
        let (mut id, mut value) = (0, 0);
        // SAFETY: all three pointers are valid for the call.
        let result = unsafe { function.traced(NAME, (self.as_raw(), &raw mut id, &raw mut value)) };
        if result.0 == CLEARED_FENCE {
            return Ok(None);
        }
        check(NAME, result).map(|()| Some((id, value)))
    }
}

impl SyncObject {
    /// Fills a fence with the next point that the CPU will signal (`NvSciSyncObjGenerateFence`), for objects that the
    /// CPU signals. The previous content of the fence is cleared, even on failure.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence of another module, and
    /// if no list requested signals by the CPU; otherwise the library's error.
    pub fn generate_fence(&self, fence: &mut Fence) -> Result<()> {
        const NAME: &str = "NvSciSyncObjGenerateFence";
        let function = self.module().functions().obj_generate_fence;
        fence.fill(NAME, self, |raw| {
            self.need(NAME, User::Cpu, NvSciSyncUse::SIGNAL)?;
            // SAFETY: the object is live; the fence is cleared, and valid for the call.
            check(NAME, unsafe { function.traced(NAME, (self.as_raw(), raw.as_ptr())) })
        })
    }
}
