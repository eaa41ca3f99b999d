//! Attributes that one user of a buffer requests.

use gpu_interop_core::{Error, Result, Uuid};

use super::image::ImageAttributes;
use crate::list::Value;
use crate::sys::buf::{self, GpuCache, GpuCompression, buffer_type, key, perm};

/// Permitted accesses to a buffer (`NvSciBufAttrValAccessPerm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Reads.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

impl Permission {
    pub(crate) fn as_raw(self) -> u32 {
        match self {
            Self::ReadOnly => perm::READONLY,
            Self::ReadWrite => perm::READ_WRITE,
        }
    }
}

/// A GPU that will use a buffer, with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuAttributes {
    id: Uuid,
    cache: Option<bool>,
    compression: bool,
}

impl GpuAttributes {
    /// The GPU with this UUID, as its driver reports it (`cuDeviceGetUuid`):
    /// [`DeviceIdentity::uuid`](gpu_interop_core::DeviceIdentity::uuid).
    #[must_use]
    pub fn new(id: Uuid) -> Self {
        Self { id, cache: None, compression: false }
    }

    /// Sets whether the GPU may cache the buffer (`NvSciBufGeneralAttrKey_EnableGpuCache`). The choice is valid only
    /// for an integrated GPU that is the buffer's only GPU; otherwise reconciliation fails. If several lists choose,
    /// all must enable the cache. Without a choice an integrated GPU caches system memory, and a discrete GPU caches
    /// only its own memory.
    #[must_use]
    pub fn cache(mut self, enabled: bool) -> Self {
        self.cache = Some(enabled);
        self
    }

    /// Sets whether the GPU should compress the buffer (`NvSciBufGeneralAttrKey_EnableGpuCompression` with
    /// `NvSciBufCompressionType_GenericCompressible`). The library grants no compression if several GPUs request it, or
    /// if the CPU or another engine uses the buffer.
    #[must_use]
    pub fn compression(mut self, requested: bool) -> Self {
        self.compression = requested;
        self
    }
}

/// Requirements of one user of a buffer: the contents of one attribute list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferAttributes {
    image: Option<ImageAttributes>,
    size: Option<u64>,
    alignment: Option<u64>,
    cpu_access: bool,
    cpu_cache: Option<bool>,
    permission: Permission,
    gpus: Vec<GpuAttributes>,
}

impl BufferAttributes {
    fn new(image: Option<ImageAttributes>) -> Self {
        let (permission, gpus) = (Permission::ReadWrite, Vec::new());
        Self { image, size: None, alignment: None, cpu_access: false, cpu_cache: None, permission, gpus }
    }

    /// A raw buffer (`NvSciBufType_RawBuffer`) for reads and writes, whose size another list sets.
    #[must_use]
    pub fn raw_of_any_size() -> Self {
        Self::new(None)
    }

    /// A raw buffer (`NvSciBufType_RawBuffer`) of `size` bytes for reads and writes.
    #[must_use]
    pub fn raw(size: u64) -> Self {
        Self { size: Some(size), ..Self::new(None) }
    }

    /// An image (`NvSciBufType_Image`) for reads and writes.
    #[must_use]
    pub fn image(image: ImageAttributes) -> Self {
        Self::new(Some(image))
    }

    /// Minimum alignment of a raw buffer's first byte, in bytes: a power of two. The alignment of an image is part of
    /// its planes.
    #[must_use]
    pub fn alignment(mut self, alignment: u64) -> Self {
        self.alignment = Some(alignment);
        self
    }

    /// Sets whether this process accesses the buffer with the CPU (`NvSciBufGeneralAttrKey_NeedCpuAccess`). If any list
    /// sets it, the library grants no GPU compression.
    #[must_use]
    pub fn cpu_access(mut self, needed: bool) -> Self {
        self.cpu_access = needed;
        self
    }

    /// Sets whether the CPU caches its accesses (`NvSciBufGeneralAttrKey_EnableCpuCache`). The cache is enabled if any
    /// list enables it; otherwise every CPU access goes to memory. With the cache
    /// [`BufferProperties::cpu_needs_flush`](super::BufferProperties::cpu_needs_flush) may be true.
    #[must_use]
    pub fn cpu_cache(mut self, enabled: bool) -> Self {
        self.cpu_cache = Some(enabled);
        self
    }

