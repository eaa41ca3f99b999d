// Parameters of all shaders, the place of a texel in a buffer, and a triangle that covers the viewport.

struct Parameters {
    width: u32,
    height: u32,
    base: u32,
}

var<immediate> parameters: Parameters;

fn place(at: vec3<u32>) -> u32 {
    return parameters.base + (at.z * parameters.height + at.y) * parameters.width + at.x;
}

@vertex
fn covering(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4<f32>(f32(index & 1u) * 4.0 - 1.0, f32(index >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}
