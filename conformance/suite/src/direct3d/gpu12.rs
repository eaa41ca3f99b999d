//! A Direct3D 12 device with a queue, and operations of the suite.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpu_interop::d3d::d3d12::{D3d12Interop, ExportableFence};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::{
    D3D12_COMMAND_LIST_TYPE_DIRECT, D3D12_COMMAND_QUEUE_DESC, D3D12_HEAP_FLAG_NONE, D3D12_HEAP_PROPERTIES,
    D3D12_HEAP_TYPE, D3D12_HEAP_TYPE_READBACK, D3D12_HEAP_TYPE_UPLOAD, D3D12_PLACED_SUBRESOURCE_FOOTPRINT, D3D12_RANGE,
    D3D12_RESOURCE_BARRIER, D3D12_RESOURCE_BARRIER_0, D3D12_RESOURCE_BARRIER_TYPE_TRANSITION, D3D12_RESOURCE_DESC,
    D3D12_RESOURCE_DIMENSION_BUFFER, D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST,
    D3D12_RESOURCE_STATE_COPY_SOURCE, D3D12_RESOURCE_STATE_GENERIC_READ, D3D12_RESOURCE_STATES,
    D3D12_RESOURCE_TRANSITION_BARRIER, D3D12_SUBRESOURCE_FOOTPRINT, D3D12_TEXTURE_COPY_LOCATION,
    D3D12_TEXTURE_COPY_LOCATION_0, D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT, D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
    D3D12_TEXTURE_DATA_PITCH_ALIGNMENT, D3D12_TEXTURE_LAYOUT_ROW_MAJOR, ID3D12CommandAllocator, ID3D12CommandList,
    ID3D12CommandQueue, ID3D12GraphicsCommandList, ID3D12Resource,
};
use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT, DXGI_SAMPLE_DESC};
use gpu_interop::d3d::windows::core::Interface;
use gpu_interop::sync::{lock, unpoisoned};
use gpu_interop::{Device, ErrorKind, ExporterTimeline};

use super::Library;
use crate::exporter::{Exchange, Point};
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};

/// Maximum number of bytes staged at once.
const CHUNK: usize = 16 << 20;

/// The device. Clones refer to the same device.
#[derive(Clone)]
pub(crate) struct Gpu12 {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped before the objects of its work.
    queue: ID3D12CommandQueue,
    submitted: Mutex<Submitted>,
    /// Signalled after each submission.
    done: ExportableFence,
    spare: Mutex<Vec<Staging>>,
    interop: D3d12Interop,
    description: String,
}

#[derive(Default)]
struct Submitted {
    /// Number of submissions so far.
    count: u64,
    /// The objects in use until the work completes: Direct3D 12 keeps no reference.
    uses: Vec<(u64, Uses)>,
}

type Uses = (ID3D12CommandAllocator, ID3D12GraphicsCommandList, Vec<ID3D12Resource>);

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the host.
    Up,
    /// To the host.
    Down,
}

/// A buffer that the host has mapped.
pub(crate) struct Staging {
    pub(crate) resource: ID3D12Resource,
    address: *mut u8,
    size: usize,
    way: Way,
}

// SAFETY: the address belongs to the mapping, which lives as long as the resource; the value's owner is its only user.
unsafe impl Send for Staging {}

impl Staging {
    /// The mapped bytes.
    pub(crate) fn bytes(&mut self, range: Range<usize>) -> Verdict<&mut [u8]> {
        if range.start > range.end || range.end > self.size {
            return Err(Stop::failed(format!("bytes {range:?} of {} that are staged", self.size)));
        }
        // SAFETY: the range is inside of the mapping, and the device does not use it while this is borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address.add(range.start), range.len()) })
    }
}

impl Drop for Inner {
    /// Waits briefly for submitted work. If a wait timed out or a submission failed halfway, the objects that the queue
    /// may still use are leaked with the queue.
    fn drop(&mut self) {
        const A_LITTLE: Duration = Duration::from_secs(1);
        let submitted = std::mem::take(unpoisoned(self.submitted.get_mut()));
        if self.done.wait(submitted.count, A_LITTLE).is_err() {
            std::mem::forget((submitted.uses, self.queue.clone(), self.done.clone()));
        }
    }
}

