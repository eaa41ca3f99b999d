// Copies of 32-bit words through texel buffers. WGSL has none: these one-dimensional textures become buffers when this is
// compiled.

@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> results: array<u32>;
@group(0) @binding(7) var fetched: texture_1d<u32>;
@group(0) @binding(8) var stored: texture_storage_1d<r32uint, write>;

@compute @workgroup_size(64)
fn fetch(@builtin(global_invocation_id) at: vec3<u32>) {
    results[at.x] = textureLoad(fetched, at.x, 0).x;
}

@compute @workgroup_size(64)
fn store(@builtin(global_invocation_id) at: vec3<u32>) {
    textureStore(stored, at.x, vec4<u32>(words[at.x]));
}
