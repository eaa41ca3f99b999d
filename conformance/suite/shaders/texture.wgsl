// Fetches from a sampled image. DIMENSIONS and CHANNEL are replaced before the compilation.

@group(0) @binding(1) var<storage, read_write> results: array<vec4<u32>>;
@group(0) @binding(2) var image: texture_DIMENSIONS<CHANNEL>;

@compute @workgroup_size(8, 8)
fn fetch(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        results[place(at)] = bitcast<vec4<u32>>(textureLoad(image, COORDINATES, 0));
    }
}

@fragment
fn fetch_drawn(@builtin(position) position: vec4<f32>) {
    let at = vec3<u32>(u32(position.x), u32(position.y), 0u);
    results[place(at)] = bitcast<vec4<u32>>(textureLoad(image, COORDINATES, 0));
}
