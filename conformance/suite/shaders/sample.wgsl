// Samples a two-dimensional image of floats at the centres of its texels, and, for a linear filter, between two columns.

@group(0) @binding(1) var<storage, read_write> results: array<vec4<u32>>;
@group(0) @binding(2) var image: texture_2d_array<f32>;
@group(0) @binding(3) var filtered: sampler;

fn sampled(at: vec3<u32>, right: f32) -> vec4<u32> {
    let extent = vec2<f32>(f32(parameters.width), f32(parameters.height));
    let centre = vec2<f32>(f32(at.x) + 0.5 + right, f32(at.y) + 0.5) / extent;
    return bitcast<vec4<u32>>(textureSampleLevel(image, filtered, centre, 0, 0.0));
}

@compute @workgroup_size(8, 8)
fn centres(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        results[place(at)] = sampled(at, 0.0);
    }
}

@compute @workgroup_size(8, 8)
fn between(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < parameters.width && at.y < parameters.height {
        results[place(at)] = sampled(at, 0.5);
    }
}
