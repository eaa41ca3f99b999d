// Reads of an input attachment. WGSL has none: this image becomes one when this is compiled. CHANNEL is replaced before the
// compilation.

@group(0) @binding(1) var<storage, read_write> results: array<vec4<u32>>;
@group(0) @binding(9) var attached: texture_2d<CHANNEL>;

@fragment
fn read(@builtin(position) position: vec4<f32>) {
    let at = vec3<u32>(u32(position.x), u32(position.y), 0u);
    results[place(at)] = bitcast<vec4<u32>>(textureLoad(attached, vec2<i32>(0, 0), 0));
}
