//! The operations on buffers: one row each. A new operation is a row of [`OPERATIONS`] and a function.

use gpu_interop::vulkan::OwnedBuffer;
use gpu_interop::vulkan::ash::vk;
use vk::{AccessFlags as Access, BufferUsageFlags as Usage, PipelineStageFlags as Stage};

use super::gpu::{Attachments, Bindings, Bound, Drawing, Gpu, PrivateImage, rectangle};
use super::operation::{COMPUTE, GRAPHICS, Kind, Masks, Operation, Outcome, TRANSFER, operations};
use super::shaders::{self, Shader};
use crate::outcome::{Stop, Verdict};
use crate::pattern::compare;

/// Size of the shared buffer, bytes: that of the shaders' uniform buffer.
pub(super) const SIZE: usize = 4096;
/// Its 32-bit words.
const WORDS: u32 = 1024;
const _: () = assert!(WORDS as usize * 4 == SIZE);

/// An operation on a buffer. Its subject: the words that the other side writes before; `None` for arbitrary ones.
pub(super) type BufferOperation = Operation<Usage, Option<fn() -> Vec<u32>>, fn(&BufferWork<'_>) -> Verdict<Outcome>>;

/// The shared buffer during an operation.
pub(super) struct BufferWork<'a> {
    pub(super) gpu: &'a Gpu<'a>,
    pub(super) commands: vk::CommandBuffer,
    pub(super) buffer: vk::Buffer,
    /// Its bytes as the other side wrote them.
    pub(super) before: &'a [u8],
    /// Other bytes, to write.
    pub(super) data: &'a [u8],
}

const fn masks(stages: Stage, access: Access) -> Masks {
    Masks { stages, access, layout: vk::ImageLayout::GENERAL }
}

const COPIED: Masks = masks(Stage::TRANSFER, Access::TRANSFER_WRITE);
// Columns: name, kind, the scenario's sentence, usage, queue, masks, the words before, commands.
operations! {
    BufferOperation, buffers_in;
    "fill" Changes, "vkCmdFillBuffer: the device finds every word.",
        Usage::empty(), TRANSFER, COPIED, None, fill;
    "update" Writes, "vkCmdUpdateBuffer: the device finds every word.",
        Usage::empty(), TRANSFER, COPIED, None, update;
    "copy_to" Writes, "vkCmdCopyBuffer: the device finds every word.",
        Usage::empty(), TRANSFER, COPIED, None, copy_to;
    "store_words" Writes, "Stores of a compute shader: the device finds every word.",
        Usage::STORAGE_BUFFER, COMPUTE, masks(Stage::COMPUTE_SHADER, Access::SHADER_WRITE), None, store;
    "store_indirectly" Writes, "Stores of an indirect dispatch: the device finds every word.",
        Usage::STORAGE_BUFFER, COMPUTE, masks(Stage::COMPUTE_SHADER, Access::SHADER_WRITE), None,
        store_indirectly;
    "store_by_vertices" Writes, "Stores of a vertex shader: the device finds every word.",
        Usage::STORAGE_BUFFER, GRAPHICS, masks(Stage::VERTEX_SHADER, Access::SHADER_WRITE), None,
        store_by_vertices;
    "store_by_fragments" Writes, "Stores of a fragment shader: the device finds every word.",
        Usage::STORAGE_BUFFER, GRAPHICS, masks(Stage::FRAGMENT_SHADER, Access::SHADER_WRITE), None,
        store_by_fragments;
    "store_texels" Writes, "Stores to a storage texel buffer: the device finds every word.",
        Usage::STORAGE_TEXEL_BUFFER, COMPUTE, masks(Stage::COMPUTE_SHADER, Access::SHADER_WRITE), None,
        store_texels;
    "query_results" Changes, "vkCmdCopyQueryPoolResults: the device finds the numbers of samples, and its own words after them.",
        Usage::empty(), GRAPHICS, COPIED, None, query_results;
    "copy_of" Reads, "vkCmdCopyBuffer finds every word of the device.",
        Usage::empty(), TRANSFER, masks(Stage::TRANSFER, Access::TRANSFER_READ), None, copy_of;
    "read_storage" Reads, "A storage buffer has every word of the device.",
        Usage::STORAGE_BUFFER, COMPUTE, masks(Stage::COMPUTE_SHADER, Access::SHADER_READ), None, read_storage;
    "read_uniforms" Reads, "A uniform buffer has every word of the device.",
        Usage::UNIFORM_BUFFER, COMPUTE, masks(Stage::COMPUTE_SHADER, Access::UNIFORM_READ), None,
        read_uniforms;
    "read_texels" Reads, "A uniform texel buffer has every word of the device.",
        Usage::UNIFORM_TEXEL_BUFFER, COMPUTE, masks(Stage::COMPUTE_SHADER, Access::SHADER_READ), None, read_texels;
    "read_vertices" Reads, "Vertices have every word of the device.",
        Usage::VERTEX_BUFFER, GRAPHICS, masks(Stage::VERTEX_INPUT, Access::VERTEX_ATTRIBUTE_READ), None,
        read_vertices;
    "read_indices" Reads, "Indices select the vertices that the device wrote.",
        Usage::INDEX_BUFFER, GRAPHICS, masks(Stage::VERTEX_INPUT, Access::INDEX_READ), Some(indices),
        read_indices;
    "draw_indirect" Reads, "Indirect draws have the parameters that the device wrote.",
        Usage::INDIRECT_BUFFER, GRAPHICS, masks(Stage::DRAW_INDIRECT, Access::INDIRECT_COMMAND_READ),
        Some(draw_parameters), draw_indirect;
    "dispatch_indirect" Reads, "An indirect dispatch has the workgroups that the device wrote.",
        Usage::INDIRECT_BUFFER, COMPUTE, masks(Stage::DRAW_INDIRECT, Access::INDIRECT_COMMAND_READ),
        Some(group_counts), dispatch_indirect;
}

