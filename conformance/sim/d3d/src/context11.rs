//! Immediate contexts of Direct3D 11.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D11::*;
use windows::core::{GUID, HRESULT, Interface};

use crate::counter::Counter;
use crate::layout::{Layout, Rows};
use crate::object::{Stand, borrowed, methods, object, unknown};
use crate::queue::Queue;
use crate::resource11::{Fence, common};
use crate::section::Part;
use crate::{E_INVALIDARG, faults};

/// A device's immediate context. It executes commands in order, and starts at a flush, a map or the release of a keyed
/// mutex, the latest time that Direct3D permits.
pub(crate) struct Context11(Arc<Queue>);

impl Stand for Context11 {
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
