// The kernel of ../kernels/particles.c.
struct State { position: vec4f, velocity: vec4f }
struct Step { cores: array<vec4f, 2>, seconds: f32 }

@group(0) @binding(0) var<storage, read_write> states: array<State>;
@group(0) @binding(1) var<storage, read_write> vertices: array<vec4f>;
@group(0) @binding(2) var<uniform> step: Step;

@compute @workgroup_size(256)
fn advance(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
    for (var index = id.x; index < arrayLength(&vertices); index += groups.x * 256) {
        var state = states[index];
        let half = step.seconds * 0.5;
        let middle = state.position.xyz + state.velocity.xyz * half;
        var velocity = state.velocity.xyz;
        for (var core = 0; core < 2; core++) {
            let way = step.cores[core].xyz - middle;
            let square = dot(way, way) + 0.04;
            velocity += way * (step.cores[core].w * step.seconds / (square * sqrt(square)));
        }
        state.position = vec4f(middle + velocity * half, 0);
        state.velocity = vec4f(velocity, 0);
        states[index] = state;
        vertices[index] = vec4f(state.position.xyz, length(velocity));
    }
}
