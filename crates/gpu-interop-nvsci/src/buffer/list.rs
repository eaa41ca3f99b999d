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
/// Keys whose values must be equal in all lists that set them.
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

/// Requirements of one user of a buffer, as a list of the library (`NvSciBufAttrList`, not reconciled).
#[derive(Debug)]
pub struct BufferAttributeList {
    list: List,
    /// The list describes a raw buffer without a size.
    of_any_size: bool,
    module: Arc<Module>,
}

impl BufferAttributeList {
    /// Creates a list with these attributes (`NvSciBufAttrListCreate`, `NvSciBufAttrListSetAttrs`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0, alignments that
    /// are not powers of two, a GPU named twice, more than 16 GPUs, a cache choice for one GPU of several, planes
    /// without texels, or more than 3 planes; otherwise the library's error.
    pub fn new(module: &BufferModule, attributes: &BufferAttributes) -> Result<Self> {
        let values = attributes.values()?;
        let module = module.inner.clone();
        // SAFETY: the list holds the module, whose library's functions these are.
        let mut list = unsafe { List::create(module.lists(), module.raw, module.clone()) }?;
        list.set(&values)?;
        Ok(Self { list, of_any_size: attributes.is_of_any_size(), module })
    }

    /// `true` if the list sets the size of the buffer; another API may have set it.
    fn has_size(&self) -> Result<bool> {
        Ok(!self.of_any_size || !self.list.get_if_known::<u64>(key::RAW_SIZE)?.is_empty())
    }

    /// Reconciles lists into one that satisfies all of them (`NvSciBufAttrListReconcile`).
    ///
    /// # Errors
    /// [`ErrorKind::ReconciliationFailed`](gpu_interop_core::ErrorKind::ReconciliationFailed) with those attributes
    /// that must be equal and differ; [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for
    /// no list, a list named twice, lists of several modules, or lists of a raw buffer none of which sets the size;
    /// otherwise the library's error.
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

    /// The library's object, valid while `self` lives. Another API, such as NvMedia, can set its requirements in it.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.list.as_raw()
    }
}

/// A reconciled list, from which buffers are allocated.
#[derive(Debug)]
pub struct ReconciledBufferAttributes {
    list: List,
    module: Arc<Module>,
    properties: BufferProperties,
    /// `true` if one of the original lists names a GPU.
    names_gpus: bool,
}

impl ReconciledBufferAttributes {
    /// The reconciled properties.
    #[must_use]
    pub fn properties(&self) -> &BufferProperties {
        &self.properties
    }

    /// Allocates a buffer (`NvSciBufObjAlloc`) for reads and writes. A list can allocate several.
    ///
    /// # Errors
    /// The library's error.
    pub fn allocate(&self) -> Result<Buffer> {
        Buffer::allocate(&self.module, self.list.as_raw(), self.names_gpus)
    }
}
