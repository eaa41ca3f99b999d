//! Checks that no handle leaks and none is closed twice. Counts the process's handles, so this is the only test of its
//! process. The devices are simulators that return real handles.
#![cfg(windows)]
#![allow(clippy::expect_used)]

mod simulated;

use std::os::windows::io::AsRawHandle;
use std::time::Duration;

use gpu_interop_core::{ErrorKind, ExporterTimeline};
use gpu_interop_d3d::d3d11::{self, D3d11Interop};
use gpu_interop_d3d::d3d12::{self, D3d12Interop, ExportableHeap, HeapContents, HeapOptions};
use gpu_interop_d3d::{BindFlags, ResourceFlags, Sharing};
use simulated::os;
use simulated::{Behavior11, Behavior12, Device11, Device12, E_NOTIMPL};
use windows::Win32::Foundation::HANDLE;
use windows::core::PCWSTR;

/// How often each object is exported. Nightly runs do it 10,000 times.
fn cycle_count() -> u32 {
    std::env::var("GPU_INTEROP_TEST_CYCLES").map_or(1_000, |count| count.parse().expect("a number of cycles"))
}

/// Result of a cycle: the handle's number and its owner.
type Exported = (HANDLE, Box<dyn std::any::Any>);

/// Exports repeatedly. Between two closes a bystander opens a handle, which gets the number of the first: the system
/// assigns the lowest free number.
fn cycles(what: &str, mut export: impl FnMut() -> Exported) {
    let (before, count) = (os::handle_count(), cycle_count());
    let mut taken_over = 0;
    for cycle in 0..count {
        let (first, first_owner) = export();
        let (second, second_owner) = export();
        assert!(first != second && os::is_open(first) && os::is_open(second), "{what}, {cycle}");
        drop(first_owner);
        assert!(!os::is_open(first), "{what}, {cycle}: closed with its owner");
        let bystander = os::create_section(1, PCWSTR::null()).expect("a section");
        let number = HANDLE(bystander.as_raw_handle());
        taken_over += u32::from(number == first);
        drop(second_owner);
        assert!(!os::is_open(second), "{what}, {cycle}: closed with its owner");
        assert!(os::is_open(number), "{what}, {cycle}: a bystander's handle was closed");
    }
    let after = os::handle_count();
    println!("{what}: {before} handles before {count} cycles, {after} after; {taken_over} numbers taken over");
    assert!(after <= before + 8, "{what}: {before} handles before, {after} after");
    assert!(taken_over > count / 2, "{what}: the bystanders must reuse closed numbers: {taken_over}");
}

fn exports_of_direct3d_12() {
    let (device, _) = Device12::new(Behavior12::default());
    let interop = D3d12Interop::new(&device).expect("one node");
    let resource = d3d12::ExportableResource::buffer(&interop, 16, ResourceFlags::empty()).expect("a buffer");
    let heap = ExportableHeap::new(&interop, &HeapOptions::new(16, HeapContents::Buffers)).expect("a heap");
    let fence = d3d12::ExportableFence::new(&interop, 0).expect("a fence");
    let of_memory = |request: gpu_interop_core::MemoryImport| -> Exported {
        (os::raw_of_memory(request.handle()), Box::new(request))
    };
    cycles("ID3D12Resource", || of_memory(resource.import_request().expect("a request")));
    cycles("ID3D12Heap", || of_memory(heap.import_request().expect("a request")));
    cycles("ID3D12Fence", || {
        let request = fence.import_request().expect("a request");
        (os::raw_of_semaphore(request.handle()), Box::new(request))
    });
    // The counted handles exist.
    let before = os::handle_count();
    let kept: Vec<_> = (0..1000).map(|_| heap.export().expect("a handle")).collect();
    assert_eq!(os::handle_count(), before + 1000);
    drop(kept);
    assert_eq!(os::handle_count(), before);
}

