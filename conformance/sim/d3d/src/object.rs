//! A COM object with some methods only, and macros for the interfaces that are not called here. The devices have dozens
//! of methods that this project does not call.

use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windows::core::{GUID, HRESULT, IUnknown, IUnknown_Vtbl, Interface, PCWSTR};

const E_NOINTERFACE: HRESULT = HRESULT(0x8000_4002_u32.cast_signed());

/// A simulated object: its interfaces, which are all ancestors of one, and other interfaces that it supports.
pub(crate) trait ComObject: Send + Sync + Sized + 'static {
    const LINE: &'static [GUID];

    fn other(&self, _iid: &GUID) -> Option<IUnknown> {
        None
    }
}

#[repr(C)]
pub(crate) struct Object<S> {
    table: *const c_void,
    references: AtomicU32,
    pub(crate) state: Arc<S>,
}

/// A table in which each method aborts the process, until it is replaced.
///
/// # Safety
/// `V` must be the table of a COM interface.
pub(crate) unsafe fn table<V>() -> V {
    extern "system" fn absent() {
        eprintln!("the simulator lacks the method that was called");
        std::process::abort();
    }
    let mut table = MaybeUninit::<V>::uninit();
    let slots = table.as_mut_ptr().cast::<extern "system" fn()>();
    for slot in 0..size_of::<V>() / size_of::<usize>() {
        // SAFETY: the table has that size, and consists of function pointers.
        unsafe { slots.add(slot).write(absent) };
    }
    // SAFETY: every slot was written. The function of a slot aborts before its arguments matter.
    unsafe { table.assume_init() }
}

/// Methods of all objects.
pub(crate) fn unknown<S: ComObject>() -> IUnknown_Vtbl {
    IUnknown_Vtbl { QueryInterface: query::<S>, AddRef: add::<S>, Release: release::<S> }
}

/// `SetName` of objects of Direct3D 12. Names are for debuggers.
pub(crate) unsafe extern "system" fn set_name(_this: *mut c_void, _name: PCWSTR) -> HRESULT {
    HRESULT(0)
}

/// The object behind a pointer.
///
/// # Safety
/// `this` must be a live object of this kind.
pub(crate) unsafe fn state<'a, S>(this: *mut c_void) -> &'a S {
    // SAFETY: the caller's promise.
    unsafe { &(*this.cast::<Object<S>>()).state }
}

/// Creates an object with these methods.
///
/// # Safety
/// `T` must be the last of its ancestors, and `table` its methods.
pub(crate) unsafe fn create<S: ComObject, T: Interface, V>(table: &'static V, state: Arc<S>) -> T {
    let table = std::ptr::from_ref(table).cast();
    let object = Box::new(Object { table, references: AtomicU32::new(1), state });
    // SAFETY: the object starts with the table of the interface, and has one reference.
    unsafe { T::from_raw(Box::into_raw(object).cast()) }
}

unsafe extern "system" fn query<S: ComObject>(
    this: *mut c_void,
    iid: *const GUID,
    object: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: COM's rules: all three are valid.
    unsafe {
        if *iid == IUnknown::IID || S::LINE.contains(&*iid) {
            add::<S>(this);
            *object = this;
            return HRESULT(0);
        }
        *object = std::ptr::null_mut();
        match state::<S>(this).other(&*iid) {
            Some(other) => other.query(iid, object),
            None => E_NOINTERFACE,
        }
    }
}