impl BufferWork<'_> {
    fn words(&self, usage: Usage) -> Verdict<OwnedBuffer> {
        self.gpu.buffer(self.data, usage)
    }

    fn check(&self, what: &'static str, expected: Vec<u8>, found: OwnedBuffer) -> Outcome {
        Outcome::read(move || {
            let mut bytes = vec![0; expected.len()];
            found.read(0, &mut bytes)?;
            compare(&bytes, &expected, what)
        })
    }

    fn needs_vertex_stores(&self) -> Verdict {
        if self.gpu.features().vertex_pipeline_stores_and_atomics == vk::TRUE {
            return Ok(());
        }
        Err(Stop::unsupported("the exporter's device has no stores by vertex shaders".into()))
    }

    /// A render pass without attachments.
    fn begin(&self, extent: [u32; 2]) -> Verdict<vk::RenderPass> {
        let attachments = Attachments {
            views: &[],
            formats: &[],
            samples: vk::SampleCountFlags::TYPE_1,
            load: vk::AttachmentLoadOp::DONT_CARE,
            resolved: None,
            input: None,
            extent,
        };
        self.gpu.begin(self.commands, &attachments)
    }

    /// Draws points in a render pass of nothing, and discards them.
    fn points(&self, vertex: &str, bound: &[Bound], draws: impl FnOnce(), attributes: bool) -> Verdict {
        self.needs_vertex_stores()?;
        let bindings = self.gpu.bind(bound)?;
        let pass = self.begin([1, 1])?;
        let drawing = Drawing { vertex, fragment: None, points: Some(attributes), ..nothing(pass) };
        self.gpu.draws(self.commands, &drawing, bindings, [STRIDE, 0, 0])?;
        draws();
        self.gpu.end(self.commands);
        Ok(())
    }
}

fn nothing(pass: vk::RenderPass) -> Drawing<'static> {
    Drawing {
        shader: shaders::WORDS,
        vertex: "covering",
        fragment: None,
        formats: &[],
        samples: vk::SampleCountFlags::TYPE_1,
        pass: Some(pass),
        adds: false,
        points: None,
    }
}

/// All words become the first one of the data.
fn fill(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let [first, ..] = work.data.as_chunks::<4>().0 else { return Err(Stop::failed("no word".into())) };
    let word = u32::from_le_bytes(*first);
    // SAFETY: recording, outside a render pass; the buffer is live, of this device and usable as a destination.
    unsafe { work.gpu.device().cmd_fill_buffer(work.commands, work.buffer, 0, SIZE as u64, word) };
    Ok(Outcome::written(first.repeat(SIZE / 4)))
}

