struct Particle { @builtin(position) position: vec4f, @location(0) colour: vec3f }

@vertex fn particle(@location(0) at: vec4f, @builtin(vertex_index) index: u32) -> Particle {
    // From a little above, with a little perspective.
    let tilted = vec3f(at.x, 0.8 * at.y + 0.6 * at.z, 0.8 * at.z - 0.6 * at.y);
    let galaxy = select(vec3f(1.0, 0.5, 0.2), vec3f(0.25, 0.55, 1.0), (index & 1) == 1);
    let colour = mix(galaxy, vec3f(0.9, 0.85, 0.9), min(0.35 * at.w * at.w, 0.8));
    return Particle(vec4f(tilted.xy * 1.9, 4.5 - tilted.z, 9), colour * 0.15);
}

@fragment fn add(particle: Particle) -> @location(0) vec4f { return vec4f(particle.colour, 1); }

@group(0) @binding(0) var light: texture_2d<f32>;

@vertex fn screen(@builtin(vertex_index) index: u32) -> @builtin(position) vec4f {
    return vec4f(f32(index & 1) * 4 - 1, f32(index >> 1) * 4 - 1, 0, 1);
}

@fragment fn expose(@builtin(position) position: vec4f) -> @location(0) vec4f {
    return vec4f(1 - exp(-textureLoad(light, vec2u(position.xy), 0).rgb), 1);
}
