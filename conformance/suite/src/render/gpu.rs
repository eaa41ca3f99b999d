//! Vulkan objects that the commands of one submission use, destroyed together.

use std::cell::{Cell, RefCell};
use std::ffi::CString;

use gpu_interop::vulkan::ash::{self, khr, vk};
use gpu_interop::vulkan::{HeadlessContext, MemoryPlacement, OwnedBuffer, Recording, SemaphoreOp, Submission};
use gpu_interop::{Error, ErrorKind};

use super::shaders::Shader;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};

/// A queue, and the objects that its next submission uses.
///
/// Every object is of the context's device. None is destroyed before the submission has completed: after a timeout they
/// are leaked.
pub(super) struct Gpu<'a> {
    pub(super) context: &'a HeadlessContext,
    objects: RefCell<Vec<Object>>,
    buffers: RefCell<Vec<OwnedBuffer>>,
    /// Layers and levels share pipelines, by all that they are made of.
    pipelines: RefCell<Vec<(String, vk::Pipeline)>>,
    pending: Cell<bool>,
}

/// An object to destroy.
enum Object {
    Memory(vk::DeviceMemory),
    Image(vk::Image),
    View(vk::ImageView),
    Texels(vk::BufferView),
    Sampler(vk::Sampler),
    Module(vk::ShaderModule),
    SetLayout(vk::DescriptorSetLayout),
    Pool(vk::DescriptorPool),
    Layout(vk::PipelineLayout),
    Pass(vk::RenderPass),
    Framebuffer(vk::Framebuffer),
    Pipeline(vk::Pipeline),
    Queries(vk::QueryPool),
}

/// A resource of a shader; each kind has its own binding.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// Binding 0: a storage buffer that is read.
    Read(vk::Buffer),
    /// Binding 1: a storage buffer that is written.
    Written(vk::Buffer),
    /// Binding 2: a sampled image, in this layout.
    Sampled(vk::ImageView, vk::ImageLayout),
    /// Binding 3.
    Sampler(vk::Sampler),
    /// Binding 4: a storage image that is written.
    Stored(vk::ImageView),
    /// Binding 5: a storage image that is read.
    Loaded(vk::ImageView),
    /// Binding 6: a uniform buffer.
    Uniform(vk::Buffer),
    /// Binding 7: a uniform texel buffer.
    Fetched(vk::BufferView),
    /// Binding 8: a storage texel buffer that is written.
    StoredTexels(vk::BufferView),
    /// Binding 9: an input attachment, in this layout.
    Input(vk::ImageView, vk::ImageLayout),
}

impl Bound {
    fn place(self) -> (u32, vk::DescriptorType) {
        match self {
            Self::Read(_) => (0, vk::DescriptorType::STORAGE_BUFFER),
            Self::Written(_) => (1, vk::DescriptorType::STORAGE_BUFFER),
            Self::Sampled(..) => (2, vk::DescriptorType::SAMPLED_IMAGE),
            Self::Sampler(_) => (3, vk::DescriptorType::SAMPLER),
            Self::Stored(_) => (4, vk::DescriptorType::STORAGE_IMAGE),
            Self::Loaded(_) => (5, vk::DescriptorType::STORAGE_IMAGE),
            Self::Uniform(_) => (6, vk::DescriptorType::UNIFORM_BUFFER),
            Self::Fetched(_) => (7, vk::DescriptorType::UNIFORM_TEXEL_BUFFER),
            Self::StoredTexels(_) => (8, vk::DescriptorType::STORAGE_TEXEL_BUFFER),
            Self::Input(..) => (9, vk::DescriptorType::INPUT_ATTACHMENT),
        }
    }
}

/// Bound resources, and the layout of pipelines that use them.
#[derive(Clone, Copy)]
pub(super) struct Bindings {
    /// One bit for each binding. Layouts of the same bindings are compatible.
    bits: u32,
    set: vk::DescriptorSet,
    layout: vk::PipelineLayout,
}

/// The parameters of all shaders: width, height, base.
pub(super) type Parameters = [u32; 3];
const _: () = assert!(size_of::<Parameters>() == 12);

