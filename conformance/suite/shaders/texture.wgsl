// Fetches from a sampled image. DIMENSIONS and CHANNEL are replaced before the compilation.

struct Parameters {
    width: u32,
    height: u32,
    base: u32,
}

var<immediate> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> results: array<vec4<u32>>;
@group(0) @binding(2) var image: texture_DIMENSIONS<CHANNEL>;

fn place(at: vec3<u32>) -> u32 {
    return parameters.base + (at.z * parameters.height + at.y) * parameters.width + at.x;
}

@compute @workgroup_size(8, 8)
fn fetch(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        results[place(at)] = bitcast<vec4<u32>>(textureLoad(image, COORDINATES, 0));
    }
}

@vertex
fn covering(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4<f32>(f32(index & 1u) * 4.0 - 1.0, f32(index >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

@fragment
fn fetch_drawn(@builtin(position) position: vec4<f32>) {
    let at = vec3<u32>(u32(position.x), u32(position.y), 0u);
    results[place(at)] = bitcast<vec4<u32>>(textureLoad(image, COORDINATES, 0));
}
