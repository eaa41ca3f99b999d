//! A device of Direct3D 11.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D11::*;
use windows::Win32::Graphics::Dxgi::*;
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::core::{GUID, HRESULT, IUnknown, Interface, OutRef, PCWSTR, Ref, Result, implement};

use super::fence::Counter;
use super::object::{Stand, create, state, table, unknown};
use super::os::{self, Kind};
use super::{DEVICE_REMOVED, E_NOTIMPL};

/// What the device does.
#[derive(Clone, Copy, Default)]
pub(crate) struct Behavior11 {
    /// What sharing answers, if not a handle.
    pub(crate) share: Option<HRESULT>,
    /// What creating buffers and textures answers, if not one.
    pub(crate) create: Option<HRESULT>,
}

/// The device, and what it was asked for.
pub(crate) struct Device11 {
    pub(crate) behavior: Behavior11,
    pub(crate) lost: AtomicBool,
    pub(crate) buffers: Mutex<Vec<D3D11_BUFFER_DESC>>,
    pub(crate) textures1d: Mutex<Vec<D3D11_TEXTURE1D_DESC>>,
    pub(crate) textures2d: Mutex<Vec<D3D11_TEXTURE2D_DESC>>,
    pub(crate) textures3d: Mutex<Vec<D3D11_TEXTURE3D_DESC>>,
    pub(crate) fence_flags: Mutex<Vec<D3D11_FENCE_FLAG>>,
    pub(crate) fences: Mutex<Vec<Arc<Counter>>>,
    /// The mutex of the resource that was created last.
    pub(crate) mutex: Mutex<Arc<KeyedMutex>>,
}

impl Device11 {
    pub(crate) fn new(behavior: Behavior11) -> (ID3D11Device, Arc<Self>) {
        let state = Arc::new(Self {
            behavior,
            lost: AtomicBool::new(false),
            buffers: Mutex::default(),
            textures1d: Mutex::default(),
            textures2d: Mutex::default(),
            textures3d: Mutex::default(),
            fence_flags: Mutex::default(),
            fences: Mutex::default(),
            mutex: Mutex::default(),
        });
        // SAFETY: it is the interface's table, of which these are methods.
        let device = unsafe {
            let mut table = table::<ID3D11Device5_Vtbl>();
            table.CreateFence = create_fence;
            let second = &mut table.base__.base__.base__.base__;
            second.OpenSharedResource1 = open_resource;
            second.OpenSharedResourceByName = open_resource_by_name;
            let first = &mut second.base__;
            first.base__ = unknown::<Self>();
            first.CreateBuffer = create_buffer;
            first.CreateTexture1D = create_texture1d;
            first.CreateTexture2D = create_texture2d;
            first.CreateTexture3D = create_texture3d;
            first.GetDeviceRemovedReason = removed_reason;
            create::<Self, ID3D11Device5, _>(table, state.clone())
        };
        (device.into(), state)
    }

    fn part(&self) -> Part {
        let mutex = Arc::new(KeyedMutex::default());
        *self.mutex.lock().expect("no panic") = mutex.clone();
        Part { behavior: self.behavior, mutex }
    }
}

impl Stand for Device11 {
    const LINE: &'static [GUID] = &[
        ID3D11Device::IID,
        ID3D11Device1::IID,
        ID3D11Device2::IID,
        ID3D11Device3::IID,
        ID3D11Device4::IID,
        ID3D11Device5::IID,
    ];

    fn other(&self, iid: &GUID) -> Option<IUnknown> {
        (*iid == IDXGIDevice::IID).then(|| DxgiDevice.into())
    }
}

/// A keyed mutex by Direct3D's rules.
pub(crate) struct KeyedMutex {
    /// The key it was released with; none while somebody has acquired it.
    released: Mutex<Option<u64>>,
    changed: Condvar,
    pub(crate) abandoned: AtomicBool,
}