impl Gpu12 {
    /// The Direct3D 12 device of the importing device.
    pub(crate) fn open(importer: &Device) -> Verdict<Self> {
        let adapter = Library::open()?.adapter(importer)?;
        let device = adapter.device12()?;
        let interop = D3d12Interop::for_importer(&device, importer.identity())?;
        let desc = D3D12_COMMAND_QUEUE_DESC {
            Type: D3D12_COMMAND_LIST_TYPE_DIRECT,
            NodeMask: interop.node_mask(),
            ..D3D12_COMMAND_QUEUE_DESC::default()
        };
        // SAFETY: the description is plain data that outlives the call.
        let queue = unsafe { device.CreateCommandQueue(&raw const desc) }?;
        let done = ExportableFence::new(&interop, 0)?;
        let description = format!("Direct3D 12, {}", adapter.describe());
        let (submitted, spare) = (Mutex::default(), Mutex::default());
        let gpu = Self { inner: Arc::new(Inner { queue, submitted, done, spare, interop, description }) };
        // The queue's own resources are created before a scenario counts.
        gpu.finish(gpu.submit(None, None, Vec::new(), |_| Ok(()))?)?;
        Ok(gpu)
    }

    pub(crate) fn interop(&self) -> &D3d12Interop {
        &self.inner.interop
    }

    pub(crate) fn queue(&self) -> &ID3D12CommandQueue {
        &self.inner.queue
    }

    pub(crate) fn description(&self) -> &str {
        &self.inner.description
    }