/// A graphics pipeline without its bindings.
#[derive(Clone, Copy)]
pub(super) struct Drawing<'a> {
    pub(super) shader: Shader,
    pub(super) vertex: &'a str,
    /// `None` discards what is drawn.
    pub(super) fragment: Option<&'a str>,
    /// Formats of the attachments.
    pub(super) formats: &'a [vk::Format],
    pub(super) samples: vk::SampleCountFlags,
    /// `None` for dynamic rendering.
    pub(super) pass: Option<vk::RenderPass>,
    /// Adds the colours to those of the attachments.
    pub(super) adds: bool,
    /// Draws points, whose only attribute, at location 0, is a word, if `true`.
    pub(super) points: Option<bool>,
}

/// An image that is not shared.
#[derive(Clone, Copy)]
pub(super) struct PrivateImage {
    pub(super) format: vk::Format,
    pub(super) extent: [u32; 3],
    pub(super) samples: vk::SampleCountFlags,
    pub(super) usage: vk::ImageUsageFlags,
}

/// Result of the creation of pipelines.
type Created = Result<Vec<vk::Pipeline>, (Vec<vk::Pipeline>, vk::Result)>;

fn checked<T>(function: &str, result: ash::prelude::VkResult<T>) -> Verdict<T> {
    result.map_err(|code| Stop::failed(format!("{function}: {code}")))
}

const SHADERS: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::COMPUTE.as_raw()
        | vk::ShaderStageFlags::VERTEX.as_raw()
        | vk::ShaderStageFlags::FRAGMENT.as_raw(),
);

impl<'a> Gpu<'a> {
    pub(super) fn new(context: &'a HeadlessContext) -> Self {
        let (objects, buffers, pipelines) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { context, objects, buffers, pipelines, pending: Cell::new(false) }
    }

    pub(super) fn device(&self) -> &ash::Device {
        self.context.interop().device()
    }

    fn keep<T: Copy>(&self, object: T, kind: impl FnOnce(T) -> Object) -> T {
        self.objects.borrow_mut().push(kind(object));
        object
    }

    /// Submits commands that use the objects.
    pub(super) fn submit(
        &self,
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
        record: impl FnOnce(&mut Recording<'_>) -> Verdict,
    ) -> Verdict<Submission> {
        let mut stopped = None;
        let submission = self.context.submit(waits, signals, |recording| {
            record(recording).map_err(|stop| {
                stopped = Some(stop);
                Error::new(ErrorKind::Unsupported, "record", "")
            })
        });
        // Nothing is submitted if the recording fails.
        if let Some(stop) = stopped {
            return Err(stop);
        }
        let submission = submission?;
        self.pending.set(true);
        Ok(submission)
    }

    /// Waits for the submission.
    pub(super) fn finish(&self, submission: &Submission) -> Verdict {
        submission.wait(WAIT_TIMEOUT)?;
        self.pending.set(false);
        Ok(())
    }

    /// A host-visible buffer with this data.
    pub(super) fn buffer(&self, data: &[u8], usage: vk::BufferUsageFlags) -> Verdict<OwnedBuffer> {
        let interop = self.context.interop();
        let buffer = OwnedBuffer::new(interop, data.len() as u64, usage, MemoryPlacement::HostVisible)?;
        buffer.write(0, data)?;
        self.buffers.borrow_mut().push(buffer.clone());
        Ok(buffer)
    }

    /// As [`buffer`](Self::buffer), of words for shaders.
    pub(super) fn words(&self, words: &[u32]) -> Verdict<OwnedBuffer> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.buffer(&bytes, vk::BufferUsageFlags::STORAGE_BUFFER)
    }

