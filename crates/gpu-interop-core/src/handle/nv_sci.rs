//! Pointers to NvSci objects. The types exist on every system, so that requests can be built and tested anywhere.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Owner;
use crate::nv_sci::NvSciBufProperties;

/// An object and its owner, if known.
#[derive(Clone)]
struct Object {
    raw: NonNull<c_void>,
    owner: Option<Owner>,
}

// SAFETY: NVIDIA documents these objects as usable from any thread; this type only carries the address.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    fn fmt(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = if self.owner.is_some() { "owned" } else { "borrowed" };
        write!(f, "{name}({:?}, {owner})", self.raw)
    }
}

/// Declares a pointer to an importable object.
macro_rules! objects {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($field:ident: $type:ty = $value:expr)? }: $object:literal, valid until $until:literal;
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone)]
        pub struct $name {
            object: Object,
            $($field: $type,)?
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.object.fmt(stringify!($name), f)
            }
        }

        impl $name {
            #[doc = concat!("Wraps ", $object, " that is borrowed: this type neither frees it nor keeps it alive.")]
            ///
            /// # Safety
            #[doc = concat!("It must be valid, and stay valid until every clone of this has been dropped and ", $until, ".")]
            #[must_use]
            pub unsafe fn from_raw(object: NonNull<c_void>) -> Self {
                Self { object: Object { raw: object, owner: None }, $($field: $value,)? }
            }

            #[doc = concat!("Wraps ", $object, " that `owner` keeps alive. `owner` is dropped with the last clone of this and, after an ")]
            /// import, once the driver has destroyed the import, which may be later than its drop. If the driver fails
            /// to destroy it, `owner` is leaked.
            ///
            /// # Safety
            /// It must be valid, and stay valid as long as `owner` lives.
            #[must_use]
            pub unsafe fn owned_by(object: NonNull<c_void>, owner: Arc<dyn Any + Send + Sync>) -> Self {
                Self { object: Object { raw: object, owner: Some(owner) }, $($field: $value,)? }
            }

            /// The address, valid as long as `self`.
            #[must_use]
            pub fn as_raw(&self) -> *mut c_void {
                self.object.raw.as_ptr()
            }

            pub(crate) fn owner(&self) -> Option<&Owner> {
                self.object.owner.as_ref()
            }
        }
    )+ };
}

objects! {
    /// An NvSciBuf object, allocated from the reconciled attribute lists of all its users, with its reconciled
    /// properties. Both survive a failed import.
    NvSciBufObject { properties: Option<Arc<NvSciBufProperties>> = None }:
        "an `NvSciBufObj`", valid until "the imports of it and everything made from them are closed";
    /// An NvSciSync object.
    NvSciSyncObject {}: "an `NvSciSyncObj`", valid until "the imports of it are closed";
}

impl NvSciBufObject {
    /// Sets the reconciled properties. Imports on a GPU that the object was not made for, and writes to a read-only
    /// object, are then rejected.
    #[must_use]
    pub fn with_properties(mut self, properties: impl Into<Arc<NvSciBufProperties>>) -> Self {
        self.properties = Some(properties.into());
        self
    }

    /// Reconciled properties, if the application provided them.
    #[must_use]
    pub fn properties(&self) -> Option<&NvSciBufProperties> {
        self.properties.as_deref()
    }

    pub(crate) fn shared_properties(&self) -> Option<&Arc<NvSciBufProperties>> {
        self.properties.as_ref()
    }
}

/// Declares a borrowed pointer.
macro_rules! borrowed {
    ($( $(#[$meta:meta])* $name:ident: $object:literal, safe if { $(#[$safety:meta])+ } )+) => { $(
        $(#[$meta])*
        pub struct $name(NonNull<c_void>);

        // SAFETY: NVIDIA documents these objects as usable from any thread; this type only carries an address.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            #[doc = concat!("Wraps ", $object, ".")]
            ///
            /// # Safety
            $(#[$safety])+
            #[must_use]
            pub unsafe fn from_raw(object: NonNull<c_void>) -> Self {
                Self(object)
            }

            /// The address.
            #[must_use]
            pub fn as_raw(&self) -> *mut c_void {
                self.0.as_ptr()
            }
        }
    )+ };
}

borrowed! {
    /// An unreconciled NvSciSync attribute list, for the one call that fills it. Borrowed: the application keeps
    /// ownership. Neither `Copy` nor `Clone`, so that each list is filled once:
    ///
    /// ```compile_fail,E0382
    /// # use gpu_interop_core::handle::NvSciSyncAttrList;
    /// fn twice(list: NvSciSyncAttrList) -> [NvSciSyncAttrList; 2] {
    ///     [list, list]
    /// }
    /// ```
    #[derive(Debug, PartialEq, Eq, Hash)]
    NvSciSyncAttrList: "an unreconciled `NvSciSyncAttrList`", safe if {
        /// It must be valid, and stay valid until this is dropped or the call that takes it has returned. Nothing else
        /// may use the list during that call.
    }

    /// Address of an NvSciSync fence: a signal writes the fence, a wait reads it. Borrowed: a copy is the same address.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    NvSciFence: "the address of an `NvSciSyncFence`", safe if {
        /// The requirements hold for every copy, and for all signals and waits made from one. The fence must be valid
        /// whenever one of them is enqueued, until that call has returned. Nothing else may use the fence while a
        /// signal is enqueued, and nothing else may write it while a wait is. Clear a filled fence before a signal:
        /// whether the signal releases what the fence holds is not documented.
    }
}