fn update(work: &BufferWork<'_>) -> Verdict<Outcome> {
    // SAFETY: as in `fill`; the data is not larger than 65,536 bytes.
    unsafe { work.gpu.device().cmd_update_buffer(work.commands, work.buffer, 0, work.data) };
    Ok(Outcome::written(work.data.to_vec()))
}

fn copy_to(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let source = work.words(Usage::TRANSFER_SRC)?;
    record_copy(work, source.as_raw(), work.buffer);
    Ok(Outcome::written(work.data.to_vec()))
}

fn record_copy(work: &BufferWork<'_>, from: vk::Buffer, to: vk::Buffer) {
    let region = vk::BufferCopy { src_offset: 0, dst_offset: 0, size: SIZE as u64 };
    // SAFETY: recording, outside a render pass; both buffers are live, of this device, usable for it and large enough.
    unsafe { work.gpu.device().cmd_copy_buffer(work.commands, from, to, &[region]) };
}

fn dispatch(work: &BufferWork<'_>, (shader, entry): (Shader, &str), bindings: Bindings) -> Verdict {
    work.gpu.dispatch(work.commands, (shader, entry), bindings, [0; 3], |device| {
        // SAFETY: recording, outside a render pass; a pipeline and its set are bound; 64 words a workgroup are inside.
        unsafe { device.cmd_dispatch(work.commands, WORDS / 64, 1, 1) };
    })
}

fn store(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let words = work.words(Usage::STORAGE_BUFFER)?;
    let bindings = work.gpu.bind(&[Bound::Read(words.as_raw()), Bound::Written(work.buffer)])?;
    dispatch(work, (shaders::WORDS, "copy"), bindings)?;
    Ok(Outcome::written(work.data.to_vec()))
}

/// The number of workgroups comes from a private buffer.
fn store_indirectly(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let words = work.words(Usage::STORAGE_BUFFER)?;
    let bindings = work.gpu.bind(&[Bound::Read(words.as_raw()), Bound::Written(work.buffer)])?;
    let counts: Vec<u8> = [WORDS / 64, 1, 1].into_iter().flat_map(u32::to_le_bytes).collect();
    let counts = work.gpu.buffer(&counts, Usage::INDIRECT_BUFFER)?;
    work.gpu.dispatch(work.commands, (shaders::WORDS, "copy"), bindings, [0; 3], |device| {
        // SAFETY: as in `dispatch`; the counts are live and of this device.
        unsafe { device.cmd_dispatch_indirect(work.commands, counts.as_raw(), 0) };
    })?;
    Ok(Outcome::written(work.data.to_vec()))
}

fn store_by_vertices(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let words = work.words(Usage::STORAGE_BUFFER)?;
    let draws = || {
        // SAFETY: recording, inside a render pass, with a bound pipeline; the shader stays inside of both buffers.
        unsafe { work.gpu.device().cmd_draw(work.commands, WORDS, 1, 0, 0) }
    };
    let bound = [Bound::Read(words.as_raw()), Bound::Written(work.buffer)];
    work.points("copy_by_vertex", &bound, draws, false)?;
    Ok(Outcome::written(work.data.to_vec()))
}

fn store_by_fragments(work: &BufferWork<'_>) -> Verdict<Outcome> {
    if work.gpu.features().fragment_stores_and_atomics != vk::TRUE {
        return Err(Stop::unsupported("the exporter's device has no stores by fragment shaders".into()));
    }
    let words = work.words(Usage::STORAGE_BUFFER)?;
    let bindings = work.gpu.bind(&[Bound::Read(words.as_raw()), Bound::Written(work.buffer)])?;
    let extent = [64, WORDS / 64];
    let pass = work.begin(extent)?;
    let drawing = Drawing { fragment: Some("copy_by_fragment"), ..nothing(pass) };
    work.gpu.draws(work.commands, &drawing, bindings, [extent[0], extent[1], 0])?;
    work.gpu.cover(work.commands, extent, rectangle([0, 0], extent));
    work.gpu.end(work.commands);
    Ok(Outcome::written(work.data.to_vec()))
}