    /// A host-visible buffer of zeros, for results.
    pub(super) fn results(&self, size: usize) -> Verdict<OwnedBuffer> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_DST;
        self.buffer(&vec![0; size.max(4)], usage)
    }

    /// An image that is not shared, in device-local memory.
    pub(super) fn image(&self, wanted: &PrivateImage) -> Verdict<vk::Image> {
        let PrivateImage { format, extent: [width, height, depth], samples, usage } = *wanted;
        let image_type = if depth > 1 { vk::ImageType::TYPE_3D } else { vk::ImageType::TYPE_2D };
        let interop = self.context.interop();
        // SAFETY: the physical device belongs to the live instance.
        let limits = unsafe {
            interop.instance().get_physical_device_image_format_properties(
                interop.physical_device(),
                format,
                image_type,
                vk::ImageTiling::OPTIMAL,
                usage,
                vk::ImageCreateFlags::empty(),
            )
        };
        let reason =
            || Stop::unsupported(format!("the exporter has no image of {format:?} for {usage:?}, {samples:?}"));
        let limits = limits.map_err(|_| reason())?;
        if !limits.sample_counts.contains(samples) {
            return Err(reason());
        }
        let info = vk::ImageCreateInfo::default()
            .image_type(image_type)
            .format(format)
            .extent(vk::Extent3D { width, height, depth })
            .mip_levels(1)
            .array_layers(1)
            .samples(samples)
            .usage(usage);
        let device = self.device();
        // SAFETY: the device is live and has such images, as it has just said; the memory has the size and a type of the
        // image's requirements, and both are destroyed with this object.
        unsafe {
            let image = self.keep(checked("vkCreateImage", device.create_image(&info, None))?, Object::Image);
            let needs = device.get_image_memory_requirements(image);
            let types = interop.memory_types();
            let local = |index: &u32| {
                needs.memory_type_bits & 1 << index != 0
                    && types.get(*index as usize).is_some_and(|memory_type| {
                        memory_type.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
                    })
            };
            let index =
                (0..32).find(local).ok_or_else(|| Stop::failed("no device-local memory for an image".into()))?;
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            let memory = checked("vkAllocateMemory", device.allocate_memory(&info, None))?;
            // Freed after the image, which was made earlier.
            self.objects.borrow_mut().insert(0, Object::Memory(memory));
            checked("vkBindImageMemory", device.bind_image_memory(image, memory, 0))?;
            Ok(image)
        }
    }

    /// A view of one level and one layer, or, of a volume as `TYPE_3D`, of one level.
    pub(super) fn view(
        &self,
        image: vk::Image,
        format: vk::Format,
        view_type: vk::ImageViewType,
        [level, layer]: [u32; 2],
    ) -> Verdict<vk::ImageView> {
        let range = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .base_mip_level(level)
            .level_count(1)
            .base_array_layer(layer)
            .layer_count(1);
        let info = vk::ImageViewCreateInfo::default()
            .image(image)
            .format(format)
            .view_type(view_type)
            .subresource_range(range);
        // SAFETY: the image is live and of this device, and has the level and layer; the view is destroyed before it.
        let view = unsafe { self.device().create_image_view(&info, None) };
        Ok(self.keep(checked("vkCreateImageView", view)?, Object::View))
    }

    /// The 32-bit words of a buffer as texels.
    pub(super) fn texels(&self, buffer: vk::Buffer) -> Verdict<vk::BufferView> {
        let format = vk::Format::R32_UINT;
        let info = vk::BufferViewCreateInfo::default().buffer(buffer).format(format).range(vk::WHOLE_SIZE);
        // SAFETY: the buffer is live, of this device and of a usage with texels, for which every device has the format; the
        // view is destroyed before it.
        let view = unsafe { self.device().create_buffer_view(&info, None) };
        Ok(self.keep(checked("vkCreateBufferView", view)?, Object::Texels))
    }

    /// A sampler that clamps to the edge.
    pub(super) fn sampler(&self, filter: vk::Filter) -> Verdict<vk::Sampler> {
        let edge = vk::SamplerAddressMode::CLAMP_TO_EDGE;
        let info = vk::SamplerCreateInfo::default()
            .mag_filter(filter)
            .min_filter(filter)
            .address_mode_u(edge)
            .address_mode_v(edge)
            .address_mode_w(edge);
        // SAFETY: the device is live; the sampler is destroyed with this object.
        let sampler = unsafe { self.device().create_sampler(&info, None) };
        Ok(self.keep(checked("vkCreateSampler", sampler)?, Object::Sampler))
    }

    pub(super) fn bind(&self, bound: &[Bound]) -> Verdict<Bindings> {
        let device = self.device();
        let places: Vec<_> = bound.iter().map(|bound| bound.place()).collect();
        let bindings: Vec<_> = places
            .iter()
            .map(|(binding, kind)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(*binding)
                    .descriptor_type(*kind)
                    .descriptor_count(1)
                    .stage_flags(match *kind {
                        vk::DescriptorType::INPUT_ATTACHMENT => vk::ShaderStageFlags::FRAGMENT,
                        _ => SHADERS,
                    })
            })
            .collect();
        let sizes: Vec<_> =
            places.iter().map(|(_, kind)| vk::DescriptorPoolSize { ty: *kind, descriptor_count: 1 }).collect();
        let constants = vk::PushConstantRange::default().stage_flags(SHADERS).size(12);
        // SAFETY: the device is live; every structure lives to the end of its call; all is destroyed with this object.
        let (set, layout) = unsafe {
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set_layout = device.create_descriptor_set_layout(&info, None);
            let set_layout = self.keep(checked("vkCreateDescriptorSetLayout", set_layout)?, Object::SetLayout);
            let (set_layouts, constants) = ([set_layout], [constants]);
            let info =
                vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts).push_constant_ranges(&constants);
            let layout = device.create_pipeline_layout(&info, None);
            let layout = self.keep(checked("vkCreatePipelineLayout", layout)?, Object::Layout);
            let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
            let pool = device.create_descriptor_pool(&info, None);
            let pool = self.keep(checked("vkCreateDescriptorPool", pool)?, Object::Pool);
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&set_layouts);
            let sets = checked("vkAllocateDescriptorSets", device.allocate_descriptor_sets(&info))?;
            let set = sets.first().copied().ok_or_else(|| Stop::failed("no descriptor set".into()))?;
            (set, layout)
        };
        for (bound, (binding, kind)) in bound.iter().zip(&places) {
            let mut buffers = [vk::DescriptorBufferInfo::default().range(vk::WHOLE_SIZE)];
            let mut images = [vk::DescriptorImageInfo::default().image_layout(vk::ImageLayout::GENERAL)];
            let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(*binding).descriptor_type(*kind);
            let mut texels = [vk::BufferView::null()];
            let write = match *bound {
                Bound::Read(buffer) | Bound::Written(buffer) | Bound::Uniform(buffer) => {
                    buffers[0].buffer = buffer;
                    write.buffer_info(&buffers)
                }
                Bound::Fetched(view) | Bound::StoredTexels(view) => {
                    texels[0] = view;
                    write.texel_buffer_view(&texels)
                }
                Bound::Stored(view) | Bound::Loaded(view) => {
                    images[0].image_view = view;
                    write.image_info(&images)
                }
                Bound::Sampled(view, layout) | Bound::Input(view, layout) => {
                    (images[0].image_view, images[0].image_layout) = (view, layout);
                    write.image_info(&images)
                }
                Bound::Sampler(sampler) => {
                    images[0].sampler = sampler;
                    write.image_info(&images)
                }
            };
            // SAFETY: set, buffer, view and sampler are live and of this device, and nothing uses the set yet.
            unsafe { device.update_descriptor_sets(&[write], &[]) };
        }
        let bits = places.iter().fold(0, |bits, (binding, _)| bits | 1 << binding);
        Ok(Bindings { bits, set, layout })
    }

    fn module(&self, shader: Shader) -> Verdict<vk::ShaderModule> {
        let words = shader.words();
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the device is live, and the code is valid: a test compiled it.
        let module = unsafe { self.device().create_shader_module(&info, None) };
        Ok(self.keep(checked("vkCreateShaderModule", module)?, Object::Module))
    }

    /// Binds resources for a dispatch of workgroups.
    pub(super) fn dispatch(
        &self,
        commands: vk::CommandBuffer,
        (shader, entry): (Shader, &str),
        bindings: Bindings,
        parameters: Parameters,
        dispatch: impl FnOnce(&ash::Device),
    ) -> Verdict {
        let key = format!("{} {entry} {}", shader.name, bindings.bits);
        let pipeline = self.pipeline(key, || {
            let entry = name(entry)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(self.module(shader)?)
                .name(&entry);
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(bindings.layout);
            // SAFETY: module and layout are live and of this device, and every structure lives to the end of the call.
            Ok(unsafe { self.device().create_compute_pipelines(vk::PipelineCache::null(), &[info], None) })
        })?;
        self.use_pipeline(commands, pipeline, vk::PipelineBindPoint::COMPUTE, bindings, parameters);
        dispatch(self.device());
        Ok(())
    }

    /// Binds a pipeline for draws. Viewport and scissor are set by [`cover`](Self::cover).
    pub(super) fn draws(
        &self,
        commands: vk::CommandBuffer,
        drawing: &Drawing<'_>,
        bindings: Bindings,
        parameters: Parameters,
    ) -> Verdict {
        let Drawing { shader, vertex, fragment, formats, samples, pass, adds, points } = drawing;
        let key = format!(
            "{} {vertex} {fragment:?} {formats:?} {samples:?} {} {adds} {points:?} {}",
            shader.name,
            pass.is_some(),
            bindings.bits
        );
        let pipeline = self.pipeline(key, || self.graphics_pipeline(drawing, bindings))?;
        self.use_pipeline(commands, pipeline, vk::PipelineBindPoint::GRAPHICS, bindings, parameters);
        Ok(())
    }

    fn graphics_pipeline(&self, drawing: &Drawing<'_>, bindings: Bindings) -> Verdict<Created> {
        let module = self.module(drawing.shader)?;
        let (vertex, fragment) = (name(drawing.vertex)?, drawing.fragment.map(name).transpose()?);
        let stage = |flags, entry| vk::PipelineShaderStageCreateInfo::default().stage(flags).module(module).name(entry);
        let mut stages = vec![stage(vk::ShaderStageFlags::VERTEX, &vertex)];
        stages.extend(fragment.as_ref().map(|entry| stage(vk::ShaderStageFlags::FRAGMENT, entry)));
        let strides = [vk::VertexInputBindingDescription::default().stride(4)];
        let attributes = [vk::VertexInputAttributeDescription::default().format(vk::Format::R32_UINT)];
        let mut input = vk::PipelineVertexInputStateCreateInfo::default();
        if drawing.points == Some(true) {
            input = input.vertex_binding_descriptions(&strides).vertex_attribute_descriptions(&attributes);
        }
        let topology = match drawing.points {
            Some(_) => vk::PrimitiveTopology::POINT_LIST,
            None => vk::PrimitiveTopology::TRIANGLE_LIST,
        };
        let assembly = vk::PipelineInputAssemblyStateCreateInfo::default().topology(topology);
        let viewport = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
        let rasterization = vk::PipelineRasterizationStateCreateInfo::default()
            .line_width(1.0)
            .rasterizer_discard_enable(fragment.is_none());
        let multisample = vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(drawing.samples);
        let attachment = vk::PipelineColorBlendAttachmentState::default()
            .color_write_mask(vk::ColorComponentFlags::RGBA)
            .blend_enable(drawing.adds)
            .src_color_blend_factor(vk::BlendFactor::ONE)
            .dst_color_blend_factor(vk::BlendFactor::ONE)
            .src_alpha_blend_factor(vk::BlendFactor::ONE)
            .dst_alpha_blend_factor(vk::BlendFactor::ONE);
        let attachments = vec![attachment; drawing.formats.len()];
        let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&attachments);
        let states = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
        let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&states);
        let mut rendering = vk::PipelineRenderingCreateInfo::default().color_attachment_formats(drawing.formats);
        let mut info = vk::GraphicsPipelineCreateInfo::default()
            .stages(&stages)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly)
            .viewport_state(&viewport)
            .rasterization_state(&rasterization)
            .multisample_state(&multisample)
            .color_blend_state(&blend)
            .dynamic_state(&dynamic)
            .layout(bindings.layout);
        info = match drawing.pass {
            Some(pass) => info.render_pass(pass),
            None => info.push_next(&mut rendering),
        };
        // SAFETY: module, layout and render pass are live and of this device, and every structure lives to the end of the
        // call. Without a render pass the device has dynamic rendering, which `begin_dynamic` has checked.
        Ok(unsafe { self.device().create_graphics_pipelines(vk::PipelineCache::null(), &[info], None) })
    }

    /// The pipeline of this key, which is made once. Render passes of the same formats and samples are compatible.
    fn pipeline(&self, key: String, make: impl FnOnce() -> Verdict<Created>) -> Verdict<vk::Pipeline> {
        let known = self.pipelines.borrow().iter().find(|(known, _)| *known == key).map(|(_, pipeline)| *pipeline);
        if let Some(pipeline) = known {
            return Ok(pipeline);
        }
        let pipelines = checked("vkCreate*Pipelines", make()?.map_err(|(_, code)| code))?;
        let pipeline = pipelines.first().copied().ok_or_else(|| Stop::failed("no pipeline".into()))?;
        self.pipelines.borrow_mut().push((key, pipeline));
        Ok(self.keep(pipeline, Object::Pipeline))
    }

    fn use_pipeline(
        &self,
        commands: vk::CommandBuffer,
        pipeline: vk::Pipeline,
        point: vk::PipelineBindPoint,
        bindings: Bindings,
        parameters: Parameters,
    ) {
        let constants: Vec<u8> = parameters.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (device, sets) = (self.device(), [bindings.set]);
        // SAFETY: recording; pipeline, set and layout are live and of this device, and the pipeline's layout has the same
        // bindings.
        unsafe {
            device.cmd_bind_pipeline(commands, point, pipeline);
            device.cmd_bind_descriptor_sets(commands, point, bindings.layout, 0, &sets, &[]);
            device.cmd_push_constants(commands, bindings.layout, SHADERS, 0, &constants);
        }
    }

    /// Draws a triangle that covers a rectangle of the viewport.
    pub(super) fn cover(&self, commands: vk::CommandBuffer, [width, height]: [u32; 2], scissor: vk::Rect2D) {
        #[allow(clippy::cast_precision_loss, reason = "extents are small")]
        let viewport =
            vk::Viewport { width: width as f32, height: height as f32, max_depth: 1.0, ..vk::Viewport::default() };
        let device = self.device();
        // SAFETY: recording; a pipeline for draws is bound.
        unsafe {
            device.cmd_set_viewport(commands, 0, &[viewport]);
            device.cmd_set_scissor(commands, 0, &[scissor]);
            device.cmd_draw(commands, 3, 1, 0, 0);
        }
    }

    /// Makes a render pass, and begins it. Attachments are in the layout `COLOR_ATTACHMENT_OPTIMAL` before and after.
    pub(super) fn begin(&self, commands: vk::CommandBuffer, attachments: &Attachments<'_>) -> Verdict<vk::RenderPass> {
        let Attachments { views, formats, samples, load, resolved, input, extent: [width, height] } = *attachments;
        let layout = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
        let description = |format, samples, load| {
            vk::AttachmentDescription::default()
                .format(format)
                .samples(samples)
                .load_op(load)
                .store_op(vk::AttachmentStoreOp::STORE)
                .stencil_load_op(vk::AttachmentLoadOp::DONT_CARE)
                .stencil_store_op(vk::AttachmentStoreOp::DONT_CARE)
                .initial_layout(layout)
                .final_layout(layout)
        };
        let mut descriptions: Vec<_> = formats.iter().map(|format| description(*format, samples, load)).collect();
        let mut all = views.to_vec();
        if let (Some(view), Some(format)) = (resolved, formats.first()) {
            descriptions.push(description(*format, vk::SampleCountFlags::TYPE_1, vk::AttachmentLoadOp::DONT_CARE));
            all.push(view);
        }
        let mut references: Vec<_> =
            (0..).zip(&all).map(|(attachment, _)| vk::AttachmentReference { attachment, layout }).collect();
        let before = references.len();
        if let Some((view, format, layout)) = input {
            let description = description(format, samples, vk::AttachmentLoadOp::LOAD);
            descriptions.push(description.initial_layout(layout).final_layout(layout));
            references.push(vk::AttachmentReference { attachment: u32::try_from(before)?, layout });
            all.push(view);
        }
        let (written, inputs) = references.split_at(before);
        let (drawn, resolves) = written.split_at(formats.len());
        let mut subpass = vk::SubpassDescription::default().color_attachments(drawn).input_attachments(inputs);
        if !resolves.is_empty() {
            subpass = subpass.resolve_attachments(resolves);
        }
        let subpasses = [subpass];
        let info = vk::RenderPassCreateInfo::default().attachments(&descriptions).subpasses(&subpasses);
        let device = self.device();
        // SAFETY: recording, outside a render pass; the views are live, of this device, and have these formats and at
        // least this extent; every structure lives to the end of its call; pass and framebuffer live until the commands
        // have completed.
        unsafe {
            let pass = device.create_render_pass(&info, None);
            let pass = self.keep(checked("vkCreateRenderPass", pass)?, Object::Pass);
            let info = vk::FramebufferCreateInfo::default()
                .render_pass(pass)
                .attachments(&all)
                .width(width)
                .height(height)
                .layers(1);
            let framebuffer = device.create_framebuffer(&info, None);
            let framebuffer = self.keep(checked("vkCreateFramebuffer", framebuffer)?, Object::Framebuffer);
            let area = rectangle([0, 0], [width, height]);
            let begin = vk::RenderPassBeginInfo::default().render_pass(pass).framebuffer(framebuffer).render_area(area);
            device.cmd_begin_render_pass(commands, &begin, vk::SubpassContents::INLINE);
            Ok(pass)
        }
    }

    pub(super) fn end(&self, commands: vk::CommandBuffer) {
        // SAFETY: recording, inside the render pass that `begin` began.
        unsafe { self.device().cmd_end_render_pass(commands) };
    }

    /// Begins dynamic rendering to one attachment, in the layout `COLOR_ATTACHMENT_OPTIMAL`.
    pub(super) fn begin_dynamic(
        &self,
        commands: vk::CommandBuffer,
        view: vk::ImageView,
        extent: [u32; 2],
    ) -> Verdict<khr::dynamic_rendering::Device> {
        let interop = self.context.interop();
        // SAFETY: the device was made from the instance; both are live.
        let function = unsafe {
            interop.instance().get_device_proc_addr(interop.device().handle(), c"vkCmdBeginRenderingKHR".as_ptr())
        };
        if function.is_none() {
            return Err(Stop::unsupported("the exporter has no VK_KHR_dynamic_rendering".into()));
        }
        let functions = khr::dynamic_rendering::Device::new(interop.instance(), interop.device());
        let attachments = [vk::RenderingAttachmentInfo::default()
            .image_view(view)
            .image_layout(vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL)
            .load_op(vk::AttachmentLoadOp::DONT_CARE)
            .store_op(vk::AttachmentStoreOp::STORE)];
        let info = vk::RenderingInfo::default()
            .render_area(rectangle([0, 0], extent))
            .layer_count(1)
            .color_attachments(&attachments);
        // SAFETY: recording, outside a render pass; the device was created with the extension, whose function it has, and
        // with its feature, which the extension requires; the view is live and of this device.
        unsafe { functions.cmd_begin_rendering(commands, &info) };
        Ok(functions)
    }

    /// Moves a private image from one layout to another, after all earlier commands and before all later ones.
    pub(super) fn transition(&self, commands: vk::CommandBuffer, image: vk::Image, [old, new]: [vk::ImageLayout; 2]) {
        let barrier = Barrier {
            families: [vk::QUEUE_FAMILY_IGNORED; 2],
            layouts: [old, new],
            stages: [vk::PipelineStageFlags::ALL_COMMANDS; 2],
            access: [vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE],
        };
        self.barrier(commands, image, &barrier);
    }

    /// Records a barrier on all levels and layers of an image.
    pub(super) fn barrier(&self, commands: vk::CommandBuffer, image: vk::Image, barrier: &Barrier) {
        let Barrier { families, layouts, stages, access } = *barrier;
        let range = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .level_count(vk::REMAINING_MIP_LEVELS)
            .layer_count(vk::REMAINING_ARRAY_LAYERS);
        let images = [vk::ImageMemoryBarrier::default()
            .image(image)
            .subresource_range(range)
            .old_layout(layouts[0])
            .new_layout(layouts[1])
            .src_access_mask(access[0])
            .dst_access_mask(access[1])
            .src_queue_family_index(families[0])
            .dst_queue_family_index(families[1])];
        let flags = vk::DependencyFlags::empty();
        // SAFETY: recording, outside a render pass; the image is live and of this device. A wrong barrier, as tests plant, may
        // leave undefined texels, not more.
        unsafe { self.device().cmd_pipeline_barrier(commands, stages[0], stages[1], flags, &[], &[], &images) };
    }

    /// A pool of occlusion queries, or, if the device does not count samples, unsupported.
    pub(super) fn queries(&self, count: u32) -> Verdict<vk::QueryPool> {
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::OCCLUSION).query_count(count);
        // SAFETY: the device is live; the pool is destroyed with this object.
        let pool = unsafe { self.device().create_query_pool(&info, None) };
        Ok(self.keep(checked("vkCreateQueryPool", pool)?, Object::Queries))
    }

    /// The numbers of samples of attachments of integers; one before Vulkan 1.2.
    pub(super) fn integer_samples(&self) -> vk::SampleCountFlags {
        let interop = self.context.interop();
        let mut of_1_2 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut of_1_2);
        // SAFETY: the physical device belongs to the live instance, which is 1.1 or later; older devices ignore the structure.
        unsafe { interop.instance().get_physical_device_properties2(interop.physical_device(), &mut properties) };
        of_1_2.framebuffer_integer_color_sample_counts
    }

    /// Features of the device, which were enabled.
    pub(super) fn features(&self) -> vk::PhysicalDeviceFeatures {
        let interop = self.context.interop();
        // SAFETY: the physical device belongs to the live instance.
        unsafe { interop.instance().get_physical_device_features(interop.physical_device()) }
    }
}