unsafe extern "system" fn add<S>(this: *mut c_void) -> u32 {
    // SAFETY: the caller has a reference.
    unsafe { &(*this.cast::<Object<S>>()).references }.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release<S>(this: *mut c_void) -> u32 {
    // SAFETY: the caller has a reference.
    let left = unsafe { &(*this.cast::<Object<S>>()).references }.fetch_sub(1, Ordering::AcqRel) - 1;
    if left == 0 {
        // SAFETY: that was the last one, and the object came from a box.
        drop(unsafe { Box::from_raw(this.cast::<Object<S>>()) });
    }
    left
}

/// A borrowed reference of the caller.
///
/// # Safety
/// `raw` must be a live object with this interface.
pub(crate) unsafe fn borrowed<T: Interface>(raw: *mut c_void) -> ManuallyDrop<T> {
    // SAFETY: the caller's promise; the reference is not given up.
    ManuallyDrop::new(unsafe { T::from_raw(raw) })
}

/// A new object with a state, of the interface whose table is `$table`, the last one of its line: `methods` writes
/// those that are there.
macro_rules! object {
    ($table:ty, $state:expr, |$methods:ident| $body:block) => {{
        static TABLE: std::sync::OnceLock<$table> = std::sync::OnceLock::new();
        let methods = TABLE.get_or_init(|| {
            // SAFETY: the table is that of the interface.
            let mut $methods = unsafe { $crate::object::table::<$table>() };
            $body
            $methods
        });
        // SAFETY: the interface is the last of its ancestors, and the methods are its own.
        unsafe { $crate::object::create(methods, $state) }
    }};
}
pub(crate) use object;

/// Writes methods of a COM interface: `STATE; fn NAME(state, ARGUMENTS) -> RESULT { BODY }`, where `state` is the
/// [`state`] of the object. A body may rely on Direct3D's rules.
macro_rules! methods {
    ($state:ty; $(
        $(#[$doc:meta])*
        $visible:vis fn $name:ident($this:tt $(, $argument:tt: $type:ty)*) $(-> $result:ty)? $body:block
    )*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Direct3D's rules: the object is live and of this sort, pointers are valid, and what they point to is of one
        /// device.
        $visible unsafe extern "system" fn $name(this: *mut c_void $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: the caller's promise.
            unsafe {
                let $this = $crate::object::state::<$state>(this);
                $body
            }
        }
    )* };
}
pub(crate) use methods;

/// Methods that return `E_NOTIMPL`.
macro_rules! not_implemented {
    ($( fn $name:ident(&self $(, $argument:tt: $type:ty)*) -> $result:ty; )*) => { $(
        fn $name(&self $(, $argument: $type)*) -> $result {
            Err($crate::E_NOTIMPL.into())
        }
    )* };
}
pub(crate) use not_implemented;

/// Private data of an object.
macro_rules! private_data {
    () => {
        $crate::object::not_implemented! {
            fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()>;
            fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()>;
            fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<'_, IUnknown>) -> Result<()>;
        }
    };
}
pub(crate) use private_data;

/// Methods of all objects of Direct3D 12.
macro_rules! children12 {
    ($($name:ident),*) => { $(
        impl ID3D12Pageable_Impl for $name {}
        impl ID3D12DeviceChild_Impl for $name {
            $crate::object::not_implemented! {
                fn GetDevice(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()>;
            }
        }
        impl ID3D12Object_Impl for $name {
            $crate::object::private_data!();
            /// Names are for debuggers.
            fn SetName(&self, _: &PCWSTR) -> Result<()> {
                Ok(())
            }
        }
    )* };
}
pub(crate) use children12;

/// Methods of all objects of Direct3D 11.
macro_rules! children11 {
    ($($name:ident),*) => { $(
        impl ID3D11DeviceChild_Impl for $name {
            fn GetDevice(&self, device: OutRef<'_, ID3D11Device>) {
                let _ = device.write(None);
            }
            $crate::object::private_data!();
        }
    )* };
}
pub(crate) use children11;

/// Methods of all objects of DXGI.
macro_rules! dxgi_objects {
    ($($name:ident),*) => { $(
        impl IDXGIObject_Impl for $name {
            $crate::object::private_data!();
            $crate::object::not_implemented! {
                fn GetParent(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()>;
            }
        }
    )* };
}
pub(crate) use dxgi_objects;
