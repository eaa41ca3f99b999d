// Draws that cover the viewport. The colour of each texel comes from a buffer of four 32-bit channels a texel.

@group(0) @binding(0) var<storage, read> texels: array<vec4<u32>>;

fn texel(position: vec4<f32>, base: u32) -> vec4<u32> {
    return texels[base + u32(position.y) * parameters.width + u32(position.x)];
}

@fragment
fn floats(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    return bitcast<vec4<f32>>(texel(position, parameters.base));
}

@fragment
fn unsigned(@builtin(position) position: vec4<f32>) -> @location(0) vec4<u32> {
    return texel(position, parameters.base);
}

@fragment
fn signed(@builtin(position) position: vec4<f32>) -> @location(0) vec4<i32> {
    return bitcast<vec4<i32>>(texel(position, parameters.base));
}

struct Two {
    @location(0) first: vec4<f32>,
    @location(1) second: vec4<f32>,
}

// The second colour is that of the texels after the first ones.
@fragment
fn two(@builtin(position) position: vec4<f32>) -> Two {
    let after = parameters.base + parameters.width * parameters.height;
    return Two(bitcast<vec4<f32>>(texel(position, parameters.base)), bitcast<vec4<f32>>(texel(position, after)));
}
