//! Command lists of Direct3D 12, for copies.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, HRESULT, Interface};

use crate::object::{Stand, borrowed, create, state, table, unknown};
use crate::resource12::Resource;
use crate::section::Part;
use crate::{E_INVALIDARG, layout};

/// A recorded command.
pub(crate) type Command = Arc<dyn Fn() + Send + Sync>;

/// A list, created in the recording state.
#[derive(Default)]
pub(crate) struct List(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    closed: bool,
    commands: Vec<Command>,
}

impl Stand for List {
    const LINE: &'static [GUID] =
        &[ID3D12Object::IID, ID3D12DeviceChild::IID, ID3D12CommandList::IID, ID3D12GraphicsCommandList::IID];
}

impl List {
    pub(crate) fn create() -> ID3D12GraphicsCommandList {
        static TABLE: OnceLock<ID3D12GraphicsCommandList_Vtbl> = OnceLock::new();
        let methods = TABLE.get_or_init(|| {
            // SAFETY: the table is that of the interface.
            let mut table = unsafe { table::<ID3D12GraphicsCommandList_Vtbl>() };
            table.base__.base__.base__.base__ = unknown::<Self>();
            table.Close = close;
            table.Reset = reset;
            table.ResourceBarrier = barrier;
            table.CopyBufferRegion = copy_buffer;
            table.CopyTextureRegion = copy_texture;
            table
        });
        // SAFETY: the interface is the last of its ancestors, and the methods are its own.
        unsafe { create(methods, Arc::<Self>::default()) }
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded commands.
    ///
    /// # Panics
    /// If the list is still recording.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let recorded = self.recorded();
        assert!(recorded.closed, "a list is executed while it records");
        recorded.commands.clone()
    }

    fn record(&self, command: impl Fn() + Send + Sync + 'static) {
        let mut recorded = self.recorded();
        assert!(!recorded.closed, "a list that is closed records");
        recorded.commands.push(Arc::new(command));
    }
}

// SAFETY of all below: Direct3D's rules: `this` is such a list, pointers are valid, and resources are of this device.

unsafe extern "system" fn close(this: *mut c_void) -> HRESULT {
    // SAFETY: see above.
    let mut recorded = unsafe { state::<List>(this) }.recorded();
    if std::mem::replace(&mut recorded.closed, true) { E_INVALIDARG } else { HRESULT(0) }
}

unsafe extern "system" fn reset(this: *mut c_void, _: *mut c_void, _: *mut c_void) -> HRESULT {
    // SAFETY: see above.
    *unsafe { state::<List>(this) }.recorded() = Recorded::default();
    HRESULT(0)
}

unsafe extern "system" fn barrier(_: *mut c_void, _: u32, _: *const D3D12_RESOURCE_BARRIER) {}

/// The implementation of a resource.
///
/// # Safety
/// The resource is live, or null.
unsafe fn resource(raw: *mut c_void) -> (Part, layout::Layout) {
    assert!(!raw.is_null(), "no resource");
    // SAFETY: the caller's promise.
    let resource = unsafe { borrowed::<ID3D12Resource>(raw) };
    let resource = resource.cast_object_ref::<Resource>().expect("a resource of the simulator");
    (resource.part.clone(), resource.layout.clone())
}

unsafe extern "system" fn copy_buffer(
    this: *mut c_void,
    target: *mut c_void,
    target_offset: u64,
    source: *mut c_void,
    source_offset: u64,
    size: u64,
) {
    // SAFETY: see above.
    let (list, (to, _), (from, _)) = unsafe { (state::<List>(this), resource(target), resource(source)) };
    let [to_offset, from_offset, size] =
        [target_offset, source_offset, size].map(|bytes| usize::try_from(bytes).expect("64 bits"));
    // Checked here, so that the failing call is visible.
    to.with(to_offset, size, |_| ());
    from.with(from_offset, size, |_| ());
    list.record(move || Part::copy((&from, from_offset), (&to, to_offset), size));
}

/// The rows of a location, and their resource.
///
/// # Safety
/// The location is valid.
unsafe fn location(location: *const D3D12_TEXTURE_COPY_LOCATION) -> (Part, layout::Rows, usize) {
    // SAFETY: the caller's promise; what is behind the union is told by the type.
    unsafe {
        let location = &*location;
        let raw = location.pResource.as_ref().map_or(std::ptr::null_mut(), Interface::as_raw);
        let (part, own) = resource(raw);
        if location.Type == D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX {
            let rows = own.subresource(location.Anonymous.SubresourceIndex);
            return (part, rows, own.texel);
        }
        let placed = location.Anonymous.PlacedFootprint;
        let print = placed.Footprint;
        assert!(placed.Offset.is_multiple_of(512) && print.RowPitch.is_multiple_of(256), "{placed:?}");
        let texel = layout::texel_size(print.Format);
        let pitch = print.RowPitch as usize;
        let (width, height) = (print.Width as usize * texel, print.Height as usize);
        let offset = usize::try_from(placed.Offset).expect("64 bits");
        let extent = [width, height, print.Depth as usize];
        let rows = layout::Rows { offset, pitch, slice_pitch: pitch * height, extent };
        // As for buffers.
        part.with(offset, rows.size(), |_| ());
        (part, rows, texel)
    }
}

unsafe extern "system" fn copy_texture(
    this: *mut c_void,
    target: *const D3D12_TEXTURE_COPY_LOCATION,
    x: u32,
    y: u32,
    z: u32,
    source: *const D3D12_TEXTURE_COPY_LOCATION,
    area: *const D3D12_BOX,
) {
    assert!(area.is_null(), "the simulator copies whole subresources");
    // SAFETY: see above.
    let (list, (to, target, texel), (from, source, of_source)) =
        unsafe { (state::<List>(this), location(target), location(source)) };
    assert_eq!(texel, of_source, "bytes of a texel");
    let target = target.part([x as usize * texel, y as usize, z as usize], source.extent);
    list.record(move || source.copy(&from, target, &to));
}
