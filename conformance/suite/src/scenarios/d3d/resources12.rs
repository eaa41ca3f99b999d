//! Resources of Direct3D 12: heaps, committed resources and textures.

use gpu_interop::d3d::d3d12::{ExportableHeap, ExportableResource, HeapContents, HeapOptions};
use gpu_interop::d3d::{DxgiFormat, ResourceFlags, SrvDimension, TextureSpec};
use gpu_interop::{ErrorKind, MappedMipmappedArray, Stream};

use super::{SIZE, import, import_sized, map_array, name, open12};
use crate::context::Context;
use crate::direct3d::{Gpu12, Subresource};
use crate::outcome::Verdict;
use crate::pattern::{Pattern, verify_bytes};
use crate::scenario::scenarios;
use crate::scenarios::expect_error;
use crate::{ensure, ensure_eq, request};

scenarios! {
    "d3d.heap_of_two_buffers", None,
        "Two buffers on a heap of Direct3D 12 map at their offsets; data goes both ways, and the bytes between stay.", heap,
        needs [memory D3d12Heap],
        mirrors("CUDA C++ Programming Guide: Direct3D 12 interoperability, importing memory objects");
    "d3d.committed_resource", None,
        "A committed resource imports as dedicated, which its request states; data goes both ways.", committed,
        needs [memory D3d12Resource], mirrors("intel/llvm: dx12_interop");
    "d3d.resource_by_name", None,
        "A committed resource and a heap import by the name that they were shared under; the name ends with its last user.",
        named, needs [memory D3d12Heap, memory D3d12Resource, NamedMemory], mirrors("cuda-samples: simpleD3D12");
    "d3d.texture_12", None,
        "Committed textures of Direct3D 12 of two and three dimensions, with layers and mip levels, map as arrays, every \
         texel in both directions, for the formats that the device supports.",
        textures, needs [memory D3d12Resource, MappedMipmappedArray],
        mirrors("CUDA C++ Programming Guide: Direct3D 12 interoperability, mapping mipmapped arrays");
}

/// `D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT`.
const PLACE: u64 = 64 << 10;

fn heap(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let size = 3 * PLACE + SIZE as u64;
    let heap = ExportableHeap::new(gpu.interop(), &HeapOptions::new(size, HeapContents::Buffers))?;
    let (first, second) = (
        heap.place_buffer(PLACE, SIZE as u64, ResourceFlags::empty())?,
        heap.place_buffer(3 * PLACE, SIZE as u64, ResourceFlags::ALLOW_UNORDERED_ACCESS)?,
    );
    let request = heap.import_request()?;
    ensure!(!request.is_dedicated(), "a heap is no dedicated allocation");
    let memory = context.device().import_memory(request)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    // The whole heap, so that the bytes between the resources are checked, too.
    let whole = memory.map_buffer(0..size)?;
    stream.fill(&whole, 0x11)?;
    stream.synchronize()?;
    for (level, placed) in [&first, &second].into_iter().enumerate() {
        let pattern = pattern.level(u32::try_from(level).unwrap_or(0));
        gpu.write(placed.resource(), 0, &pattern.bytes(0, SIZE))?;
        let mapped = memory.map_buffer(placed.offset()..placed.offset() + placed.size()?)?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
        let other = pattern.other();
        stream.write(&mapped, &other.bytes(0, SIZE))?;
        let mut found = vec![0; SIZE];
        gpu.read(placed.resource(), 0, &mut found)?;
        other.verify(0, &found, "the device's data")?;
    }
    let found = context.read(&stream, &whole)?;
    let (page, size) = (usize::try_from(PLACE)?, SIZE);
    for (what, gap) in [("before", 0..page), ("between", page + size..3 * page)] {
        verify_bytes(&found[gap], 0x11, format_args!("the bytes {what} the buffers were written"))?;
    }
    Ok(())
}

fn committed(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    for size in [1, 4096, 4097, 1 << 20] {
        let buffer = ExportableResource::buffer(gpu.interop(), size as u64, ResourceFlags::empty())?;
        let request = buffer.import_request()?;
        ensure!(request.is_dedicated(), "the request of a committed resource lacks the dedicated flag");
        ensure!(request.size() >= size as u64, "{} bytes for {size}", request.size());
        // Drivers reject it without the flag; the library rejects it before the driver is called.
        let not = context.device().import_memory(request::with_dedicated(buffer.import_request()?, false));
        crate::scenarios::rejected(not, &[ErrorKind::InvalidArgument], "a committed resource that is not dedicated")?;
        let mapped = context.device().import_memory(request)?.map_buffer(0..size as u64)?;
        gpu.write(buffer.resource(), 0, &pattern.bytes(0, size))?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
        let other = pattern.other();
        stream.write(&mapped, &other.bytes(0, size))?;
        let mut found = vec![0; size];
        gpu.read(buffer.resource(), 0, &mut found)?;
        other.verify(0, &found, "the device's data")?;
    }
    Ok(())
}

