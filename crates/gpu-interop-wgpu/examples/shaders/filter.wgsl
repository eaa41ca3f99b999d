struct Vertex { @builtin(position) position: vec4f, @location(0) normal: vec3f, @location(1) colour: vec3f }
@group(0) @binding(0) var<uniform> angle: f32;

fn turn(v: vec3f, a: f32) -> vec3f { return vec3f(cos(a) * v.x - sin(a) * v.y, sin(a) * v.x + cos(a) * v.y, v.z); }

// Two linked tori of 96 by 48 squares.
@vertex fn torus(@builtin(vertex_index) index: u32, @builtin(instance_index) instance: u32) -> Vertex {
    let corner = array(vec2u(0, 0), vec2u(1, 0), vec2u(0, 1), vec2u(0, 1), vec2u(1, 0), vec2u(1, 1))[index % 6];
    let at = vec2f(vec2u(index / 6 % 96, index / 576) + corner) * 6.2831853 / vec2f(96, 48);
    var normal = vec3f(cos(at.x) * cos(at.y), sin(at.x) * cos(at.y), sin(at.y));
    var position = vec3f(cos(at.x), sin(at.x), 0) + 0.36 * normal;
    if instance == 1 { normal = normal.xzy; position = position.xzy + vec3f(1, 0, 0); }
    position -= vec3f(0.5, 0, 0);
    normal = turn(turn(normal, angle).yzx, 0.6 + 2 * angle).zxy;
    position = turn(turn(position, angle).yzx, 0.6 + 2 * angle).zxy + vec3f(0, 0, 5);
    let colour = select(vec3f(0.95, 0.55, 0.2), vec3f(0.3, 0.65, 0.95), instance == 1);
    return Vertex(vec4f(position.xy * 2.1, (position.z - 1) * 1.1, position.z), normal, colour);
}
@fragment fn light(v: Vertex) -> @location(0) vec4f {
    let normal = normalize(v.normal);
    let lamp = normalize(vec3f(-0.5, 0.8, -0.7));
    let shine = pow(max(dot(reflect(-lamp, normal), vec3f(0, 0, -1)), 0), 24);
    return vec4f(v.colour * (0.2 + 0.8 * max(dot(normal, lamp), 0)) + 0.5 * shine, 1);
}

struct Corner { @builtin(position) position: vec4f, @location(0) at: vec2f }
@group(0) @binding(0) var scene: texture_2d<f32>;
@group(0) @binding(1) var edges: texture_2d<f32>;
@vertex fn screen(@builtin(vertex_index) index: u32) -> Corner {
    let at = vec2f(f32(index & 1), f32(index >> 1)) * 2;
    return Corner(vec4f(at.x * 2 - 1, 1 - at.y * 2, 0, 1), at);
}
// The scene on the left, with its edges on the right.
@fragment fn compose(corner: Corner) -> @location(0) vec4f {
    let texel = vec2u(corner.position.xy);
    let colour = textureLoad(scene, texel, 0).rgb;
    let edge = textureLoad(edges, texel, 0).r;
    return vec4f(select(colour, mix(colour * 0.3, vec3f(0.6, 1, 0.9), edge), corner.at.x > 0.5), 1);
}
