//! Attribute lists of buffers.

use gpu_interop_core::{Error, Result};

use super::attributes::BufferAttributes;
use super::object::Buffer;
use super::reconciled::BufferProperties;
use super::{BufferModule, Module};
use crate::list::{List, no_list};
use crate::sys::buf::key;
use std::sync::Arc;

const RECONCILE: &str = "NvSciBufAttrListReconcile";
/// The keys whose values must be equal in all lists that set them.
const EQUAL: &[(u32, &str)] = &[
    (key::TYPES, "Types"),
    (key::RAW_SIZE, "Size"),
    (key::IMAGE_LAYOUT, "Layout"),
    (key::IMAGE_PLANE_COUNT, "PlaneCount"),
    (key::IMAGE_PLANE_COLOR_FORMAT, "PlaneColorFormat"),
    (key::IMAGE_PLANE_WIDTH, "PlaneWidth"),
    (key::IMAGE_PLANE_HEIGHT, "PlaneHeight"),
    (key::IMAGE_SCAN_TYPE, "ScanType"),
];

/// What one user of a buffer asks of it, as the library keeps it (`NvSciBufAttrList`, not reconciled).
#[derive(Debug)]
pub struct BufferAttributeList {
    list: List,
    /// Of a raw buffer, without a size.
    of_any_size: bool,
    module: Arc<Module>,
}

impl BufferAttributeList {
    /// A list with these attributes (`NvSciBufAttrListCreate`, `NvSciBufAttrListSetAttrs`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0, alignments that are
    /// no powers of two, a GPU named twice, more than 16 GPUs, a choice about the cache of one GPU of several, planes without
    /// texels or more than 3; else what the library answers.
    pub fn new(module: &BufferModule, attributes: &BufferAttributes) -> Result<Self> {
        let values = attributes.values()?;
        let module = module.inner.clone();
        // SAFETY: the list holds the module, whose library's functions these are.
        let mut list = unsafe { List::create(module.lists(), module.raw, module.clone()) }?;
        list.set(&values)?;
        Ok(Self { list, of_any_size: attributes.is_of_any_size(), module })
    }

    /// Whether it says how many bytes the buffer has, as another API may have made it do.
    fn has_size(&self) -> Result<bool> {
        Ok(!self.of_any_size || !self.list.get_if_known::<u64>(key::RAW_SIZE)?.is_empty())
    }

    /// Reconciles lists into one that satisfies all of them (`NvSciBufAttrListReconcile`).
    ///
    /// # Errors
    /// [`ErrorKind::ReconciliationFailed`](gpu_interop_core::ErrorKind::ReconciliationFailed) with the attributes in which the
    /// lists differ, of those that must be equal;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for no list, one named twice, lists of
    /// several modules, or of a raw buffer whose size none of them names; else what the library answers.
    pub fn reconcile(lists: &[&Self]) -> Result<ReconciledBufferAttributes> {
        let [first, others @ ..] = lists else { return Err(no_list(RECONCILE)) };
        let mut sized = false;
        for list in lists {
            sized = sized || list.has_size()?;
        }
        if !sized {
            return Err(Error::invalid(RECONCILE, "no attribute list names a size; name it in one of them"));
        }
        let mut names_gpus = false;
        for list in lists {
            names_gpus = names_gpus || !list.list.get::<u8>(key::GPU_ID)?.is_empty();
        }
        let others: Vec<&List> = others.iter().map(|other| &other.list).collect();
        let list = List::reconcile(&first.list, &others).map_err(|error| {
            let lists: Vec<&List> = lists.iter().map(|list| &list.list).collect();
            match List::differences(&lists, EQUAL).join(", ") {
                none if none.is_empty() => error,
                names => error.with_context("the attribute lists differ in", names),
            }
        })?;
        let module = first.module.clone();
        // SAFETY: the list is live, and of this module's library.
        let properties = unsafe { BufferProperties::of(&module, list.as_raw(), names_gpus) }?;
        Ok(ReconciledBufferAttributes { list, module, properties, names_gpus })
    }

    /// The library's object, valid while `self` lives: for another API to set what it needs, such as NvMedia.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.list.as_raw()
    }
}

/// A reconciled list: what buffers are allocated by.
#[derive(Debug)]
pub struct ReconciledBufferAttributes {
    list: List,
    module: Arc<Module>,
    properties: BufferProperties,
    /// Whether a list that it was reconciled from names a GPU.
    names_gpus: bool,
}

impl ReconciledBufferAttributes {
    /// What was reconciled.
    #[must_use]
    pub fn properties(&self) -> &BufferProperties {
        &self.properties
    }

    /// Allocates a buffer (`NvSciBufObjAlloc`), which may be read and written. Several can be.
    ///
    /// # Errors
    /// What the library answers.
    pub fn allocate(&self) -> Result<Buffer> {
        Buffer::allocate(&self.module, self.list.as_raw(), self.names_gpus)
    }
}