fn named(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let (of_buffer, of_heap) = (name("buffer")?, name("heap")?);
    let buffer = ExportableResource::buffer(gpu.interop(), SIZE as u64, ResourceFlags::empty())?;
    let (kept, request) = buffer.import_request_by_name(&of_buffer)?;
    let again = buffer.import_request_by_name(&of_buffer);
    expect_error(again, ErrorKind::InvalidArgument, "a name that is taken")?;
    let mapped = import_sized(context, request, SIZE)?;
    gpu.write(buffer.resource(), 0, &pattern.bytes(0, SIZE))?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
    // The import keeps the memory.
    drop(kept);
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    let mut found = vec![0; SIZE];
    gpu.read(buffer.resource(), 0, &mut found)?;
    pattern.other().verify(0, &found, "the device's data once the handle was closed")?;
    mapped.close()?;
    let gone = gpu.interop().open_by_name(&of_buffer);
    expect_error(gone, ErrorKind::InvalidArgument, "a name whose handles and imports are closed")?;

    let heap = ExportableHeap::new(gpu.interop(), &HeapOptions::new(PLACE, HeapContents::Buffers))?;
    let (_kept, request) = heap.import_request_by_name(&of_heap)?;
    let placed = heap.place_buffer(0, SIZE as u64, ResourceFlags::empty())?;
    let mapped = import(context, request)?;
    ensure_eq!(mapped.size(), PLACE, "bytes of the heap");
    stream.fill(&mapped, 0x7e)?;
    stream.synchronize()?;
    gpu.read(placed.resource(), 0, &mut found)?;
    verify_bytes(&found, 0x7e, "the heap that has the name is another")
}

/// Formats with the bytes of a texel.
const FORMATS: [(DxgiFormat, usize); 4] = [
    (DxgiFormat::R8G8B8A8_UNORM, 4),
    (DxgiFormat::R16_UINT, 2),
    (DxgiFormat::R32G32B32A32_FLOAT, 16),
    (DxgiFormat::R8_SINT, 1),
];

/// View dimension, width, height and depth or layers, and mip levels of a texture.
type Shape = (SrvDimension, (u32, u32, u16), u16);

const SHAPES: [Shape; 3] = [
    (SrvDimension::TEXTURE2D, (67, 45, 1), 3),
    (SrvDimension::TEXTURE2DARRAY, (33, 20, 3), 2),
    (SrvDimension::TEXTURE3D, (31, 17, 5), 1),
];

fn textures(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let stream = context.stream()?;
    let mut mapped_some = false;
    for (dimension, (width, height, depth), levels) in SHAPES {
        for (format, texel) in FORMATS {
            let what = format!("{dimension:?}, {format:?}");
            let spec = TextureSpec::new(dimension, (width.into(), height, depth), format).levels(levels);
            let texture = ExportableResource::texture(gpu.interop(), &spec, ResourceFlags::empty())?;
            let mapped = map_array(context, texture.import_request()?, &texture.array_desc()?, &what)?;
            let Some(array) = mapped else { continue };
            mapped_some = true;
            let both = Both { gpu: &gpu, texture: &texture, spec, texel, stream: &stream, array: &array };
            (0..levels)
                .try_for_each(|level| both.exchange(level, context.pattern(), &format!("{what}, level {level}")))?;
        }
    }
    ensure!(mapped_some, "the device maps none of these formats");
    Ok(())
}

/// A texture on both sides.
struct Both<'a> {
    gpu: &'a Gpu12,
    texture: &'a ExportableResource,
    spec: TextureSpec,
    texel: usize,
    stream: &'a Stream,
    array: &'a MappedMipmappedArray,
}

impl Both<'_> {
    /// The subresources of a level: its layers, or the one with all slices.
    fn subresources(&self, level: u16) -> Verdict<Vec<Subresource<'_>>> {
        let TextureSpec { dimension, width, height, depth_or_array_size, levels, format, .. } = self.spec;
        let shrunk = |n: u32| (n >> level).max(1);
        let depth = u32::from(depth_or_array_size);
        let (layers, slices) = if dimension == SrvDimension::TEXTURE3D { (1, shrunk(depth)) } else { (depth, 1) };
        let width = u32::try_from(width).map_err(|error| crate::outcome::Stop::failed(error.to_string()))?;
        let layer = |layer| Subresource {
            texture: self.texture.resource(),
            number: u32::from(level) + layer * u32::from(levels),
            format: format.into(),
            extent: [shrunk(width), shrunk(height), slices],
            texel: self.texel,
        };
        Ok((0..layers).map(layer).collect())
    }

    /// Every texel of a level, from Direct3D to the device and back.
    fn exchange(&self, level: u16, pattern: Pattern, what: &str) -> Verdict {
        let pattern = pattern.level(level.into());
        let subresources = self.subresources(level)?;
        let [width, height, slices] = subresources[0].extent.map(|n| n as usize);
        let size = width * height * slices * self.texel;
        let data = pattern.bytes(0, size * subresources.len());
        for (subresource, data) in subresources.iter().zip(data.chunks_exact(size)) {
            self.gpu.write_texture(*subresource, data)?;
        }
        let mut found = vec![0; data.len()];
        self.stream.read_array(self.array.level(level.into())?, &mut found)?;
        pattern.verify(0, &found, format_args!("{what}: Direct3D's data"))?;

        self.stream.write_array(self.array.level(level.into())?, &pattern.other().bytes(0, data.len()))?;
        let mut found = Vec::with_capacity(data.len());
        for subresource in subresources {
            found.extend(self.gpu.read_texture(subresource)?);
        }
        pattern.other().verify(0, &found, format_args!("{what}: the device's data"))
    }
}