    /// An idle mapped buffer of at least this size, bytes.
    pub(crate) fn staging(&self, way: Way, size: usize) -> Verdict<Staging> {
        let mut spare = lock(&self.inner.spare);
        if let Some(found) = spare.iter().position(|spare| spare.way == way && spare.size >= size) {
            return Ok(spare.swap_remove(found));
        }
        drop(spare);
        let (heap, state) = match way {
            Way::Up => (D3D12_HEAP_TYPE_UPLOAD, D3D12_RESOURCE_STATE_GENERIC_READ),
            Way::Down => (D3D12_HEAP_TYPE_READBACK, D3D12_RESOURCE_STATE_COPY_DEST),
        };
        let desc = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
            Width: size as u64,
            Height: 1,
            DepthOrArraySize: 1,
            MipLevels: 1,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
            ..D3D12_RESOURCE_DESC::default()
        };
        let resource = self.unshared(heap, &desc, state)?;
        let mut address = std::ptr::null_mut();
        // SAFETY: the resource has one subresource, and is in memory that the host may map.
        unsafe { resource.Map(0, None::<*const D3D12_RANGE>, Some(&raw mut address)) }?;
        Ok(Staging { resource, address: address.cast(), size, way })
    }

    /// A committed resource that is not shared.
    pub(crate) fn unshared(
        &self,
        heap: D3D12_HEAP_TYPE,
        desc: &D3D12_RESOURCE_DESC,
        state: D3D12_RESOURCE_STATES,
    ) -> Verdict<ID3D12Resource> {
        let node = self.interop().node_mask();
        let memory = D3D12_HEAP_PROPERTIES {
            Type: heap,
            CreationNodeMask: node,
            VisibleNodeMask: node,
            ..D3D12_HEAP_PROPERTIES::default()
        };
        let mut resource: Option<ID3D12Resource> = None;
        let device = self.interop().device();
        // SAFETY: the descriptions are plain data that outlives the call.
        unsafe {
            let (memory, desc) = (&raw const memory, &raw const *desc);
            device.CreateCommittedResource(memory, D3D12_HEAP_FLAG_NONE, desc, state, None, &raw mut resource)?;
        }
        resource.ok_or_else(|| Stop::failed("CreateCommittedResource returned no resource".into()))
    }

    /// Returns staging memory that is no longer used.
    pub(crate) fn give_back(&self, staging: Staging) {
        lock(&self.inner.spare).push(staging);
    }

    /// Submits a list with the commands of `record`, between optional waits and signals. Returns the number to wait
    /// for. The caller passes the resources in use.
    pub(crate) fn submit(
        &self,
        wait: Option<Point<'_>>,
        signal: Option<Point<'_>>,
        uses: Vec<ID3D12Resource>,
        record: impl FnOnce(&ID3D12GraphicsCommandList) -> Verdict,
    ) -> Verdict<u64> {
        let device = self.interop().device();
        // SAFETY: the arguments are plain values, and only this list uses the allocator.
        let (allocator, list) = unsafe {
            let allocator: ID3D12CommandAllocator = device.CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_DIRECT)?;
            let node = self.interop().node_mask();
            let list: ID3D12GraphicsCommandList =
                device.CreateCommandList(node, D3D12_COMMAND_LIST_TYPE_DIRECT, &allocator, None)?;
            (allocator, list)
        };
        record(&list)?;
        // SAFETY: the list is recording.
        unsafe { list.Close() }?;
        let queue = self.queue();
        let mut submitted = lock(&self.inner.submitted);
        let reached = self.inner.done.value()?;
        submitted.uses.retain(|(number, _)| *number > reached);
        if let Some(point) = wait {
            fence(point.timeline)?.queue_wait(queue, point.value)?;
        }
        let lists = [Some(list.cast::<ID3D12CommandList>()?)];
        submitted.count += 1;
        let number = submitted.count;
        // Counted even if the next call fails: a later submission, or the end, then detects the execution.
        submitted.uses.push((number, (allocator, list, uses)));
        // SAFETY: the list is closed; it and all objects that it uses are kept until it was executed.
        unsafe { queue.ExecuteCommandLists(&lists) };
        if let Some(point) = signal {
            fence(point.timeline)?.queue_signal(queue, point.value)?;
        }
        self.inner.done.queue_signal(queue, number)?;
        Ok(number)
    }

    /// Waits for submitted work, and drops the objects it used.
    pub(crate) fn finish(&self, number: u64) -> Verdict {
        self.inner.done.wait(number, WAIT_TIMEOUT).map_err(|error| match error.kind() {
            ErrorKind::Timeout => Stop::failed("the exporter's queue timed out waiting for the device".into()),
            _ => error.into(),
        })?;
        let mut submitted = lock(&self.inner.submitted);
        submitted.uses.retain(|(of, _)| *of > number);
        Ok(())
    }

    /// Signals a fence by the queue, and blocks until it is reached.
    pub(crate) fn signal(&self, fence: &ExportableFence, value: u64) -> Verdict {
        let fence: Arc<dyn ExporterTimeline> = Arc::new(fence.clone());
        let number = self.submit(None, Some(Point { timeline: &fence, value }), Vec::new(), |_| Ok(()))?;
        self.finish(number)
    }

    /// Writes to a buffer, and blocks until completion.
    pub(crate) fn write(&self, buffer: &ID3D12Resource, offset: u64, data: &[u8]) -> Verdict {
        for (chunk, place) in data.chunks(CHUNK).zip((offset..).step_by(CHUNK)) {
            let mut staging = self.staging(Way::Up, chunk.len())?;
            staging.bytes(0..chunk.len())?.copy_from_slice(chunk);
            let uses = vec![buffer.clone(), staging.resource.clone()];
            let number = self.submit(None, None, uses, |list| {
                // SAFETY: both are live, of this device and kept, and the ranges are inside, which Direct3D also
                // checks.
                unsafe { list.CopyBufferRegion(buffer, place, &staging.resource, 0, chunk.len() as u64) };
                Ok(())
            })?;
            self.finish(number)?;
            self.give_back(staging);
        }
        Ok(())
    }

    pub(crate) fn read(&self, buffer: &ID3D12Resource, offset: u64, data: &mut [u8]) -> Verdict {
        for (chunk, place) in data.chunks_mut(CHUNK).zip((offset..).step_by(CHUNK)) {
            let mut staging = self.staging(Way::Down, chunk.len())?;
            let uses = vec![buffer.clone(), staging.resource.clone()];
            let number = self.submit(None, None, uses, |list| {
                // SAFETY: as in `write`.
                unsafe { list.CopyBufferRegion(&staging.resource, 0, buffer, place, chunk.len() as u64) };
                Ok(())
            })?;
            self.finish(number)?;
            chunk.copy_from_slice(staging.bytes(0..chunk.len())?);
            self.give_back(staging);
        }
        Ok(())
    }

    /// One submission: waits, copies a buffer's content out, writes `data`, signals.
    pub(crate) fn exchange(
        &self,
        buffer: &ID3D12Resource,
        wait: Point<'_>,
        data: &[u8],
        signal: Point<'_>,
    ) -> Verdict<Box<dyn Exchange>> {
        let size = data.len();
        let (mut up, down) = (self.staging(Way::Up, size)?, self.staging(Way::Down, size)?);
        up.bytes(0..size)?.copy_from_slice(data);
        let uses = vec![buffer.clone(), up.resource.clone(), down.resource.clone()];
        let number = self.submit(Some(wait), Some(signal), uses, |list| {
            // SAFETY: as in `write`.
            unsafe { list.CopyBufferRegion(&down.resource, 0, buffer, 0, size as u64) };
            // Next comes a write after a read: implicit state changes of buffers start only from the common state.
            transition(list, buffer, D3D12_RESOURCE_STATE_COPY_SOURCE, D3D12_RESOURCE_STATE_COPY_DEST);
            // SAFETY: as above.
            unsafe { list.CopyBufferRegion(buffer, 0, &up.resource, 0, size as u64) };
            Ok(())
        })?;
        Ok(Box::new(Exchanged { gpu: self.clone(), number, up, down, size }))
    }
}

