//! Buffers.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use gpu_interop_core::handle::NvSciBufObject;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{
    ArrayShape, Error, ErrorKind, HostMapping, MemoryHandle, MemoryImport, MipmappedArrayDesc, NvSciBufProperties,
    Result,
};
use gpu_interop_driver::DriverFunction;

use super::Module;
use super::attributes::Permission;
use super::reconciled::BufferProperties;
use crate::error::{check, not_null, not_null_pointer};
use crate::sys::Handle;

struct Inner {
    raw: NonNull<c_void>,
    properties: BufferProperties,
    for_import: Arc<NvSciBufProperties>,
    names_gpus: bool,
    /// Held while the CPU reads or writes, so that copies within this process are not torn. Shared by all duplicates.
    cpu: Arc<Mutex<()>>,
    module: Arc<Module>,
}

// SAFETY: the library accepts the address from any thread.
unsafe impl Send for Inner {}
// SAFETY: NVIDIA documents the functions that take objects as safe to call from several threads. Devices and other
// processes may write the memory at any time; the CPU accesses it only through `HostMapping`, which allows that.
unsafe impl Sync for Inner {}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("raw", &self.raw).field("properties", &self.properties).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; handles and imports hold this, so that none is left.
        unsafe { (self.module.functions().obj_free)(self.raw.as_ptr().expose_provenance()) };
    }
}

/// A buffer (`NvSciBufObj`). Freed with its last clone and its last import.
#[derive(Debug, Clone)]
pub struct Buffer {
    inner: Arc<Inner>,
}

impl Buffer {
    /// `names_gpus` states whether one of the original attribute lists names a GPU.
    pub(crate) fn allocate(module: &Arc<Module>, list: Handle, names_gpus: bool) -> Result<Self> {
        const NAME: &str = "NvSciBufObjAlloc";
        let mut raw = 0;
        // SAFETY: the list is live while its owner is borrowed; the pointer is valid for the call.
        check(NAME, unsafe { module.functions().obj_alloc.traced(NAME, (list, &raw mut raw)) })?;
        Self::own(NAME, module, raw, names_gpus, Arc::default())
    }

