// Particles without mass of their own, attracted by two cores. `advance` of ../wgpu_particles.rs is the same.

#include "vendor.h"

typedef float float4 __attribute__((ext_vector_type(4)));

struct step {
    float cores[2][4]; // x, y, z, mass
    float seconds;
};

// A state is a position and a velocity; a vertex is a position and a speed.
KERNEL void advance(GLOBAL float4 *states, GLOBAL float4 *vertices, uint64_t count, struct step step) {
    for (uint64_t index = thread_index(); index < count; index += thread_count()) {
        float4 position = states[index * 2], velocity = states[index * 2 + 1];
        float half = step.seconds * 0.5f;
        float x = position.x + velocity.x * half;
        float y = position.y + velocity.y * half;
        float z = position.z + velocity.z * half;
        for (int core = 0; core < 2; core++) {
            float dx = step.cores[core][0] - x, dy = step.cores[core][1] - y, dz = step.cores[core][2] - z;
            float square = dx * dx + dy * dy + dz * dz + 0.04f;
            float pull = step.cores[core][3] * step.seconds / (square * __builtin_sqrtf(square));
            velocity.x += dx * pull;
            velocity.y += dy * pull;
            velocity.z += dz * pull;
        }
        position.x = x + velocity.x * half;
        position.y = y + velocity.y * half;
        position.z = z + velocity.z * half;
        states[index * 2] = position;
        states[index * 2 + 1] = velocity;
        position.w = __builtin_sqrtf(velocity.x * velocity.x + velocity.y * velocity.y + velocity.z * velocity.z);
        vertices[index] = position;
    }
}
