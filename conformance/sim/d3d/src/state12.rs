//! The state of a device of Direct3D 12.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::HRESULT;

use crate::counter::{Counter, Fences};
use crate::object::borrowed;

/// Behaviour of a device.
#[derive(Debug, Clone, Copy)]
pub struct Behavior12 {
    /// Number of nodes.
    pub nodes: u32,
    /// `D3D12_RESOURCE_HEAP_TIER`.
    pub heap_tier: i32,
    /// Result of sharing, instead of a handle.
    pub share: Option<HRESULT>,
    /// Granularity of allocations, bytes.
    pub alignment: u64,
}

impl Default for Behavior12 {
    fn default() -> Self {
        Self { nodes: 1, heap_tier: 2, share: None, alignment: 64 << 10 }
    }
}

/// The device, and the recorded requests.
#[derive(Debug)]
pub struct Device12 {
    /// Its behaviour.
    pub behavior: Behavior12,
    /// `true` if the device is lost.
    pub lost: AtomicBool,
    /// Requests for heaps.
    pub heaps: Mutex<Vec<D3D12_HEAP_DESC>>,
    /// Requests for committed resources.
    pub committed: Mutex<Vec<(D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS, D3D12_RESOURCE_DESC)>>,
    /// Requests for placed resources, with their offsets.
    pub placed: Mutex<Vec<(u64, D3D12_RESOURCE_DESC)>>,
    /// Requests for fences.
    pub fence_flags: Mutex<Vec<D3D12_FENCE_FLAGS>>,
    pub(crate) fences: Fences,
    /// Its object, which lives longer.
    pub(crate) object: AtomicPtr<c_void>,
}

impl Device12 {
    /// A new reference to the object.
    ///
    /// # Safety
    /// The caller has a reference, as in a call of a method.
    pub(crate) unsafe fn object(&self) -> ID3D12Device {
        // SAFETY: the caller's promise.
        let device = unsafe { borrowed::<ID3D12Device>(self.object.load(Ordering::Relaxed)) };
        (*device).clone()
    }

    /// Loses the device, as a driver does: every fence has the greatest value then.
    ///
    /// # Panics
    /// If a thread that uses the device panicked.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        self.fences().iter().for_each(|fence| fence.set(u64::MAX));
    }

    /// The existing fences.
    ///
    /// # Panics
    /// As [`lose`](Self::lose).
    pub fn fences(&self) -> Vec<Arc<Counter>> {
        self.fences.all()
    }
}