    /// The accesses that this user requires (`NvSciBufGeneralAttrKey_RequiredPerm`).
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permission = permission;
        self
    }

    /// Adds a GPU that will use the buffer (`NvSciBufGeneralAttrKey_GpuId`), of at most 16. A GPU that no list names
    /// cannot import the buffer.
    #[must_use]
    pub fn gpu(mut self, gpu: GpuAttributes) -> Self {
        self.gpus.push(gpu);
        self
    }

    /// `true` if this is a raw buffer whose size another list must set.
    pub(crate) fn is_of_any_size(&self) -> bool {
        self.image.is_none() && self.size.is_none()
    }

    /// Returns the values for a list. First checks for values that the library would reject without a reason.
    pub(crate) fn values(&self) -> Result<Vec<Value>> {
        const OPERATION: &str = "BufferAttributeList::new";
        if self.size == Some(0) {
            return Err(Error::invalid(OPERATION, "the size is 0"));
        }
        if let Some(alignment) = self.alignment
            && !alignment.is_power_of_two()
        {
            let error = Error::invalid(OPERATION, "the alignment must be a power of two");
            return Err(error.with_context("alignment", alignment));
        }
        if let Some(twice) = self.gpus.iter().enumerate().find(|(index, gpu)| {
            // The library accepts one value per GPU.
            self.gpus[..*index].iter().any(|other| other.id == gpu.id)
        }) {
            return Err(Error::invalid(OPERATION, "a GPU is named twice").with_context("GPU", twice.1.id));
        }
        if self.gpus.len() > buf::MAX_GPUS {
            let error = Error::invalid(OPERATION, format!("a list names at most {} GPUs", buf::MAX_GPUS));
            return Err(error.with_context("GPUs", self.gpus.len()));
        }
        if self.gpus.len() > 1 && self.gpus.iter().any(|gpu| gpu.cache.is_some()) {
            let message = "the cache of a GPU may be chosen only where it is the buffer's only GPU; leave `cache` out";
            return Err(Error::invalid(OPERATION, message).with_context("GPUs", self.gpus.len()));
        }
        let kind = if self.image.is_some() { buffer_type::IMAGE } else { buffer_type::RAW_BUFFER };
        let mut values = vec![
            // Set in this call or before: the library rejects keys of a type until the type is set.
            Value::u32(key::TYPES, kind),
            Value::bool(key::NEED_CPU_ACCESS, self.cpu_access),
            Value::u32(key::REQUIRED_PERM, self.permission.as_raw()),
        ];
        values.extend(self.cpu_cache.map(|enabled| Value::bool(key::ENABLE_CPU_CACHE, enabled)));
        match &self.image {
            Some(_) if self.alignment.is_some() => {
                return Err(Error::invalid(OPERATION, "an image's planes are aligned, not the image"));
            }
            Some(image) => values.extend(image.values(OPERATION)?),
            None => {
                values.extend(self.size.map(|size| Value::u64(key::RAW_SIZE, size)));
                values.extend(self.alignment.map(|alignment| Value::u64(key::RAW_ALIGN, alignment)));
            }
        }
        values.extend(self.gpu_values());
        Ok(values)
    }

    fn gpu_values(&self) -> Vec<Value> {
        let ids: Vec<u8> = self.gpus.iter().flat_map(|gpu| *gpu.id.as_bytes()).collect();
        let caches = self.gpus.iter().filter_map(|gpu| Some((gpu.id, gpu.cache?)));
        let caches: Vec<u8> = caches
            .map(|(id, cache)| GpuCache { id: *id.as_bytes(), cacheability: cache.into() })
            .flat_map(|GpuCache { id, cacheability }| id.into_iter().chain([cacheability]))
            .collect();
        // Absence of compression cannot be set: the library rejects it.
        let compressed = self.gpus.iter().filter(|gpu| gpu.compression);
        let compressions: Vec<u8> = compressed
            .map(|gpu| GpuCompression { id: *gpu.id.as_bytes(), kind: buf::COMPRESSION_GENERIC })
            .flat_map(|GpuCompression { id, kind }| id.into_iter().chain(kind.to_ne_bytes()))
            .collect();
        [(key::GPU_ID, ids), (key::ENABLE_GPU_CACHE, caches), (key::ENABLE_GPU_COMPRESSION, compressions)]
            .into_iter()
            .filter(|(_, bytes)| !bytes.is_empty())
            .map(|(key, bytes)| Value::new(key, bytes))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn what_the_library_would_refuse_is_refused_with_a_reason() {
        let number = |byte| GpuAttributes::new(Uuid::from_bytes([byte; 16]).expect("a UUID"));
        let (gpu, other) = (number(1), number(2));
        let many = (1..=17).map(number).fold(BufferAttributes::raw(1), BufferAttributes::gpu);
        for (attributes, reason) in [
            (BufferAttributes::raw(0), "the size is 0"),
            (BufferAttributes::raw(1).alignment(3), "power of two"),
            (BufferAttributes::raw(1).alignment(0), "power of two"),
            (BufferAttributes::raw(1).gpu(gpu).gpu(gpu.cache(true)), "named twice"),
            (BufferAttributes::raw(1).gpu(gpu).gpu(other.cache(false)), "only GPU"),
            (many, "at most 16 GPUs"),
        ] {
            let error = attributes.values().err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(reason), "{error}");
        }
        let most = (1..=16).map(number).fold(BufferAttributes::raw(1), BufferAttributes::gpu);
        assert!(most.values().is_ok() && BufferAttributes::raw(1).gpu(gpu.cache(false)).values().is_ok());
    }

    #[test]
    fn the_cpus_cache_is_asked_for_as_said() {
        let attributes = BufferAttributes::raw(1).cpu_access(true);
        let cache = |attributes: BufferAttributes| {
            let values = attributes.values().expect("good attributes");
            values.into_iter().find(|value| value.key == 4).map(|value| value.bytes)
        };
        assert_eq!(cache(attributes.clone()), None);
        assert_eq!(cache(attributes.clone().cpu_cache(false)), Some(vec![0]));
        assert_eq!(cache(attributes.cpu_cache(true)), Some(vec![1]));
    }
}