/// A submitted exchange.
struct Exchanged {
    gpu: Gpu12,
    number: u64,
    up: Staging,
    down: Staging,
    size: usize,
}

impl Exchange for Exchanged {
    fn finish(mut self: Box<Self>) -> Verdict<Vec<u8>> {
        self.gpu.finish(self.number)?;
        let found = self.down.bytes(0..self.size)?.to_vec();
        let Self { gpu, up, down, .. } = *self;
        gpu.give_back(up);
        gpu.give_back(down);
        Ok(found)
    }
}

/// Changes the state of a whole resource.
pub(crate) fn transition(
    list: &ID3D12GraphicsCommandList,
    resource: &ID3D12Resource,
    before: D3D12_RESOURCE_STATES,
    after: D3D12_RESOURCE_STATES,
) {
    let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
        pResource: std::mem::ManuallyDrop::new(Some(resource.clone())),
        Subresource: u32::MAX,
        StateBefore: before,
        StateAfter: after,
    };
    let mut barrier = D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: std::mem::ManuallyDrop::new(transition) },
        ..D3D12_RESOURCE_BARRIER::default()
    };
    // SAFETY: the resource is live, and in the stated state; the reference is released once, below.
    unsafe {
        list.ResourceBarrier(std::slice::from_ref(&barrier));
        std::mem::ManuallyDrop::drop(&mut (*barrier.Anonymous.Transition).pResource);
    }
}

pub(crate) fn fence(timeline: &Arc<dyn ExporterTimeline>) -> Verdict<&ExportableFence> {
    let timeline: &dyn Any = &**timeline;
    timeline.downcast_ref().ok_or_else(|| Stop::failed("the timeline is not this exporter's".into()))
}

/// One subresource of a texture: a level of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subresource<'a> {
    pub(crate) texture: &'a ID3D12Resource,
    pub(crate) number: u32,
    pub(crate) format: DXGI_FORMAT,
    /// Texels per row, rows, slices.
    pub(crate) extent: [u32; 3],
    /// Bytes per texel.
    pub(crate) texel: usize,
}

