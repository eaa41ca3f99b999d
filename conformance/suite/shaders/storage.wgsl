// Stores to a storage image and loads from it. FORMAT, DIMENSIONS and CHANNEL are replaced before the compilation.

@group(0) @binding(0) var<storage, read> texels: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> results: array<vec4<u32>>;
@group(0) @binding(4) var written: texture_storage_DIMENSIONS<FORMAT, write>;
@group(0) @binding(5) var loaded: texture_storage_DIMENSIONS<FORMAT, read>;

@compute @workgroup_size(8, 8)
fn store(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        textureStore(written, COORDINATES, bitcast<vec4<CHANNEL>>(texels[place(at)]));
    }
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
