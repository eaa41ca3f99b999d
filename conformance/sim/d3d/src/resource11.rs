//! Buffers, textures and fences of Direct3D 11.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D11::*;
use windows::Win32::Graphics::Dxgi::*;
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::core::{GUID, HRESULT, IUnknown, Interface, OutRef, PCWSTR, Ref, Result, implement};

use crate::counter::{Counter, KeyedMutex};
use crate::layout::Layout;
use crate::object::{children11, dxgi_objects, not_implemented};
use crate::queue::Queue;
use crate::section::Part;
use crate::{E_INVALIDARG, INVALID_CALL};

/// State common to buffers and textures.
pub(crate) struct Common {
    /// Result of sharing, instead of a handle.
    pub(crate) share: Option<HRESULT>,
    pub(crate) part: Part,
    pub(crate) layout: Layout,
    pub(crate) mutex: Option<Arc<KeyedMutex>>,
    /// `true` if it supports NT handles.
    pub(crate) by_handle: bool,
    /// `true` if the host may map it.
    pub(crate) staging: bool,
    pub(crate) queue: Arc<Queue>,
}

impl Common {
    fn mutex(&self) -> Result<&KeyedMutex> {
        self.mutex.as_deref().ok_or_else(|| INVALID_CALL.into())
    }

    fn handle(&self, name: PCWSTR) -> Result<HANDLE> {
        match self.share {
            Some(code) => Err(code.into()),
            None if self.by_handle => self.part.section.share(name),
            None => Err(E_INVALIDARG.into()),
        }
    }

    fn number(&self) -> Result<HANDLE> {
        match (self.share, self.part.section.kmt()) {
            (Some(code), _) => Err(code.into()),
            (None, Some(number)) => Ok(HANDLE(std::ptr::without_provenance_mut(number as usize))),
            (None, None) => Err(E_INVALIDARG.into()),
        }
    }
}

#[implement(ID3D11Buffer, IDXGIResource1, IDXGIKeyedMutex)]
pub(crate) struct Buffer(pub(crate) Common, pub(crate) D3D11_BUFFER_DESC);
#[implement(ID3D11Texture1D, IDXGIResource1, IDXGIKeyedMutex)]
pub(crate) struct Texture1D(pub(crate) Common, pub(crate) D3D11_TEXTURE1D_DESC);
#[implement(ID3D11Texture2D, IDXGIResource1, IDXGIKeyedMutex)]
pub(crate) struct Texture2D(pub(crate) Common, pub(crate) D3D11_TEXTURE2D_DESC);
#[implement(ID3D11Texture3D, IDXGIResource1, IDXGIKeyedMutex)]
pub(crate) struct Texture3D(pub(crate) Common, pub(crate) D3D11_TEXTURE3D_DESC);

/// The common state of a buffer or texture.
///
/// # Panics
/// If the resource is not of the simulator.
pub(crate) fn common(resource: &ID3D11Resource) -> &Common {
    if let Ok(buffer) = resource.cast_object_ref::<Buffer>() {
        &buffer.0
    } else if let Ok(texture) = resource.cast_object_ref::<Texture2D>() {
        &texture.0
    } else if let Ok(texture) = resource.cast_object_ref::<Texture1D>() {
        &texture.0
    } else {
        &resource.cast_object_ref::<Texture3D>().expect("a resource of the simulator").0
    }
}

#[implement(ID3D11Fence)]
pub(crate) struct Fence {
    /// Result of sharing, instead of a handle.
    pub(crate) share: Option<HRESULT>,
    pub(crate) counter: Arc<Counter>,
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.counter.settle();
    }
}

macro_rules! resources {
    ($($name:ident is $interface:ident of $desc:ident, $dimension:ident;)*) => { $(
        impl $interface for $name {
            fn GetDesc(&self, desc: *mut $desc) {
                // SAFETY: Direct3D's rules: the pointer is valid.
                unsafe { *desc = self.1 };
            }
        }
        impl ID3D11Resource_Impl for $name {
            fn GetType(&self, dimension: *mut D3D11_RESOURCE_DIMENSION) {
                // SAFETY: as above.
                unsafe { *dimension = $dimension };
            }
            fn SetEvictionPriority(&self, _: u32) {}
            fn GetEvictionPriority(&self) -> u32 {
                0
            }
        }
        impl IDXGIResource1_Impl for $name {
            not_implemented! { fn CreateSubresourceSurface(&self, _: u32) -> Result<IDXGISurface2>; }
            fn CreateSharedHandle(
                &self,
                attributes: *const SECURITY_ATTRIBUTES,
                access: u32,
                name: &PCWSTR,
            ) -> Result<HANDLE> {
                // DXGI_SHARED_RESOURCE_READ | DXGI_SHARED_RESOURCE_WRITE
                assert_eq!(access, 0x8000_0001);
                assert!(attributes.is_null());
                self.0.handle(*name)
            }
        }
        impl IDXGIResource_Impl for $name {
            fn GetSharedHandle(&self) -> Result<HANDLE> {
                self.0.number()
            }
            not_implemented! {
                fn GetUsage(&self) -> Result<DXGI_USAGE>;
                fn SetEvictionPriority(&self, _: DXGI_RESOURCE_PRIORITY) -> Result<()>;
                fn GetEvictionPriority(&self) -> Result<DXGI_RESOURCE_PRIORITY>;
            }
        }
        impl IDXGIKeyedMutex_Impl for $name {
            fn AcquireSync(&self, key: u64, milliseconds: u32) -> Result<()> {
                match self.0.mutex()?.acquire(key, milliseconds) {
                    HRESULT(0) => Ok(()),
                    code => Err(code.into()),
                }
            }
            fn ReleaseSync(&self, key: u64) -> Result<()> {
                let mutex = self.0.mutex()?;
                // Earlier commands of the context complete first.
                self.0.queue.drain_if_used();
                mutex.release(key).ok()
            }
        }
        impl IDXGIDeviceSubObject_Impl for $name {
            not_implemented! { fn GetDevice(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()>; }
        }
    )* };
}

resources! {
    Buffer_Impl is ID3D11Buffer_Impl of D3D11_BUFFER_DESC, D3D11_RESOURCE_DIMENSION_BUFFER;
    Texture1D_Impl is ID3D11Texture1D_Impl of D3D11_TEXTURE1D_DESC, D3D11_RESOURCE_DIMENSION_TEXTURE1D;
    Texture2D_Impl is ID3D11Texture2D_Impl of D3D11_TEXTURE2D_DESC, D3D11_RESOURCE_DIMENSION_TEXTURE2D;
    Texture3D_Impl is ID3D11Texture3D_Impl of D3D11_TEXTURE3D_DESC, D3D11_RESOURCE_DIMENSION_TEXTURE3D;
}
children11!(Buffer_Impl, Texture1D_Impl, Texture2D_Impl, Texture3D_Impl, Fence_Impl);
dxgi_objects!(Buffer_Impl, Texture1D_Impl, Texture2D_Impl, Texture3D_Impl);

impl ID3D11Fence_Impl for Fence_Impl {
    fn CreateSharedHandle(&self, attributes: *const SECURITY_ATTRIBUTES, access: u32, name: &PCWSTR) -> Result<HANDLE> {
        assert_eq!(access, 0x1000_0000);
        assert!(attributes.is_null());
        match self.share {
            Some(code) => Err(code.into()),
            None => self.counter.share(*name),
        }
    }
    fn GetCompletedValue(&self) -> u64 {
        self.counter.value()
    }
    fn SetEventOnCompletion(&self, value: u64, event: HANDLE) -> Result<()> {
        self.counter.notify(value, event)
    }
}
