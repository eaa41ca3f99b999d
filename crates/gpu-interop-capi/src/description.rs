//! What the structures that describe an import share: who owns their handle, and what an import or a close does with it.

use std::ffi::c_void;

use gpu_interop::handle::HandleType;
use gpu_interop::{Device, DeviceIdentity, Result};

use crate::handle::gpi_device;
use crate::identity::gpi_identity;
use crate::import_memory::GPI_IMPORT_HAS_EXPORTER;
use crate::object::{self, Handle};
use crate::os_handle::{OsHandle, close_fd};
use crate::pointer::{self, Out};

/// A structure that describes an import.
pub(crate) trait Description: Copy {
    /// Type of the handle's object, if the kind is known. The structure owns descriptors and NT handles.
    fn handle_type(&self) -> Option<HandleType>;
    fn os_handle(&self, operation: &'static str) -> OsHandle;
    /// The fields `fd` and `object`.
    fn fields(&mut self) -> (&mut i32, &mut *mut c_void);

    /// Removes the handle, which has another owner now.
    fn clear(&mut self) {
        let named = !self.os_handle("").name.is_null();
        let handle_type = self.handle_type();
        let (fd, object) = self.fields();
        *fd = -1;
        if handle_type == Some(HandleType::Win32) && !named {
            *object = std::ptr::null_mut();
        }
    }
}

/// The exporting device of a structure with these flags.
pub(crate) fn exporter(operation: &'static str, flags: u32, device: &gpi_identity) -> Result<Option<DeviceIdentity>> {
    if flags & GPI_IMPORT_HAS_EXPORTER == 0 { Ok(None) } else { device.checked(operation).map(Some) }
}

/// Imports what `*description` describes, by `run`, and writes the new handle to `*out`, whose name is `name`. On success,
/// the description loses its handle.
///
/// # Safety
/// Both pointers are null, misaligned, or valid for reads and writes.
pub(crate) unsafe fn import<D: Description, H: Handle>(
    operation: &'static str,
    device: gpi_device,
    description: *mut D,
    (name, out): (&'static str, *mut H),
    run: impl FnOnce(&Device, &D) -> Result<H::Object>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let out = unsafe { Out::new(operation, name, out) }?;
    // SAFETY: the caller's promise; the structure has no invalid bytes.
    let mut value = unsafe { pointer::read(operation, "import", description) }?;
    // SAFETY: the caller's promise.
    let back = unsafe { Out::new(operation, "import", description) }?;
    let imported = run(&*object::get(operation, device)?, &value)?;
    value.clear();
    back.set(value);
    out.set(object::add(imported));
    Ok(())
}

/// Closes the handle of `*description`, if it owns one.
///
/// # Safety
/// The pointer is null, misaligned, or valid for reads and writes. The handle is open, or there is none, and nothing else
/// closes it.
pub(crate) unsafe fn close<D: Description>(operation: &'static str, description: *mut D) -> Result<()> {
    // SAFETY: the caller's promise; the structure has no invalid bytes.
    let mut value = unsafe { pointer::read(operation, "import", description) }?;
    // SAFETY: the caller's promise.
    let back = unsafe { Out::new(operation, "import", description) }?;
    let source = OsHandle { name: std::ptr::null(), ..value.os_handle(operation) };
    match value.handle_type() {
        Some(HandleType::Fd) if source.fd >= 0 => {
            // SAFETY: the caller's promise.
            close_fd(unsafe { source.fd() }?);
            *value.fields().0 = -1;
        }
        Some(HandleType::Win32) if !source.object.is_null() => {
            // SAFETY: the caller's promise.
            drop(unsafe { source.win32() }?);
            *value.fields().1 = std::ptr::null_mut();
        }
        _ => {}
    }
    back.set(value);
    Ok(())
}
