//! A device of Direct3D 11, and its immediate context.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use windows::Win32::Foundation::{E_FAIL, HANDLE};
use windows::Win32::Graphics::Direct3D11::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::Win32::Graphics::Dxgi::IDXGIDevice;
use windows::core::{GUID, HRESULT, IUnknown, Interface, PCWSTR};

use crate::counter::{Counter, Fences, KeyedMutex};
use crate::entry::DxgiDevice;
use crate::layout::{Layout, Rows, Texture, has_texels, planes};
use crate::object::{ComObject, borrowed, methods, object, unknown};
use crate::queue::Queue;
use crate::resource11::{Buffer, Common, Fence, Texture1D, Texture2D, Texture3D, common};
use crate::section::{Part, Section};
use crate::{DEVICE_REMOVED, E_HANDLE, E_INVALIDARG, answered, counter, faults, note, os};

/// Behaviour of a device.
#[derive(Debug, Clone, Copy, Default)]
pub struct Behavior11 {
    /// Result of sharing, instead of a handle.
    pub share: Option<HRESULT>,
    /// Result of creating buffers and textures, instead of an object.
    pub create: Option<HRESULT>,
    /// The flags it was created with.
    pub flags: u32,
}

/// The device, and the recorded requests.
pub struct Device11 {
    /// Its behaviour.
    pub behavior: Behavior11,
    /// The immediate context.
    pub lost: AtomicBool,
    /// Requests for buffers.
    pub buffers: Mutex<Vec<D3D11_BUFFER_DESC>>,
    /// Requests for one-dimensional textures.
    pub textures1d: Mutex<Vec<D3D11_TEXTURE1D_DESC>>,
    /// Requests for two-dimensional textures.
    pub textures2d: Mutex<Vec<D3D11_TEXTURE2D_DESC>>,
    /// Requests for three-dimensional textures.
    pub textures3d: Mutex<Vec<D3D11_TEXTURE3D_DESC>>,
    /// Requests for fences.
    pub fence_flags: Mutex<Vec<D3D11_FENCE_FLAG>>,
    fences: Fences,
    mutex: Mutex<Weak<KeyedMutex>>,
    queue: Arc<Queue>,
}

impl std::fmt::Debug for Device11 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device11({:?})", self.behavior)
    }
}

impl Device11 {
    /// Creates a device, and returns it with its state.
    pub fn new(behavior: Behavior11) -> (ID3D11Device, Arc<Self>) {
        let state = Arc::new(Self {
            behavior,
            lost: AtomicBool::new(false),
            buffers: Mutex::default(),
            textures1d: Mutex::default(),
            textures2d: Mutex::default(),
            textures3d: Mutex::default(),
            fence_flags: Mutex::default(),
            fences: Fences::default(),
            mutex: Mutex::default(),
            queue: Arc::default(),
        });
        let device: ID3D11Device5 = object!(ID3D11Device5_Vtbl, state.clone(), |table| {
            table.CreateFence = create_fence;
            table.OpenSharedFence = open_fence;
            let second = &mut table.base__.base__.base__.base__;
            second.OpenSharedResource1 = open_resource;
            second.OpenSharedResourceByName = open_resource_by_name;
            let first = &mut second.base__;
            first.base__ = unknown::<Self>();
            first.CreateBuffer = create_buffer;
            first.CreateTexture1D = create_texture1d;
            first.CreateTexture2D = create_texture2d;
            first.CreateTexture3D = create_texture3d;
            first.CheckFormatSupport = format_support;
            first.GetCreationFlags = creation_flags;
            first.GetDeviceRemovedReason = removed_reason;
            first.GetImmediateContext = immediate_context;
        });
        (device.into(), state)
    }

    /// The immediate context.
    pub(crate) fn context(&self) -> ID3D11DeviceContext {
        Context11::create(self.queue.clone()).into()
    }

    /// The existing fences.
    ///
    /// # Panics
    /// If a thread that uses the device panicked.
    pub fn fences(&self) -> Vec<Arc<Counter>> {
        self.fences.all()
    }

    /// The mutex of the newest resource with one.
    ///
    /// # Panics
    /// As [`fences`](Self::fences), and if there is no such resource.
    pub fn mutex(&self) -> Arc<KeyedMutex> {
        self.mutex.lock().expect("no panic").upgrade().expect("a resource with a mutex")
    }