fn store_texels(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let words = work.words(Usage::STORAGE_BUFFER)?;
    let stored = work.gpu.texels(work.buffer)?;
    let bindings = work.gpu.bind(&[Bound::Read(words.as_raw()), Bound::StoredTexels(stored)])?;
    dispatch(work, (shaders::TEXELS, "store"), bindings)?;
    Ok(Outcome::written(work.data.to_vec()))
}

/// Numbers of samples of draws to a private image.
fn query_results(work: &BufferWork<'_>) -> Verdict<Outcome> {
    const COUNT: u32 = 8;
    if work.gpu.features().occlusion_query_precise != vk::TRUE {
        return Err(Stop::unsupported("the exporter's device does not count samples".into()));
    }
    let (extent, format) = ([16, 16], vk::Format::R8G8B8A8_UNORM);
    let samples = vk::SampleCountFlags::TYPE_1;
    let usage = vk::ImageUsageFlags::COLOR_ATTACHMENT;
    let image = work.gpu.image(&PrivateImage { format, extent: [16, 16, 1], samples, usage })?;
    let view = work.gpu.view(image, format, vk::ImageViewType::TYPE_2D, [0, 0])?;
    let layouts = [vk::ImageLayout::UNDEFINED, vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL];
    work.gpu.transition(work.commands, image, layouts);
    let texels = work.gpu.words(&[0; 4 * 256])?;
    let bindings = work.gpu.bind(&[Bound::Read(texels.as_raw())])?;
    let queries = work.gpu.queries(COUNT)?;
    let device = work.gpu.device();
    // SAFETY: recording, outside a render pass; the pool is live and of this device and has the queries.
    unsafe { device.cmd_reset_query_pool(work.commands, queries, 0, COUNT) };
    let load = vk::AttachmentLoadOp::DONT_CARE;
    let (views, formats) = ([view], [format]);
    let attachments =
        Attachments { views: &views, formats: &formats, samples, load, resolved: None, input: None, extent };
    let pass = work.gpu.begin(work.commands, &attachments)?;
    let drawing = Drawing { shader: shaders::DRAW, fragment: Some("floats"), formats: &formats, ..nothing(pass) };
    work.gpu.draws(work.commands, &drawing, bindings, [16, 16, 0])?;
    for query in 0..COUNT {
        // SAFETY: recording, inside a render pass; the query was reset, and counts precisely, as the device can.
        unsafe { device.cmd_begin_query(work.commands, queries, query, vk::QueryControlFlags::PRECISE) };
        work.gpu.cover(work.commands, extent, rectangle([0, 0], [query + 1, 2 * query + 1]));
        // SAFETY: as above.
        unsafe { device.cmd_end_query(work.commands, queries, query) };
    }
    work.gpu.end(work.commands);
    let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
    // SAFETY: recording, outside a render pass; pool and buffer are live and of this device, the buffer is a transfer
    // destination and has room for the results.
    unsafe { device.cmd_copy_query_pool_results(work.commands, queries, 0, COUNT, work.buffer, 0, 8, flags) };
    let mut after = work.before.to_vec();
    for (query, result) in (0..COUNT).zip(after.as_chunks_mut::<8>().0) {
        *result = u64::from((query + 1) * (2 * query + 1)).to_le_bytes();
    }
    Ok(Outcome::written(after))
}

fn copy_of(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(SIZE)?;
    record_copy(work, work.buffer, found.as_raw());
    Ok(work.check("vkCmdCopyBuffer", work.before.to_vec(), found))
}

fn read_storage(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(SIZE)?;
    let bindings = work.gpu.bind(&[Bound::Read(work.buffer), Bound::Written(found.as_raw())])?;
    dispatch(work, (shaders::WORDS, "copy"), bindings)?;
    Ok(work.check("a storage buffer", work.before.to_vec(), found))
}

fn read_uniforms(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(SIZE)?;
    let bindings = work.gpu.bind(&[Bound::Uniform(work.buffer), Bound::Written(found.as_raw())])?;
    dispatch(work, (shaders::WORDS, "copy_uniforms"), bindings)?;
    Ok(work.check("a uniform buffer", work.before.to_vec(), found))
}

