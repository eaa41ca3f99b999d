//! Reconciled properties of a buffer.

use gpu_interop_core::{Error, ErrorKind, NvSciBufGpu, NvSciBufProperties, Result, Uuid};

use super::Module;
use super::image::ColorFormat;
use crate::list::{ListFunctions, get, get_if_known};
use crate::sys::buf::{self, GpuCache, GpuCompression, buffer_type, key, perm};
use crate::sys::{Handle, Plain};

/// One plane of a reconciled image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// Texels per row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Texel format; `None` for a format that this version does not know.
    pub format: Option<ColorFormat>,
    /// Offset in the buffer, in bytes.
    pub offset: u64,
    /// Bytes from one row to the next; for a block-linear plane, the library's value.
    pub pitch: u32,
    /// Number of rows that the plane occupies.
    pub aligned_height: u32,
    /// Number of bytes that the plane occupies.
    pub size: u64,
}

/// Reconciled properties of a buffer. Permissions are not included: each object has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferProperties {
    size: u64,
    alignment: u64,
    planes: Vec<Plane>,
    cpu_access: bool,
    cpu_needs_flush: bool,
    gpus: Vec<NvSciBufGpu>,
}

/// Reads one list.
struct Reader<'a> {
    functions: ListFunctions,
    list: Handle,
    module: &'a Module,
}

impl Reader<'_> {
    fn all<T: Plain>(&self, key: u32) -> Result<Vec<T>> {
        // SAFETY: every constructor of a reader requires a live list of this module.
        unsafe { get(self.functions, self.list, key) }
    }

    fn if_known<T: Plain>(&self, key: u32) -> Result<Vec<T>> {
        // SAFETY: as above.
        unsafe { get_if_known(self.functions, self.list, key) }
    }

    /// Reads a value that every reconciled list of this type has.
    fn one<T: Plain>(&self, key: u32) -> Result<T> {
        self.all(key)?.first().copied().ok_or_else(|| self.missing(key))
    }

    fn flag(&self, key: u32) -> Result<bool> {
        Ok(self.all::<u8>(key)?.first().is_some_and(|value| *value != 0))
    }

    fn missing(&self, key: u32) -> Error {
        let (name, _) = self.module.lists().get;
        Error::new(ErrorKind::Driver, name, "a reconciled list lacks an attribute that it must have")
            .with_context("attribute key", format_args!("{key:#x}"))
    }

    fn planes(&self) -> Result<Vec<Plane>> {
        let count = self.one::<u32>(key::IMAGE_PLANE_COUNT)? as usize;
        if count == 0 || count > buf::MAX_PLANES {
            return Err(self.missing(key::IMAGE_PLANE_COUNT).with_context("planes", count));
        }
        let (widths, heights) = (self.all::<u32>(key::IMAGE_PLANE_WIDTH)?, self.all::<u32>(key::IMAGE_PLANE_HEIGHT)?);
        let formats = self.all::<u32>(key::IMAGE_PLANE_COLOR_FORMAT)?;
        let (offsets, sizes) = (self.all(key::IMAGE_PLANE_OFFSET)?, self.all(key::IMAGE_PLANE_ALIGNED_SIZE)?);
        let (pitches, rows) = (self.all(key::IMAGE_PLANE_PITCH)?, self.all(key::IMAGE_PLANE_ALIGNED_HEIGHT)?);
        let plane = |index: usize| {
            Some(Plane {
                width: *widths.get(index)?,
                height: *heights.get(index)?,
                format: ColorFormat::from_raw(*formats.get(index)?),
                offset: *offsets.get(index)?,
                pitch: *pitches.get(index)?,
                aligned_height: *rows.get(index)?,
                size: *sizes.get(index)?,
            })
        };
        (0..count).map(|index| plane(index).ok_or_else(|| self.missing(key::IMAGE_PLANE_WIDTH))).collect()
    }

    /// `named` states whether an attribute list names a GPU. If none does, the library returns an invalid id here,
    /// whose value the header does not define.
    fn gpus(&self, named: bool) -> Result<Vec<NvSciBufGpu>> {
        if !named {
            return Ok(Vec::new());
        }
        let caches = self.if_known::<GpuCache>(key::ENABLE_GPU_CACHE)?;
        let coherencies = self.if_known::<GpuCache>(key::GPU_SW_NEED_CACHE_COHERENCY)?;
        let compressions = self.if_known::<GpuCompression>(key::ENABLE_GPU_COMPRESSION)?;
        let flag = |of: &[GpuCache], id: Uuid| {
            of.iter().find(|value| value.id == *id.as_bytes()).map(|value| value.cacheability != 0)
        };
        let compression = |id: Uuid| {
            let value = compressions.iter().find(|value| value.id == *id.as_bytes());
            value.map(|value| value.kind != buf::COMPRESSION_NONE)
        };
        let ids = self.all::<[u8; 16]>(key::GPU_ID)?.into_iter().filter_map(Uuid::from_bytes);
        Ok(ids
            .map(|id| NvSciBufGpu {
                id,
                cache: flag(&caches, id),
                needs_memsync: flag(&coherencies, id),
                compression: compression(id),
            })
            .collect())
    }
}