    fn resource(&self, layout: Layout, misc: u32, usage: D3D11_USAGE) -> windows::core::Result<Common> {
        let has = |flag: D3D11_RESOURCE_MISC_FLAG| misc & flag.0.cast_unsigned() != 0;
        let with_mutex = has(D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX);
        let by_handle = has(D3D11_RESOURCE_MISC_SHARED_NTHANDLE);
        let by_number = (with_mutex || has(D3D11_RESOURCE_MISC_SHARED)) && !by_handle;
        let staging = usage == D3D11_USAGE_STAGING;
        // Mappable resources are not shared.
        if staging && (by_number || by_handle) {
            return Err(E_INVALIDARG.into());
        }
        let end = if with_mutex { counter::SIZE } else { 0 };
        let size = layout.size.checked_next_multiple_of(counter::SIZE).and_then(|size| size.checked_add(end));
        let size = size.ok_or(E_INVALIDARG)?;
        let section = Arc::new(match (by_number, by_handle) {
            (true, _) => Section::with_kmt_handle(size)?,
            (false, true) => Section::new(size)?,
            (false, false) => Section::private(size)?,
        });
        let mutex = with_mutex.then(|| KeyedMutex::new(section.clone()));
        if let Some(mutex) = &mutex {
            *self.mutex.lock().expect("no panic") = Arc::downgrade(mutex);
        }
        let part = Part { section, offset: 0, size: layout.size };
        let queue = self.queue.clone();
        Ok(Common { share: self.behavior.share, part, layout, mutex, by_handle, staging, queue })
    }
}