fn exports_of_direct3d_11() {
    let (device, _) = Device11::new(Behavior11::default());
    let interop = D3d11Interop::new(&device).expect("a device");
    let bind = BindFlags::SHADER_RESOURCE;
    let resource =
        d3d11::ExportableResource::buffer(&interop, 16, bind, Sharing::NtHandleKeyedMutex).expect("a buffer");
    let mutex = resource.keyed_mutex().expect("a mutex");
    let fence = d3d11::ExportableFence::new(&interop, 0).expect("a fence");
    cycles("ID3D11Resource", || {
        let request = resource.import_request().expect("a request");
        (os::raw_of_memory(request.handle()), Box::new(request))
    });
    let of_semaphore = |request: gpu_interop_core::SemaphoreImport| -> Exported {
        (os::raw_of_semaphore(request.handle()), Box::new(request))
    };
    cycles("IDXGIKeyedMutex", || of_semaphore(mutex.import_request().expect("a request")));
    cycles("ID3D11Fence", || of_semaphore(fence.import_request().expect("a request")));
}

fn refused_exports() {
    let (device, _) = Device12::new(Behavior12 { share: Some(E_NOTIMPL), ..Behavior12::default() });
    let interop = D3d12Interop::new(&device).expect("one node");
    let resource = d3d12::ExportableResource::buffer(&interop, 16, ResourceFlags::empty()).expect("a buffer");
    let heap = ExportableHeap::new(&interop, &HeapOptions::new(16, HeapContents::Buffers)).expect("a heap");
    let fence = d3d12::ExportableFence::new(&interop, 0).expect("a fence");
    let (device, _) = Device11::new(Behavior11 { share: Some(E_NOTIMPL), ..Behavior11::default() });
    let interop = D3d11Interop::new(&device).expect("a device");
    let older = [Sharing::NtHandle, Sharing::KmtKeyedMutex].map(|sharing| {
        d3d11::ExportableResource::buffer(&interop, 16, BindFlags::VERTEX_BUFFER, sharing).expect("a buffer")
    });
    let mutex = older[1].keyed_mutex().expect("a mutex");
    let before = os::handle_count();
    for _ in 0..cycle_count() / 10 {
        for (error, operation) in [
            (resource.export().map(drop), "ID3D12Device::CreateSharedHandle"),
            (heap.import_request().map(drop), "ID3D12Device::CreateSharedHandle"),
            (fence.export().map(drop), "ID3D12Device::CreateSharedHandle"),
            (older[0].export().map(drop), "IDXGIResource1::CreateSharedHandle"),
            (older[1].export().map(drop), "IDXGIResource::GetSharedHandle"),
            (mutex.export().map(drop), "IDXGIResource::GetSharedHandle"),
        ] {
            let error = error.expect_err("not implemented");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, operation));
            assert!(error.to_string().contains("E_NOTIMPL") && error.device().is_some(), "{error}");
        }
    }
    assert_eq!(os::handle_count(), before);
}

fn waits_in_short_turns() {
    let (device, state) = Device12::new(Behavior12::default());
    let interop = D3d12Interop::new(&device).expect("one node");
    let fence = d3d12::ExportableFence::new(&interop, 0).expect("a fence");
    let waiter = fence.waiter().expect("a waiter");
    let before = os::handle_count();
    for _ in 0..200 {
        let error = fence.wait(1, Duration::from_millis(1)).expect_err("no signal");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        waiter.wait_any(&[(&fence, 1)], Duration::from_millis(1)).expect("no failure");
    }
    // One event of the wait, and the registrations of the fence and of the waiter.
    let counter = state.fences()[0].clone();
    assert_eq!((os::handle_count() - before, counter.waiting()), (3, 2));
    fence.signal(1).expect("the first value");
    fence.wait(1, Duration::ZERO).expect("reached");
    assert_eq!(counter.waiting(), 0);
    drop((waiter, fence, counter, state));
    drop((interop, device));
}

#[test]
fn no_handle_is_left_open_and_none_is_closed_twice() {
    exports_of_direct3d_12();
    exports_of_direct3d_11();
    refused_exports();
    let before = os::handle_count();
    waits_in_short_turns();
    // The waiter's own event existed before the count.
    assert!(os::handle_count() <= before, "{} handles, {before} before", os::handle_count());
}