fn read_texels(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(SIZE)?;
    let fetched = work.gpu.texels(work.buffer)?;
    let bindings = work.gpu.bind(&[Bound::Written(found.as_raw()), Bound::Fetched(fetched)])?;
    dispatch(work, (shaders::TEXELS, "fetch"), bindings)?;
    Ok(work.check("a uniform texel buffer", work.before.to_vec(), found))
}

fn read_vertices(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(SIZE)?;
    let draws = || {
        let device = work.gpu.device();
        // SAFETY: recording, inside a render pass, with a bound pipeline; the buffer is live, of this device, for vertices,
        // and has as many words; the shader stays inside of the results.
        unsafe {
            device.cmd_bind_vertex_buffers(work.commands, 0, &[work.buffer], &[0]);
            device.cmd_draw(work.commands, WORDS, 1, 0, 0);
        }
    };
    work.points("read_attribute", &[Bound::Written(found.as_raw())], draws, true)?;
    Ok(work.check("vertices", work.before.to_vec(), found))
}

/// Words of the results by instance.
const STRIDE: u32 = 64;

fn marks(results: usize, marked: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut words = vec![0_u32; results];
    for index in marked {
        if let Some(word) = words.get_mut(index as usize) {
            *word = 1;
        }
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Every third number, in an order that is not theirs.
fn indices() -> Vec<u32> {
    (0..WORDS).map(|index| index * 7 % WORDS * 3).collect()
}

fn read_indices(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let results = 3 * WORDS as usize;
    let found = work.gpu.results(results * 4)?;
    let draws = || {
        let device = work.gpu.device();
        // SAFETY: as in `read_vertices`; the buffer is for indices, and all are inside of the results.
        unsafe {
            device.cmd_bind_index_buffer(work.commands, work.buffer, 0, vk::IndexType::UINT32);
            device.cmd_draw_indexed(work.commands, WORDS, 1, 0, 0, 0);
        }
    };
    work.points("mark", &[Bound::Written(found.as_raw())], draws, false)?;
    Ok(work.check("indices", marks(results, indices()), found))
}

/// Parameters of four draws: vertices, instances, the first vertex, the first instance.
const DRAWS: [[u32; 4]; 4] = [[5, 1, 0, 0], [7, 2, 10, 0], [0, 3, 0, 0], [3, 3, 40, 0]];

fn padded(words: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut all: Vec<u32> = words.into_iter().collect();
    all.resize(WORDS as usize, 0);
    all
}

fn draw_parameters() -> Vec<u32> {
    padded(DRAWS.into_iter().flatten())
}

fn draw_indirect(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let results = 4 * STRIDE as usize;
    let found = work.gpu.results(results * 4)?;
    let draws = || {
        for (draw, _) in (0..).zip(DRAWS) {
            // SAFETY: as in `read_vertices`; the buffer is for indirect commands, and the draws that are in it mark words
            // inside of the results.
            unsafe { work.gpu.device().cmd_draw_indirect(work.commands, work.buffer, 16 * draw, 1, 16) };
        }
    };
    work.points("mark", &[Bound::Written(found.as_raw())], draws, false)?;
    let of_draw = |[vertices, instances, first, _]: [u32; 4]| {
        (0..instances).flat_map(move |instance| (first..first + vertices).map(move |vertex| instance * STRIDE + vertex))
    };
    Ok(work.check("the parameters of draws", marks(results, DRAWS.into_iter().flat_map(of_draw)), found))
}

const GROUPS: [u32; 3] = [5, 3, 7];

fn group_counts() -> Vec<u32> {
    padded(GROUPS)
}

fn dispatch_indirect(work: &BufferWork<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(512 * 4)?;
    let bindings = work.gpu.bind(&[Bound::Written(found.as_raw())])?;
    work.gpu.dispatch(work.commands, (shaders::WORDS, "mark_group"), bindings, [0; 3], |device| {
        // SAFETY: as in `dispatch`; the buffer is for indirect commands; the workgroups that are in it mark words inside of
        // the results.
        unsafe { device.cmd_dispatch_indirect(work.commands, work.buffer, 0) };
    })?;
    let [x, y, z] = GROUPS;
    let groups = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| (z * 8 + y) * 8 + x)));
    Ok(work.check("the numbers of workgroups", marks(512, groups), found))
}