impl ComObject for Device11 {
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

macro_rules! creators {
    ($($function:ident: $desc:ident to $log:ident, $object:ident as $interface:ident, $layout:expr;)*) => {
        methods! { Device11; $(
            fn $function(
                device, desc: *const $desc, contents: *const D3D11_SUBRESOURCE_DATA, object: *mut *mut c_void
            ) -> HRESULT {
                assert!(contents.is_null(), "the simulator creates nothing with contents");
                let desc = *desc;
                if let Some(code) = device.behavior.create {
                    return code;
                }
                note(&device.$log, desc);
                let layout: fn(&$desc) -> Option<Layout> = $layout;
                let Some(layout) = layout(&desc) else { return E_INVALIDARG };
                let common = answered!(device.resource(layout, desc.MiscFlags, desc.Usage));
                *object = $interface::from($object(common, desc)).into_raw();
                HRESULT(0)
            }
        )* }
    };
}

creators! {
    create_buffer: D3D11_BUFFER_DESC to buffers, Buffer as ID3D11Buffer,
        |desc| Some(Layout::buffer(desc.ByteWidth as usize));
    create_texture1d: D3D11_TEXTURE1D_DESC to textures1d, Texture1D as ID3D11Texture1D,
        |desc| texture([desc.Width, 0, desc.ArraySize], true, desc.MipLevels, desc.Format, desc.Usage);
    create_texture2d: D3D11_TEXTURE2D_DESC to textures2d, Texture2D as ID3D11Texture2D,
        |desc| texture([desc.Width, desc.Height, desc.ArraySize], true, desc.MipLevels, desc.Format, desc.Usage);
    create_texture3d: D3D11_TEXTURE3D_DESC to textures3d, Texture3D as ID3D11Texture3D,
        |desc| texture([desc.Width, desc.Height, desc.Depth], false, desc.MipLevels, desc.Format, desc.Usage);
}

/// The layout of a texture with this width, height and depth or number of layers.
fn texture(extent: [u32; 3], layered: bool, levels: u32, format: DXGI_FORMAT, usage: D3D11_USAGE) -> Option<Layout> {
    let [width, height, depth] = extent.map(|n| n as usize);
    let texture = Texture { width, height, depth, layered, levels, format };
    if usage == D3D11_USAGE_STAGING { Layout::mapped(&texture) } else { Layout::texture(&texture) }
}

methods! { Device11;
    fn create_fence(
        device, value: u64, flags: D3D11_FENCE_FLAG, iid: *const GUID, fence: *mut *mut c_void
    ) -> HRESULT {
        let counter = answered!(Counter::new(value));
        note(&device.fence_flags, flags);
        device.fences.keep(&counter);
        IUnknown::from(Fence { share: device.behavior.share, counter }).query(iid, fence)
    }

    fn open_fence(device, handle: HANDLE, iid: *const GUID, fence: *mut *mut c_void) -> HRESULT {
        if !os::is_open(handle) {
            return E_HANDLE;
        }
        let counter = answered!(Counter::open(handle));
        device.fences.keep(&counter);
        IUnknown::from(Fence { share: device.behavior.share, counter }).query(iid, fence)
    }

    fn format_support(_, format: DXGI_FORMAT, support: *mut u32) -> HRESULT {
        let is_supported = planes(format).is_some() || has_texels(format);
        let uses = D3D11_FORMAT_SUPPORT_TEXTURE2D.0 | D3D11_FORMAT_SUPPORT_CPU_LOCKABLE.0;
        *support = if is_supported { uses.cast_unsigned() } else { 0 };
        if is_supported { HRESULT(0) } else { E_FAIL }
    }

    fn creation_flags(device) -> u32 {
        device.behavior.flags
    }

    fn removed_reason(device) -> HRESULT {
        if device.lost.load(Ordering::SeqCst) { DEVICE_REMOVED } else { HRESULT(0) }
    }

    fn immediate_context(device, context: *mut *mut c_void) {
        *context = device.context().into_raw();
    }

    /// Hands out a buffer, if the handle is one to memory: what else it is cannot be seen.
    fn open_resource(device, handle: HANDLE, iid: *const GUID, resource: *mut *mut c_void) -> HRESULT {
        if !os::is_open(handle) {
            return E_HANDLE;
        }
        let section = Arc::new(answered!(Section::open(handle)));
        let mutex = KeyedMutex::open(&section);
        let size = section.length() - if mutex.is_some() { counter::SIZE } else { 0 };
        let common = Common {
            share: device.behavior.share,
            part: Part { section, offset: 0, size },
            layout: Layout::buffer(size),
            mutex,
            by_handle: true,
            staging: false,
            queue: device.queue.clone(),
        };
        let width = u32::try_from(size).unwrap_or(u32::MAX);
        let desc = D3D11_BUFFER_DESC { ByteWidth: width, ..D3D11_BUFFER_DESC::default() };
        IUnknown::from(Buffer(common, desc)).query(iid, resource)
    }
}

/// As [`open_resource`].
///
/// # Safety
/// As there; the name ends with NUL.
unsafe extern "system" fn open_resource_by_name(
    this: *mut c_void,
    name: PCWSTR,
    access: u32,
    iid: *const GUID,
    resource: *mut *mut c_void,
) -> HRESULT {
    assert_eq!(access, 0x8000_0001);
    let handle = answered!(os::open_section(name));
    // SAFETY: the caller's promise.
    unsafe { open_resource(this, os::raw(&handle), iid, resource) }
}

/// A device's immediate context. It executes commands in order, and starts at a flush, a map or the release of a keyed
/// mutex, the latest time that Direct3D permits.
pub(crate) struct Context11(Arc<Queue>);

impl ComObject for Context11 {
    const LINE: &'static [GUID] = &[
        ID3D11DeviceChild::IID,
        ID3D11DeviceContext::IID,
        ID3D11DeviceContext1::IID,
        ID3D11DeviceContext2::IID,
        ID3D11DeviceContext3::IID,
        ID3D11DeviceContext4::IID,
    ];
}

impl Context11 {
    pub(crate) fn create(queue: Arc<Queue>) -> ID3D11DeviceContext4 {
        object!(ID3D11DeviceContext4_Vtbl, Arc::new(Self(queue)), |table| {
            table.Signal = signal;
            table.Wait = wait;
            let first = &mut table.base__.base__.base__.base__;
            first.base__.base__ = unknown::<Self>();
            first.Map = map;
            first.Unmap = unmap;
            first.Flush = flush;
            first.UpdateSubresource = update;
            first.CopyResource = copy;
            first.CopySubresourceRegion = copy_region;
        })
    }
}

/// The implementation of a resource.
///
/// # Safety
/// The resource is live.
unsafe fn resource(raw: *mut c_void) -> (Part, Layout, bool) {
    // SAFETY: the caller's promise.
    let resource = unsafe { borrowed::<ID3D11Resource>(raw) };
    let common = common(&resource);
    (common.part.clone(), common.layout.clone(), common.staging)
}

/// The implementation of a fence.
///
/// # Safety
/// The fence is live.
unsafe fn counter(fence: *mut c_void) -> Arc<Counter> {
    // SAFETY: the caller's promise.
    let fence = unsafe { borrowed::<ID3D11Fence>(fence) };
    fence.cast_object_ref::<Fence>().expect("a fence of the simulator").counter.clone()
}