impl BufferProperties {
    /// Reads a reconciled list. `names_gpus` states whether one of the original lists names a GPU.
    ///
    /// # Safety
    /// The list is live, and of this module.
    pub(crate) unsafe fn of(module: &Module, list: Handle, names_gpus: bool) -> Result<Self> {
        let reader = Reader { functions: module.lists(), list, module };
        let is_image = reader.all::<u32>(key::TYPES)?.contains(&buffer_type::IMAGE);
        let (size, alignment) = if is_image {
            (reader.one(key::IMAGE_SIZE)?, reader.one(key::IMAGE_ALIGNMENT)?)
        } else {
            (reader.one(key::RAW_SIZE)?, reader.one(key::RAW_ALIGN)?)
        };
        let planes = if is_image { reader.planes()? } else { Vec::new() };
        Ok(Self {
            size,
            alignment,
            planes,
            cpu_access: reader.flag(key::NEED_CPU_ACCESS)?,
            cpu_needs_flush: reader.flag(key::CPU_NEED_SW_CACHE_COHERENCY)?,
            gpus: reader.gpus(names_gpus)?,
        })
    }

    /// The properties for the import of an object, with the accesses that its own list permits.
    ///
    /// # Safety
    /// As for [`BufferProperties::of`].
    pub(crate) unsafe fn for_import(&self, module: &Module, list: Handle) -> Result<NvSciBufProperties> {
        let reader = Reader { functions: module.lists(), list, module };
        // The buffer counts as read-only unless the library reports write permission.
        let read_only = reader.all::<u32>(key::ACTUAL_PERM)?.first().is_none_or(|actual| *actual != perm::READ_WRITE);
        let planes = u32::try_from(self.planes.len()).unwrap_or(u32::MAX);
        Ok(NvSciBufProperties { alignment: self.alignment, planes, read_only, gpus: self.gpus.clone() })
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Alignment of the first byte, in bytes.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The planes of an image; empty for a raw buffer.
    #[must_use]
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// `true` if the CPU of this process may access the buffer.
    #[must_use]
    pub fn has_cpu_access(&self) -> bool {
        self.cpu_access
    }

    /// `true` if the CPU's caches must be flushed before reads and after writes
    /// (`NvSciBufGeneralAttrKey_CpuNeedSwCacheCoherency`). [`Buffer::read`](super::Buffer::read) and
    /// [`Buffer::write`](super::Buffer::write) flush them. Always false without
    /// [`BufferAttributes::cpu_cache`](super::BufferAttributes::cpu_cache), because the CPU's accesses are not cached
    /// then.
    #[must_use]
    pub fn cpu_needs_flush(&self) -> bool {
        self.cpu_needs_flush
    }

    /// The properties granted to each named GPU. If it is empty, no GPU can import the buffer.
    #[must_use]
    pub fn gpus(&self) -> &[NvSciBufGpu] {
        &self.gpus
    }
}