    /// Takes ownership of an object and queries its properties.
    fn own(
        name: &'static str,
        module: &Arc<Module>,
        raw: Handle,
        names_gpus: bool,
        cpu: Arc<Mutex<()>>,
    ) -> Result<Self> {
        const NAME: &str = "NvSciBufObjGetAttrList";
        /// Frees the object on an early return.
        struct Freed<'a>(&'a Module, Handle);
        impl Drop for Freed<'_> {
            fn drop(&mut self) {
                // SAFETY: no other code has the object.
                unsafe { (self.0.functions().obj_free)(self.1) };
            }
        }
        let object = not_null(name, raw)?;
        let freed = Freed(module, raw);
        let mut list = 0;
        // SAFETY: the object is live; the pointer is valid for the call.
        check(NAME, unsafe { module.functions().obj_get_attr_list.traced(NAME, (raw, &raw mut list)) })?;
        not_null(NAME, list)?;
        // SAFETY: the list belongs to the object, which is live.
        let properties = unsafe { BufferProperties::of(module, list, names_gpus) }?;
        // SAFETY: as above.
        let for_import = unsafe { properties.for_import(module, list) }?;
        if properties.size() == 0 {
            return Err(Error::new(ErrorKind::Driver, NAME, "the library says that the buffer has 0 bytes"));
        }
        std::mem::forget(freed);
        Ok(Self {
            inner: Arc::new(Inner {
                raw: object,
                properties,
                for_import: for_import.into(),
                names_gpus,
                cpu,
                module: module.clone(),
            }),
        })
    }

    /// Duplicates the buffer as an object that only permits reads (`NvSciBufObjDupWithReducePerm`). A GPU that imports
    /// the duplicate cannot write.
    ///
    /// # Errors
    /// The library's error.
    pub fn read_only(&self) -> Result<Self> {
        const NAME: &str = "NvSciBufObjDupWithReducePerm";
        let (module, mut duplicate) = (&self.inner.module, 0);
        let function = module.functions().obj_dup_with_reduce_perm;
        // SAFETY: the object is live; the pointer is valid for the call.
        let result =
            unsafe { function.traced(NAME, (self.as_raw(), Permission::ReadOnly.as_raw(), &raw mut duplicate)) };
        check(NAME, result)?;
        Self::own(NAME, module, duplicate, self.inner.names_gpus, self.inner.cpu.clone())
    }

    /// The reconciled properties.
    #[must_use]
    pub fn properties(&self) -> &BufferProperties {
        &self.inner.properties
    }

    /// `true` if this object only permits reads (`NvSciBufGeneralAttrKey_ActualPerm`). The original of a duplicate may
    /// still permit writes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.inner.for_import.read_only
    }

    /// The properties that an import needs.
    #[must_use]
    pub fn for_import(&self) -> &NvSciBufProperties {
        &self.inner.for_import
    }

    /// The library's object (`NvSciBufObj`), valid while a clone, a handle or an import of `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.inner.raw.as_ptr().expose_provenance()
    }

    /// A handle for an import by a device. The handle, its clones and the driver's import keep the buffer alive. It
    /// contains the GPUs of the buffer and the permitted accesses: a GPU that no attribute list named is rejected, and
    /// so is every GPU if none was named.
    #[must_use]
    pub fn import_request(&self) -> MemoryImport {
        // SAFETY: the object is freed when the owner is dropped.
        let object = unsafe { NvSciBufObject::owned_by(self.inner.raw, self.inner.clone()) };
        let object = object.with_properties(self.inner.for_import.clone());
        // SAFETY: the handle is of an NvSciBuf object that the library allocated, and keeps it. The size is the
        // object's reconciled size. These objects are neither dedicated allocations nor a backend's own memory. A
        // device that the object was not created for is rejected by its properties.
        unsafe { MemoryImport::new(MemoryHandle::NvSciBuf(object), self.inner.properties.size()) }
    }

    /// Describes a plane of an image for a device: one mip level of two dimensions.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the plane does not exist, [`ErrorKind::Unsupported`] for a format that this
    /// version does not know; describe the array yourself in that case.
    pub fn array_desc(&self, plane: usize) -> Result<MipmappedArrayDesc> {
        const OPERATION: &str = "Buffer::array_desc";
        let planes = self.inner.properties.planes();
        let Some(found) = planes.get(plane) else {
            let error = Error::invalid(OPERATION, "the plane does not exist");
            return Err(error.with_context("plane", plane).with_context("planes", planes.len()));
        };
        let format = found.format.ok_or_else(|| Error::unsupported(OPERATION, "no array has this format"))?;
        let shape = ArrayShape::D2 { width: found.width.into(), height: found.height.into() };
        Ok(MipmappedArrayDesc::new(shape, format.array_format()?).with_offset(found.offset))
    }

    /// Reads with the CPU (`NvSciBufObjGetConstCpuPtr`), after flushing its caches if necessary. Wait for the device
    /// first: a concurrent write may be seen partially.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the range is not inside the buffer, or no list requested CPU access; otherwise
    /// the library's error.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        const NAME: &str = "NvSciBufObjGetConstCpuPtr";
        const OPERATION: &str = "Buffer::read";
        self.check_range(OPERATION, offset, target.len())?;
        let _held = lock(&self.inner.cpu);
        let mut base = std::ptr::null();
        let function = self.inner.module.functions().obj_get_const_cpu_ptr;
        // SAFETY: the object is live; the pointer is valid for the call.
        check(NAME, unsafe { function.traced(NAME, (self.as_raw(), &raw mut base)) })?;
        let base = not_null_pointer(NAME, base.cast_mut())?.cast();
        // After the pointer was obtained: the header permits a flush to fail for an object that is not mapped for the
        // CPU, and does not state when it is mapped.
        self.flush(offset, target.len())?;
        // SAFETY: the library maps as many bytes as the buffer has, as long as the object lives; they are only read
        // here.
        let mapping = unsafe { HostMapping::new(base, self.inner.properties.size()) };
        mapping.read(OPERATION, offset, target)
    }

    /// Writes with the CPU (`NvSciBufObjGetCpuPtr`), and flushes its caches if necessary. Wait for the device first: a
    /// concurrent read may see any part of the data, and of two concurrent writes either may remain.
    ///
    /// # Errors
    /// As for [`Buffer::read`], and [`ErrorKind::InvalidArgument`] if only reads are permitted.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        const NAME: &str = "NvSciBufObjGetCpuPtr";
        const OPERATION: &str = "Buffer::write";
        if self.is_read_only() {
            return Err(Error::invalid(OPERATION, "the buffer is read-only; write to the original of the duplicate"));
        }
        self.check_range(OPERATION, offset, source.len())?;
        let _held = lock(&self.inner.cpu);
        let mut base = std::ptr::null_mut();
        let function = self.inner.module.functions().obj_get_cpu_ptr;
        // SAFETY: the object is live; the pointer is valid for the call.
        check(NAME, unsafe { function.traced(NAME, (self.as_raw(), &raw mut base)) })?;
        let base = not_null_pointer(NAME, base)?.cast();
        // SAFETY: as in `read`, of an object that may be written.
        let mapping = unsafe { HostMapping::new(base, self.inner.properties.size()) };
        mapping.write(OPERATION, offset, source)?;
        self.flush(offset, source.len())
    }

    /// Checked before the library is called, and also for empty ranges.
    fn check_range(&self, operation: &'static str, offset: u64, length: usize) -> Result<()> {
        let properties = &self.inner.properties;
        if !properties.has_cpu_access() {
            return Err(Error::invalid(operation, "no attribute list requested CPU access"));
        }
        let inside = length > 0 && offset.checked_add(length as u64).is_some_and(|end| end <= properties.size());
        if inside {
            return Ok(());
        }
        Err(Error::invalid(operation, "the range is empty or goes past the end")
            .with_context("offset", offset)
            .with_context("length", length)
            .with_context("size", format_args!("{} bytes", properties.size())))
    }

    fn flush(&self, offset: u64, length: usize) -> Result<()> {
        const NAME: &str = "NvSciBufObjFlushCpuCacheRange";
        if !self.inner.properties.cpu_needs_flush() {
            return Ok(());
        }
        let function = self.inner.module.functions().obj_flush;
        // SAFETY: the object is live, and the range inside it.
        check(NAME, unsafe { function.traced(NAME, (self.as_raw(), offset, length as u64)) })
    }
}