/// A barrier on a whole image: families, layouts, stages and accesses, each before and after.
#[derive(Clone, Copy)]
pub(super) struct Barrier {
    pub(super) families: [u32; 2],
    pub(super) layouts: [vk::ImageLayout; 2],
    pub(super) stages: [vk::PipelineStageFlags; 2],
    pub(super) access: [vk::AccessFlags; 2],
}

/// The attachments of a render pass.
#[derive(Clone, Copy)]
pub(super) struct Attachments<'a> {
    pub(super) views: &'a [vk::ImageView],
    pub(super) formats: &'a [vk::Format],
    pub(super) samples: vk::SampleCountFlags,
    pub(super) load: vk::AttachmentLoadOp,
    /// The target of the first one's samples.
    pub(super) resolved: Option<vk::ImageView>,
    /// An input attachment, with its format and layout.
    pub(super) input: Option<(vk::ImageView, vk::Format, vk::ImageLayout)>,
    pub(super) extent: [u32; 2],
}

pub(super) fn rectangle([x, y]: [u32; 2], [width, height]: [u32; 2]) -> vk::Rect2D {
    let offset = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    vk::Rect2D { offset: vk::Offset2D { x: offset(x), y: offset(y) }, extent: vk::Extent2D { width, height } }
}

fn name(entry: &str) -> Verdict<CString> {
    CString::new(entry).map_err(|error| Stop::failed(error.to_string()))
}