/// The rows of a box, or all rows for null.
///
/// # Safety
/// The box is valid.
unsafe fn part_of(rows: Rows, texel: usize, area: *const D3D11_BOX) -> Rows {
    // SAFETY: the caller's promise.
    let Some(area) = (unsafe { area.as_ref() }) else { return rows };
    let origin = [area.left as usize * texel, area.top as usize, area.front as usize];
    let extent = [
        (area.right - area.left) as usize * texel,
        (area.bottom - area.top) as usize,
        (area.back - area.front) as usize,
    ];
    rows.part(origin, extent)
}

methods! { Context11;
    fn signal(context, fence: *mut c_void, value: u64) -> HRESULT {
        context.0.signal(counter(fence), value);
        HRESULT(0)
    }

    fn wait(context, fence: *mut c_void, value: u64) -> HRESULT {
        context.0.wait(counter(fence), value);
        HRESULT(0)
    }

    fn flush(context) {
        if !faults::wanted(faults::NO_FLUSH) {
            context.0.submit();
        }
    }

    fn map(
        context, raw: *mut c_void, subresource: u32, _: D3D11_MAP, flags: u32, mapped: *mut D3D11_MAPPED_SUBRESOURCE
    ) -> HRESULT {
        assert_eq!(flags, 0, "the simulator's maps wait");
        let (part, layout, staging) = resource(raw);
        if !staging {
            return E_INVALIDARG;
        }
        context.0.drain();
        assert!(!layout.is_planar() || subresource == 0, "planes are one subresource");
        let rows = layout.subresource(subresource);
        let [row, slice] = [rows.pitch, rows.slice_pitch].map(|pitch| u32::try_from(pitch).expect("less than 4 GiB"));
        // What may be mapped is not shared, so that the address stays.
        part.with(rows.offset, 0, |data| {
            *mapped = D3D11_MAPPED_SUBRESOURCE { pData: data.cast(), RowPitch: row, DepthPitch: slice };
        });
        HRESULT(0)
    }

    fn unmap(_, _: *mut c_void, _: u32) {}

    fn update(
        context, raw: *mut c_void, subresource: u32, area: *const D3D11_BOX, data: *const c_void, row_pitch: u32,
        slice_pitch: u32
    ) {
        let (to, layout, _) = resource(raw);
        assert!(!layout.is_planar(), "the simulator updates no planes");
        let rows = part_of(layout.subresource(subresource), layout.texel(subresource), area);
        let [width, height, slices] = rows.extent;
        let (pitch, slice_pitch) = (row_pitch as usize, slice_pitch as usize);
        // What the caller has is read now, and not behind its last row.
        let size = (slices - 1) * slice_pitch + (height - 1) * pitch + width;
        let data = std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec();
        context.0.record(move |_| rows.write(&to, &data, pitch, slice_pitch));
    }

    fn copy(context, target: *mut c_void, source: *mut c_void) {
        let ((to, of_target, _), (from, of_source, _)) = (resource(target), resource(source));
        let (targets, sources) = (of_target.all(), of_source.all());
        let extents = |all: &[Rows]| -> Vec<[usize; 3]> { all.iter().map(|rows| rows.extent).collect() };
        let (target, source) = ((extents(&targets), of_target.texel(0)), (extents(&sources), of_source.texel(0)));
        assert_eq!(target, source, "a copy of another resource's size");
        context.0.record(move |_| {
            sources.iter().zip(&targets).for_each(|(source, target)| source.copy(&from, *target, &to));
        });
    }

    fn copy_region(
        context, target: *mut c_void, target_subresource: u32, x: u32, y: u32, z: u32, source: *mut c_void,
        source_subresource: u32, area: *const D3D11_BOX
    ) {
        let ((to, of_target, _), (from, of_source, _)) = (resource(target), resource(source));
        assert!(!of_source.is_planar() && !of_target.is_planar(), "the simulator copies no boxes of planes");
        let rows = part_of(of_source.subresource(source_subresource), of_source.texel(source_subresource), area);
        let origin = [x as usize * of_target.texel(target_subresource), y as usize, z as usize];
        let target = of_target.subresource(target_subresource).part(origin, rows.extent);
        context.0.record(move |_| rows.copy(&from, target, &to));
    }
}
