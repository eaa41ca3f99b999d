// Stores to a storage image and loads from it. FORMAT, DIMENSIONS and CHANNEL are replaced before the compilation.

struct Parameters {
    width: u32,
    height: u32,
    base: u32,
}

var<immediate> parameters: Parameters;
@group(0) @binding(0) var<storage, read> texels: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> results: array<vec4<u32>>;
@group(0) @binding(4) var written: texture_storage_DIMENSIONS<FORMAT, write>;
@group(0) @binding(5) var loaded: texture_storage_DIMENSIONS<FORMAT, read>;

fn place(at: vec3<u32>) -> u32 {
    return parameters.base + (at.z * parameters.height + at.y) * parameters.width + at.x;
}

@compute @workgroup_size(8, 8)
fn store(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        textureStore(written, COORDINATES, bitcast<vec4<CHANNEL>>(texels[place(at)]));
    }
}

@vertex
fn covering(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4<f32>(f32(index & 1u) * 4.0 - 1.0, f32(index >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

@fragment
fn store_drawn(@builtin(position) position: vec4<f32>) {
    let at = vec3<u32>(u32(position.x), u32(position.y), 0u);
    textureStore(written, COORDINATES, bitcast<vec4<CHANNEL>>(texels[place(at)]));
}

@compute @workgroup_size(8, 8)
fn load(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        results[place(at)] = bitcast<vec4<u32>>(textureLoad(loaded, COORDINATES));
    }
}
