//! Interfaces of all objects of a device that are not called here.

/// Methods that answer `E_NOTIMPL`.
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
        $crate::children::not_implemented! {
            fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()>;
            fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()>;
            fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<'_, IUnknown>) -> Result<()>;
        }
    };
}
pub(crate) use private_data;

/// Of Direct3D 12.
macro_rules! children12 {
    ($($name:ident),*) => { $(
        impl ID3D12Pageable_Impl for $name {}
        impl ID3D12DeviceChild_Impl for $name {
            $crate::children::not_implemented! {
                fn GetDevice(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()>;
            }
        }
        impl ID3D12Object_Impl for $name {
            $crate::children::private_data!();
            /// Names are for debuggers.
            fn SetName(&self, _: &PCWSTR) -> Result<()> {
                Ok(())
            }
        }
    )* };
}
pub(crate) use children12;

/// Of Direct3D 11.
macro_rules! children11 {
    ($($name:ident),*) => { $(
        impl ID3D11DeviceChild_Impl for $name {
            fn GetDevice(&self, device: OutRef<'_, ID3D11Device>) {
                let _ = device.write(None);
            }
            $crate::children::private_data!();
        }
    )* };
}
pub(crate) use children11;

/// Of DXGI.
macro_rules! dxgi_objects {
    ($($name:ident),*) => { $(
        impl IDXGIObject_Impl for $name {
            $crate::children::private_data!();
            $crate::children::not_implemented! {
                fn GetParent(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()>;
            }
        }
    )* };
}
pub(crate) use dxgi_objects;
