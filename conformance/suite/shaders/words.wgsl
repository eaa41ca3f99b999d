// Copies of 32-bit words by each kind of shader, and marks of what was drawn or dispatched.

@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> results: array<u32>;
@group(0) @binding(6) var<uniform> uniforms: array<vec4<u32>, 256>;

// The words of `width` workgroups of 64.
@compute @workgroup_size(64)
fn copy(@builtin(global_invocation_id) at: vec3<u32>) {
    results[at.x] = words[at.x];
}

@compute @workgroup_size(64)
fn copy_uniforms(@builtin(global_invocation_id) at: vec3<u32>) {
    results[at.x] = uniforms[at.x / 4u][at.x % 4u];
}

// Outside of what is drawn.
const NOWHERE: vec4<f32> = vec4<f32>(2.0, 2.0, 0.0, 1.0);

@vertex
fn copy_by_vertex(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    results[index] = words[index];
    return NOWHERE;
}

@vertex
fn read_attribute(@builtin(vertex_index) index: u32, @location(0) word: u32) -> @builtin(position) vec4<f32> {
    results[index] = word;
    return NOWHERE;
}

@vertex
fn mark(@builtin(vertex_index) vertex: u32, @builtin(instance_index) instance: u32) -> @builtin(position) vec4<f32> {
    results[instance * parameters.width + vertex] = 1u;
    return NOWHERE;
}

@fragment
fn copy_by_fragment(@builtin(position) position: vec4<f32>) {
    let index = u32(position.y) * parameters.width + u32(position.x);
    results[index] = words[index];
}

@compute @workgroup_size(1)
fn mark_group(@builtin(workgroup_id) group: vec3<u32>) {
    results[(group.z * 8u + group.y) * 8u + group.x] = 1u;
}