impl Default for KeyedMutex {
    fn default() -> Self {
        Self { released: Mutex::new(Some(0)), changed: Condvar::new(), abandoned: AtomicBool::new(false) }
    }
}

impl KeyedMutex {
    pub(crate) fn acquire(&self, key: u64, milliseconds: u32) -> HRESULT {
        let time = if milliseconds == u32::MAX { Duration::MAX } else { Duration::from_millis(milliseconds.into()) };
        let released = self.released.lock().expect("no panic");
        let waits = |released: &mut Option<u64>| *released != Some(key) && !self.abandoned.load(Ordering::SeqCst);
        let (mut released, _) = self.changed.wait_timeout_while(released, time, waits).expect("no panic");
        if self.abandoned.load(Ordering::SeqCst) {
            return HRESULT(0x80);
        }
        if *released != Some(key) {
            return HRESULT(0x102);
        }
        *released = None;
        HRESULT(0)
    }

    pub(crate) fn release(&self, key: u64) -> HRESULT {
        let mut released = self.released.lock().expect("no panic");
        if released.is_some() {
            return HRESULT(0x887a_0001_u32.cast_signed());
        }
        *released = Some(key);
        self.changed.notify_all();
        HRESULT(0)
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

/// What buffers and textures have in common.
struct Part {
    behavior: Behavior11,
    mutex: Arc<KeyedMutex>,
}

#[implement(ID3D11Buffer, IDXGIResource1, IDXGIKeyedMutex)]
struct Buffer(Part);
#[implement(ID3D11Texture1D, IDXGIResource1, IDXGIKeyedMutex)]
struct Texture1D(Part);
#[implement(ID3D11Texture2D, IDXGIResource1, IDXGIKeyedMutex)]
struct Texture2D(Part);
#[implement(ID3D11Texture3D, IDXGIResource1, IDXGIKeyedMutex)]
struct Texture3D(Part);
#[implement(ID3D11Fence)]
struct Fence(Part, Arc<Counter>);
#[implement(IDXGIDevice)]
struct DxgiDevice;
#[implement(IDXGIAdapter1)]
struct DxgiAdapter;

fn share(part: &Part, kind: Kind, attributes: *const SECURITY_ATTRIBUTES, name: PCWSTR) -> Result<HANDLE> {
    assert!(attributes.is_null());
    match part.behavior.share {
        Some(code) => Err(code.into()),
        None => os::create(kind, name),
    }
}

macro_rules! resources {
    ($($name:ident is $interface:ident of $desc:ident;)*) => { $(
        impl $interface for $name {
            fn GetDesc(&self, _: *mut $desc) {}
        }
        impl ID3D11Resource_Impl for $name {
            fn GetType(&self, _: *mut D3D11_RESOURCE_DIMENSION) {}
            fn SetEvictionPriority(&self, _: u32) {}
            fn GetEvictionPriority(&self) -> u32 {
                0
            }
        }
        impl IDXGIResource1_Impl for $name {
            fn CreateSubresourceSurface(&self, _: u32) -> Result<IDXGISurface2> {
                Err(E_NOTIMPL.into())
            }
            fn CreateSharedHandle(
                &self,
                attributes: *const SECURITY_ATTRIBUTES,
                access: u32,
                name: &PCWSTR,
            ) -> Result<HANDLE> {
                // DXGI_SHARED_RESOURCE_READ | DXGI_SHARED_RESOURCE_WRITE
                assert_eq!(access, 0x8000_0001);
                share(&self.0, Kind::Memory(4096), attributes, *name)
            }
        }
        impl IDXGIResource_Impl for $name {
            fn GetSharedHandle(&self) -> Result<HANDLE> {
                match self.0.behavior.share {
                    Some(code) => Err(code.into()),
                    None => Ok(HANDLE(std::ptr::without_provenance_mut(0xc000_1002))),
                }
            }
            fn GetUsage(&self) -> Result<DXGI_USAGE> {
                Err(E_NOTIMPL.into())
            }
            fn SetEvictionPriority(&self, _: DXGI_RESOURCE_PRIORITY) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn GetEvictionPriority(&self) -> Result<DXGI_RESOURCE_PRIORITY> {
                Err(E_NOTIMPL.into())
            }
        }
        impl IDXGIKeyedMutex_Impl for $name {
            fn AcquireSync(&self, key: u64, milliseconds: u32) -> Result<()> {
                match self.0.mutex.acquire(key, milliseconds) {
                    HRESULT(0) => Ok(()),
                    code => Err(code.into()),
                }
            }
            fn ReleaseSync(&self, key: u64) -> Result<()> {
                self.0.mutex.release(key).ok()
            }
        }
        impl IDXGIDeviceSubObject_Impl for $name {
            fn GetDevice(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
        }
    )* };
}

macro_rules! children {
    ($($name:ident),*) => { $(
        impl ID3D11DeviceChild_Impl for $name {
            fn GetDevice(&self, _: OutRef<'_, ID3D11Device>) {}
            fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<'_, IUnknown>) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
        }
    )* };
}

macro_rules! dxgi_objects {
    ($($name:ident),*) => { $(
        impl IDXGIObject_Impl for $name {
            fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<'_, IUnknown>) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn GetParent(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
        }
    )* };
}

resources! {
    Buffer_Impl is ID3D11Buffer_Impl of D3D11_BUFFER_DESC;
    Texture1D_Impl is ID3D11Texture1D_Impl of D3D11_TEXTURE1D_DESC;
    Texture2D_Impl is ID3D11Texture2D_Impl of D3D11_TEXTURE2D_DESC;
    Texture3D_Impl is ID3D11Texture3D_Impl of D3D11_TEXTURE3D_DESC;
}
children!(Buffer_Impl, Texture1D_Impl, Texture2D_Impl, Texture3D_Impl, Fence_Impl);
dxgi_objects!(Buffer_Impl, Texture1D_Impl, Texture2D_Impl, Texture3D_Impl, DxgiDevice_Impl, DxgiAdapter_Impl);

impl ID3D11Fence_Impl for Fence_Impl {
    fn CreateSharedHandle(&self, attributes: *const SECURITY_ATTRIBUTES, access: u32, name: &PCWSTR) -> Result<HANDLE> {
        assert_eq!(access, 0x1000_0000);
        share(&self.0, Kind::Fence, attributes, *name)
    }
    fn GetCompletedValue(&self) -> u64 {
        self.1.value()
    }
    fn SetEventOnCompletion(&self, value: u64, event: HANDLE) -> Result<()> {
        self.1.notify(value, event)
    }
}

impl IDXGIDevice_Impl for DxgiDevice_Impl {
    fn GetAdapter(&self) -> Result<IDXGIAdapter> {
        Ok(IDXGIAdapter1::from(DxgiAdapter).into())
    }
    fn CreateSurface(
        &self,
        _: *const DXGI_SURFACE_DESC,
        _: u32,
        _: DXGI_USAGE,
        _: *const DXGI_SHARED_RESOURCE,
        _: *mut Option<IDXGISurface>,
    ) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn QueryResourceResidency(&self, _: *const Option<IUnknown>, _: *mut DXGI_RESIDENCY, _: u32) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn SetGPUThreadPriority(&self, _: i32) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn GetGPUThreadPriority(&self) -> Result<i32> {
        Err(E_NOTIMPL.into())
    }
}

impl IDXGIAdapter1_Impl for DxgiAdapter_Impl {
    fn GetDesc1(&self) -> Result<DXGI_ADAPTER_DESC1> {
        let mut desc = DXGI_ADAPTER_DESC1 { AdapterLuid: super::LUID, ..DXGI_ADAPTER_DESC1::default() };
        for (unit, character) in desc.Description.iter_mut().zip("stand-in".encode_utf16()) {
            *unit = character;
        }
        Ok(desc)
    }
}

impl IDXGIAdapter_Impl for DxgiAdapter_Impl {
    fn EnumOutputs(&self, _: u32) -> Result<IDXGIOutput> {
        Err(E_NOTIMPL.into())
    }
    fn GetDesc(&self) -> Result<DXGI_ADAPTER_DESC> {
        Err(E_NOTIMPL.into())
    }
    fn CheckInterfaceSupport(&self, _: *const GUID) -> Result<i64> {
        Err(E_NOTIMPL.into())
    }
}

// SAFETY of all below: Direct3D's rules, which the callers in the crate keep: `this` is such a device, pointers are
// valid.

macro_rules! creators {
    ($($function:ident: $desc:ident to $log:ident, $object:ident as $interface:ident;)*) => { $(
        unsafe extern "system" fn $function(
            this: *mut c_void,
            desc: *const $desc,
            contents: *const D3D11_SUBRESOURCE_DATA,
            object: *mut *mut c_void,
        ) -> HRESULT {
            assert!(contents.is_null());
            // SAFETY: see above.
            let device = unsafe { state::<Device11>(this) };
            if let Some(code) = device.behavior.create {
                return code;
            }
            // SAFETY: see above.
            unsafe {
                device.$log.lock().expect("no panic").push(*desc);
                *object = $interface::from($object(device.part())).into_raw();
            }
            HRESULT(0)
        }
    )* };
}

creators! {
    create_buffer: D3D11_BUFFER_DESC to buffers, Buffer as ID3D11Buffer;
    create_texture1d: D3D11_TEXTURE1D_DESC to textures1d, Texture1D as ID3D11Texture1D;
    create_texture2d: D3D11_TEXTURE2D_DESC to textures2d, Texture2D as ID3D11Texture2D;
    create_texture3d: D3D11_TEXTURE3D_DESC to textures3d, Texture3D as ID3D11Texture3D;
}

unsafe extern "system" fn create_fence(
    this: *mut c_void,
    value: u64,
    flags: D3D11_FENCE_FLAG,
    iid: *const GUID,
    fence: *mut *mut c_void,
) -> HRESULT {
    let counter = Arc::new(Counter::new(value));
    // SAFETY: see above.
    unsafe {
        let device = state::<Device11>(this);
        device.fence_flags.lock().expect("no panic").push(flags);
        device.fences.lock().expect("no panic").push(counter.clone());
        IUnknown::from(Fence(device.part(), counter)).query(iid, fence)
    }
}

unsafe extern "system" fn removed_reason(this: *mut c_void) -> HRESULT {
    // SAFETY: see above.
    if unsafe { state::<Device11>(this) }.lost.load(Ordering::SeqCst) { DEVICE_REMOVED } else { HRESULT(0) }
}

/// Hands out a texture, if the handle is one to memory.
unsafe extern "system" fn open_resource(
    this: *mut c_void,
    handle: HANDLE,
    iid: *const GUID,
    resource: *mut *mut c_void,
) -> HRESULT {
    if !os::is_open(handle) {
        return HRESULT(0x8007_0006_u32.cast_signed());
    }
    drop(os::View::new(handle, 4096));
    // SAFETY: see above.
    unsafe { IUnknown::from(Texture2D(state::<Device11>(this).part())).query(iid, resource) }
}

unsafe extern "system" fn open_resource_by_name(
    this: *mut c_void,
    name: PCWSTR,
    access: u32,
    iid: *const GUID,
    resource: *mut *mut c_void,
) -> HRESULT {
    assert_eq!(access, 0x8000_0001);
    let handle = match os::open(Kind::Memory(0), name) {
        Ok(handle) => handle,
        Err(error) => return error.code(),
    };
    // SAFETY: as above.
    let answer = unsafe { open_resource(this, handle, iid, resource) };
    os::close(handle);
    answer
}
