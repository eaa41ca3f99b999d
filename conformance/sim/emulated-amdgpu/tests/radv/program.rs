//! A compute program in SPIR-V: `words[at] = words[at] * 3 + at`, where `at` is `x + 1024 * y + 4096 * z` of each work
//! item, in groups of 64 along x.

use ash::vk;

use crate::vulkan::{Buffer, Gpu, Result, check};

/// An instruction: its operation and its operands.
fn instruction(words: &mut Vec<u32>, operation: u32, operands: &[u32]) {
    let length = u32::try_from(operands.len() + 1).unwrap_or(0);
    words.push(length << 16 | operation);
    words.extend(operands);
}

/// The module. Numbers are those of the SPIR-V specification.
fn module() -> Vec<u32> {
    const MAIN: u32 = 1;
    const ITEM: u32 = 2;
    const BLOCK: u32 = 3;
    const VOID: u32 = 4;
    const FUNCTION: u32 = 5;
    const UINT: u32 = 6;
    const VECTOR: u32 = 7;
    const INPUT_VECTOR: u32 = 8;
    const ARRAY: u32 = 9;
    const STRUCT: u32 = 10;
    const STRUCT_POINTER: u32 = 11;
    const UINT_POINTER: u32 = 12;
    const ZERO: u32 = 13;
    const THREE: u32 = 14;
    const LABEL: u32 = 15;
    const LOADED: u32 = 16;
    const X: u32 = 17;
    const PLACE: u32 = 18;
    const VALUE: u32 = 19;
    const PRODUCT: u32 = 20;
    const SUM: u32 = 21;
    const ROW: u32 = 22;
    const PLANE: u32 = 23;
    const Y: u32 = 24;
    const Z: u32 = 25;
    const ROWS: u32 = 26;
    const PLANES: u32 = 27;
    const IN_PLANE: u32 = 28;
    const AT: u32 = 29;
    // Magic number, version 1.3, generator, bound of the identifiers, schema.
    let mut words = vec![0x0723_0203, 0x0001_0300, 0, 30, 0];
    let main_name = u32::from_le_bytes(*b"main");
    let instructions: &[(u32, &[u32])] = &[
        // Capability Shader, logical addressing and GLSL's memory model.
        (17, &[1]),
        (14, &[0, 1]),
        // The entry point of a compute program, with groups of 64, 1, 1.
        (15, &[5, MAIN, main_name, 0, ITEM]),
        (16, &[MAIN, 17, 64, 1, 1]),
        // GlobalInvocationId, the array's stride, the structure's offset, Block, descriptor set and binding.
        (71, &[ITEM, 11, 28]),
        (71, &[ARRAY, 6, 4]),
        (72, &[STRUCT, 0, 35, 0]),
        (71, &[STRUCT, 2]),
        (71, &[BLOCK, 34, 0]),
        (71, &[BLOCK, 33, 0]),
        (19, &[VOID]),
        (33, &[FUNCTION, VOID]),
        (21, &[UINT, 32, 0]),
        (23, &[VECTOR, UINT, 3]),
        // Pointers: input is storage class 1, storage buffers are 12.
        (32, &[INPUT_VECTOR, 1, VECTOR]),
        (29, &[ARRAY, UINT]),
        (30, &[STRUCT, ARRAY]),
        (32, &[STRUCT_POINTER, 12, STRUCT]),
        (32, &[UINT_POINTER, 12, UINT]),
        (43, &[UINT, ZERO, 0]),
        (43, &[UINT, THREE, 3]),
        (43, &[UINT, ROW, 1024]),
        (43, &[UINT, PLANE, 4096]),
        (59, &[INPUT_VECTOR, ITEM, 1]),
        (59, &[STRUCT_POINTER, BLOCK, 12]),
        // The function: load, extract, multiply, add, access chain, load, multiply, add, store, return.
        (54, &[VOID, MAIN, 0, FUNCTION]),
        (248, &[LABEL]),
        (61, &[VECTOR, LOADED, ITEM]),
        (81, &[UINT, X, LOADED, 0]),
        (81, &[UINT, Y, LOADED, 1]),
        (81, &[UINT, Z, LOADED, 2]),
        (132, &[UINT, ROWS, Y, ROW]),
        (132, &[UINT, PLANES, Z, PLANE]),
        (128, &[UINT, IN_PLANE, X, ROWS]),
        (128, &[UINT, AT, IN_PLANE, PLANES]),
        (65, &[UINT_POINTER, PLACE, BLOCK, ZERO, AT]),
        (61, &[UINT, VALUE, PLACE]),
        (132, &[UINT, PRODUCT, VALUE, THREE]),
        (128, &[UINT, SUM, PRODUCT, AT]),
        (62, &[PLACE, SUM]),
        (253, &[]),
        (56, &[]),
    ];
    for (operation, operands) in instructions {
        instruction(&mut words, *operation, operands);
    }
    words
}

/// The program with a buffer bound to it.
pub(crate) struct Program {
    pipeline: vk::Pipeline,
    layout: vk::PipelineLayout,
    sets: Vec<vk::DescriptorSet>,
}

impl Program {
    pub(crate) fn new(gpu: &Gpu, buffer: &Buffer) -> Result<Self> {
        let device = &gpu.device;
        let code = module();
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: the structures of this and the following calls are valid, and the objects live until the process ends.
        let module = check("vkCreateShaderModule", unsafe { device.create_shader_module(&info, None) })?;
        let kind = vk::DescriptorType::STORAGE_BUFFER;
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(kind)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: as above.
        let layouts =
            [check("vkCreateDescriptorSetLayout", unsafe { device.create_descriptor_set_layout(&info, None) })?];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        // SAFETY: as above.
        let layout = check("vkCreatePipelineLayout", unsafe { device.create_pipeline_layout(&info, None) })?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let flags = vk::PipelineCreateFlags::DISPATCH_BASE;
        let infos = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout)];
        // SAFETY: as above.
        let pipelines = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None) };
        let pipelines = check("vkCreateComputePipelines", pipelines.map_err(|(_, error)| error))?;
        let sizes = [vk::DescriptorPoolSize::default().ty(kind).descriptor_count(1)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: as above.
        let pool = check("vkCreateDescriptorPool", unsafe { device.create_descriptor_pool(&info, None) })?;
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: as above.
        let sets = check("vkAllocateDescriptorSets", unsafe { device.allocate_descriptor_sets(&info) })?;
        let buffers = [vk::DescriptorBufferInfo::default().buffer(buffer.buffer).range(vk::WHOLE_SIZE)];
        let writes = [vk::WriteDescriptorSet::default().dst_set(sets[0]).descriptor_type(kind).buffer_info(&buffers)];
        // SAFETY: as above.
        unsafe { device.update_descriptor_sets(&writes, &[]) };
        Ok(Self { pipeline: pipelines[0], layout, sets })
    }

    /// Binds the program and its buffer.
    pub(crate) fn bind(&self, device: &ash::Device, commands: vk::CommandBuffer) {
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the objects are live, and the command buffer is being recorded.
        unsafe {
            device.cmd_bind_pipeline(commands, point, self.pipeline);
            device.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &self.sets, &[]);
        }
    }
}
