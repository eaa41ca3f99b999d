// Sobel's operator on the brightness of RGBA8 texels, `radius` texels apart. `edge` of ../wgpu_filter.rs is the same.
//
// An image is the address of its first texel and its row pitch in bytes or, with a row pitch of 0, a CUDA surface object.

#include "vendor.h"

static inline uint32_t load(uint64_t image, uint64_t pitch, int32_t x, int32_t y) {
    if (pitch != 0)
        return *(const GLOBAL uint32_t *)(image + (uint64_t)y * pitch + (uint64_t)x * 4);
    uint32_t texel = 0;
#if defined(__NVPTX__)
    __asm__ volatile("suld.b.2d.b32.zero %0, [%1, {%2, %3}];" : "=r"(texel) : "l"(image), "r"(x * 4), "r"(y) : "memory");
#endif
    return texel;
}

static inline void store(uint64_t image, uint64_t pitch, int32_t x, int32_t y, uint32_t texel) {
    if (pitch != 0)
        *(GLOBAL uint32_t *)(image + (uint64_t)y * pitch + (uint64_t)x * 4) = texel;
#if defined(__NVPTX__)
    else
        __asm__ volatile("sust.b.2d.b32.zero [%0, {%1, %2}], %3;" ::"l"(image), "r"(x * 4), "r"(y), "r"(texel)
                         : "memory");
#endif
}

static inline int32_t clamped(int32_t value, int32_t size) { return value < 0 ? 0 : value < size ? value : size - 1; }

static inline int32_t magnitude(int32_t value) { return value < 0 ? -value : value; }

KERNEL void edges(uint64_t from, uint64_t from_pitch, uint64_t to, uint64_t to_pitch, int32_t size, int32_t radius) {
    for (uint64_t index = thread_index(); index < (uint64_t)size * (uint64_t)size; index += thread_count()) {
        int32_t x = (int32_t)(index % (uint64_t)size), y = (int32_t)(index / (uint64_t)size);
        int32_t light[3][3];
        for (int32_t row = 0; row < 3; row++)
            for (int32_t column = 0; column < 3; column++) {
                uint32_t texel = load(from, from_pitch, clamped(x + (column - 1) * radius, size),
                                      clamped(y + (row - 1) * radius, size));
                light[row][column] =
                    (int32_t)((texel & 255) * 77 + (texel >> 8 & 255) * 150 + (texel >> 16 & 255) * 29) >> 8;
            }
        int32_t across = light[0][2] + 2 * light[1][2] + light[2][2] - light[0][0] - 2 * light[1][0] - light[2][0];
        int32_t down = light[2][0] + 2 * light[2][1] + light[2][2] - light[0][0] - 2 * light[0][1] - light[0][2];
        int32_t sum = magnitude(across) + magnitude(down);
        store(to, to_pitch, x, y, (uint32_t)(sum < 255 ? sum : 255) * 0x010101 | 0xff000000);
    }
}
