//! Direct3D 12 as exporter.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::d3d::ResourceFlags;
use gpu_interop::d3d::d3d12::{
    ExportableFence, ExportableHeap, ExportableResource, HeapContents, HeapOptions, PlacedResource,
};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::ID3D12Resource;
use gpu_interop::handle::{NtHandle, Win32Object};
use gpu_interop::{
    Device, DeviceIdentity, Error, ErrorKind, ExporterTimeline, MemoryHandle, MemoryImport, SemaphoreHandle,
    SemaphoreImport,
};

use super::buffer::too_great;
use super::semaphore::handle_of;
use super::{
    BufferAccess, BufferSpec, D3D12_FENCES, D3D12_IMPORTS, D3D12_PLACEMENT, Exchange, ExportedBuffer,
    ExportedSemaphore, Exporter, Placement, Point, is_met,
};
use crate::backend_under_test::BackendUnderTest;
use crate::direct3d::Gpu12;
use crate::outcome::{Stop, Verdict};
use crate::request;
use crate::system::OsHandle;

pub(super) struct D3d12Exporter {
    gpu: Gpu12,
}

impl D3d12Exporter {
    pub(super) fn open(backend: &BackendUnderTest, importer: &Device) -> Verdict<Self> {
        if backend.has_system_objects() {
            return Err(Stop::unsupported("the host backend imports nothing of Direct3D".into()));
        }
        Ok(Self { gpu: Gpu12::open(importer)? })
    }
}

/// An unsupported operation makes the scenario unsupported.
fn unsupported(size: u64, error: Error) -> Stop {
    match error.kind() {
        ErrorKind::Unsupported => Stop::unsupported(error.to_string()),
        _ => too_great(size, error),
    }
}

impl Exporter for D3d12Exporter {
    fn identity(&self) -> &DeviceIdentity {
        self.gpu.interop().identity()
    }

    fn describe(&self) -> String {
        self.gpu.description().into()
    }

    /// A dedicated allocation is a committed resource; any other buffer is placed on a separate heap.
    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>> {
        if spec.placement == Placement::HostVisible {
            return Err(Stop::unsupported(D3D12_PLACEMENT.into()));
        }
        let (interop, flags) = (self.gpu.interop(), ResourceFlags::empty());
        let memory = if spec.dedicated {
            ExportableResource::buffer(interop, spec.size, flags).map(Memory::Committed)
        } else {
            ExportableHeap::new(interop, &HeapOptions::new(spec.size, HeapContents::Buffers))
                .and_then(|heap| heap.place_buffer(0, spec.size, flags))
                .map(Memory::Placed)
        };
        let memory = memory.map_err(|error| unsupported(spec.size, error))?;
        Ok(Box::new(D3d12Buffer { gpu: self.gpu.clone(), memory, size: spec.size }))
    }

    fn import(&self, _: MemoryImport, _: u64) -> Verdict<Box<dyn BufferAccess>> {
        Err(Stop::unsupported(D3D12_IMPORTS.into()))
    }

    fn sent_memory(&self, handle: OsHandle, size: u64) -> MemoryImport {
        let handle = MemoryHandle::D3d12Heap(Win32Object::Handle(handle.into()));
        request::memory(handle, size).exported_by(self.identity().clone())
    }

    fn sent_timeline(&self, handle: OsHandle) -> SemaphoreHandle {
        SemaphoreHandle::D3d12Fence(Win32Object::Handle(handle.into()))
    }

    fn binary_semaphore(&self) -> Verdict<Box<dyn ExportedSemaphore>> {
        Err(no_binary())
    }

    fn timeline_semaphore(&self, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        let fence = ExportableFence::new(self.gpu.interop(), value)?;
        Ok(Box::new(D3d12Fence { gpu: self.gpu.clone(), fence }))
    }

    fn timeline(&self, value: u64) -> Verdict<Arc<dyn ExporterTimeline>> {
        Ok(Arc::new(ExportableFence::new(self.gpu.interop(), value)?))
    }

    /// The greatest `u64` is the value of a fence whose device is lost.
    fn greatest_value(&self) -> u64 {
        u64::MAX - 1
    }

    fn send_timeline(&self, timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
        handle_of(timeline.export()?.into_handle())
    }

    fn open_timeline(&self, timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
        let interop = self.gpu.interop();
        let fence = interop.open_fence(&NtHandle::from(timeline))?;
        Ok(Arc::new(ExportableFence::from_raw(interop, fence)))
    }

    fn binary_as_timeline(&self) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_binary())
    }
}

fn no_binary() -> Stop {
    Stop::unsupported(D3D12_FENCES.into())
}

enum Memory {
    Committed(ExportableResource),
    Placed(PlacedResource),
}

impl Memory {
    fn resource(&self) -> &ID3D12Resource {
        match self {
            Self::Committed(resource) => resource.resource(),
            Self::Placed(placed) => placed.resource(),
        }
    }
}

struct D3d12Buffer {
    gpu: Gpu12,
    memory: Memory,
    size: u64,
}

impl BufferAccess for D3d12Buffer {
    fn size(&self) -> u64 {
        self.size
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        self.gpu.write(self.memory.resource(), offset, data)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        self.gpu.read(self.memory.resource(), offset, data)
    }
}

impl ExportedBuffer for D3d12Buffer {
    fn import_request(&self) -> Verdict<MemoryImport> {
        Ok(match &self.memory {
            Memory::Committed(resource) => resource.import_request()?,
            Memory::Placed(placed) => placed.heap().import_request()?,
        })
    }

    fn exchange(&self, wait: Point<'_>, data: &[u8], signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        self.gpu.exchange(self.memory.resource(), wait, data, signal)
    }
}

struct D3d12Fence {
    gpu: Gpu12,
    fence: ExportableFence,
}

impl ExportedSemaphore for D3d12Fence {
    fn export(&self) -> Verdict<SemaphoreHandle> {
        Ok(self.fence.export()?)
    }

    fn import_request(&self) -> Verdict<SemaphoreImport> {
        Ok(self.fence.import_request()?)
    }

    /// Signalled by the queue, as in a renderer.
    fn signal(&self, value: u64) -> Verdict {
        self.gpu.signal(&self.fence, value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Verdict<bool> {
        is_met(self.fence.wait(value, timeout))
    }

    fn as_timeline(&self) -> Option<Arc<dyn ExporterTimeline>> {
        Some(Arc::new(self.fence.clone()))
    }
}