impl Subresource<'_> {
    /// Bytes per row.
    fn row(&self) -> usize {
        self.extent[0] as usize * self.texel
    }

    /// Row pitch in a buffer of a copy.
    fn pitch(&self) -> usize {
        self.row().next_multiple_of(D3D12_TEXTURE_DATA_PITCH_ALIGNMENT as usize)
    }

    /// Rows of all slices.
    fn rows(&self) -> usize {
        self.extent[1] as usize * self.extent[2] as usize
    }

    fn location(&self) -> D3D12_TEXTURE_COPY_LOCATION {
        D3D12_TEXTURE_COPY_LOCATION {
            pResource: ManuallyDrop::new(Some(self.texture.clone())),
            Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: self.number },
        }
    }

    /// A place in a buffer as the other side.
    fn in_buffer(&self, buffer: &ID3D12Resource, offset: u64) -> Verdict<D3D12_TEXTURE_COPY_LOCATION> {
        let [width, height, depth] = self.extent;
        let pitch = u32::try_from(self.pitch())?;
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: self.format,
            Width: width,
            Height: height,
            Depth: depth,
            RowPitch: pitch,
        };
        Ok(D3D12_TEXTURE_COPY_LOCATION {
            pResource: ManuallyDrop::new(Some(buffer.clone())),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
                PlacedFootprint: D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: offset, Footprint: footprint },
            },
        })
    }
}

impl Gpu12 {
    /// Writes all texels of a subresource from tightly packed `data` by the queue, and blocks until completion. The
    /// texture is in the common state before and after.
    pub(crate) fn write_texture(&self, to: Subresource<'_>, data: &[u8]) -> Verdict {
        let mut staging = self.staging(Way::Up, to.pitch() * to.rows())?;
        for (row, texels) in data.chunks_exact(to.row()).take(to.rows()).enumerate() {
            let start = row * to.pitch();
            staging.bytes(start..start + to.row())?.copy_from_slice(texels);
        }
        self.copy_plane(to, &staging.resource, 0, Way::Up)?;
        self.give_back(staging);
        Ok(())
    }

    /// Reads all texels of a subresource, tightly packed.
    pub(crate) fn read_texture(&self, from: Subresource<'_>) -> Verdict<Vec<u8>> {
        let mut staging = self.staging(Way::Down, from.pitch() * from.rows())?;
        self.copy_plane(from, &staging.resource, 0, Way::Down)?;
        let mut found = Vec::with_capacity(from.row() * from.rows());
        for row in 0..from.rows() {
            let start = row * from.pitch();
            found.extend_from_slice(staging.bytes(start..start + from.row())?);
        }
        self.give_back(staging);
        Ok(found)
    }

    /// Copies a subresource from or to a buffer, with the smallest row pitch that Direct3D allows, and blocks until
    /// completion.
    pub(crate) fn copy_plane(&self, of: Subresource<'_>, buffer: &ID3D12Resource, offset: u64, way: Way) -> Verdict {
        let mut buffer = of.in_buffer(buffer, offset)?;
        let mut texture = of.location();
        let uses: Vec<ID3D12Resource> =
            [&buffer, &texture].into_iter().filter_map(|side| side.pResource.as_ref().cloned()).collect();
        let (state, target, source) = match way {
            Way::Up => (D3D12_RESOURCE_STATE_COPY_DEST, &raw const texture, &raw const buffer),
            Way::Down => (D3D12_RESOURCE_STATE_COPY_SOURCE, &raw const buffer, &raw const texture),
        };
        let submitted = self.submit(None, None, uses, |list| {
            transition(list, of.texture, D3D12_RESOURCE_STATE_COMMON, state);
            // SAFETY: both sides are live, of this device and kept, and have the stated size; the structures outlive
            // the call.
            unsafe { list.CopyTextureRegion(target, 0, 0, 0, source, None) };
            transition(list, of.texture, state, D3D12_RESOURCE_STATE_COMMON);
            Ok(())
        });
        for side in [&mut buffer, &mut texture] {
            // SAFETY: the reference is released once; the submitted list keeps the resources alive.
            unsafe { ManuallyDrop::drop(&mut side.pResource) };
        }
        self.finish(submitted?)
    }
}