impl Drop for Gpu<'_> {
    fn drop(&mut self) {
        if self.pending.get() {
            // The commands may still run.
            self.buffers.take().into_iter().for_each(std::mem::forget);
            return;
        }
        let device = self.device();
        for object in self.objects.take().into_iter().rev() {
            // SAFETY: this object owns it; no submission is pending; what was made later is destroyed earlier, and
            // memory last.
            unsafe {
                match object {
                    Object::Memory(memory) => device.free_memory(memory, None),
                    Object::Image(image) => device.destroy_image(image, None),
                    Object::View(view) => device.destroy_image_view(view, None),
                    Object::Texels(view) => device.destroy_buffer_view(view, None),
                    Object::Sampler(sampler) => device.destroy_sampler(sampler, None),
                    Object::Module(module) => device.destroy_shader_module(module, None),
                    Object::SetLayout(layout) => device.destroy_descriptor_set_layout(layout, None),
                    Object::Pool(pool) => device.destroy_descriptor_pool(pool, None),
                    Object::Layout(layout) => device.destroy_pipeline_layout(layout, None),
                    Object::Pass(pass) => device.destroy_render_pass(pass, None),
                    Object::Framebuffer(framebuffer) => device.destroy_framebuffer(framebuffer, None),
                    Object::Pipeline(pipeline) => device.destroy_pipeline(pipeline, None),
                    Object::Queries(pool) => device.destroy_query_pool(pool, None),
                }
            }
        }
    }
}
