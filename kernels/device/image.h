// Kernels on CUDA surface and texture objects, with inline PTX because C has no intrinsics for them.
#pragma once

#include <stdbool.h>

#include "pattern.h"
#include "vendor.h"

// A texel of 1, 2, 4, 8 or 16 bytes: the bytes in memory order, the rest 0.
struct texel {
    uint32_t words[4];
};

// A surface of `depth` slices, layers or faces of `height` rows of `width` texels; dimensions that a shape lacks are 1.
struct surface {
    uint64_t object;
    uint32_t shape, width, height, depth, texel_size;
};

struct position {
    uint32_t x, y, z;
};

// `SurfaceShape` of the Rust crate.
enum { SHAPE_1D, SHAPE_2D, SHAPE_3D, SHAPE_1D_LAYERED, SHAPE_2D_LAYERED };

// `TexelType` of the Rust crate.
enum { TEXEL_FLOAT, TEXEL_UINT, TEXEL_SINT };

static inline struct position position(uint64_t number, uint32_t width, uint32_t height) {
    uint64_t row = number / width;
    return (struct position){(uint32_t)(number % width), (uint32_t)(row % height), (uint32_t)(row / height)};
}

static inline uint64_t texels(const struct surface *surface) {
    return (uint64_t)surface->width * surface->height * surface->depth;
}

// Returns texel `number` of a level whose tightly packed bytes are the pattern.
static inline struct texel pattern_texel(uint32_t seed, uint64_t number, uint32_t size) {
    struct texel texel = {0};
    switch (size) {
    case 1: texel.words[0] = pattern_word(seed, number / 4) >> number % 4 * 8 & 0xff; break;
    case 2: texel.words[0] = pattern_word(seed, number / 2) >> number % 2 * 16 & 0xffff; break;
    default:
        // The constant bound keeps the words in registers.
        for (uint32_t word = 0; word < 4; word++)
            if (word < size / 4)
                texel.words[word] = pattern_word(seed, number * (size / 4) + word);
    }
    return texel;
}

// The formatless instructions (`.b`) take x in bytes and everything else in rows, slices or layers. `.zero` drops what
// is stored outside of the surface and loads 0 there: a wrong extent gives mismatches and not a lost context. A vector
// of three coordinates is written with four; the fourth is ignored.
#define AT_1D "[%[object], {%[x]}]"
#define AT_2D "[%[object], {%[x], %[y]}]"
#define AT_3D "[%[object], {%[x], %[y], %[z], %[z]}]"
#define AT_1D_LAYERED "[%[object], {%[z], %[x]}]"
#define AT_2D_LAYERED "[%[object], {%[z], %[x], %[y], %[y]}]"
#define PLACE [object] "l"(surface->object), [x] "r"(x), [y] "r"(at.y), [z] "r"(at.z)

#define STORE(geometry, type, place, data, ...)                                                                        \
    __asm__ volatile("sust.b." geometry "." type ".zero " place ", " data ";" ::PLACE, __VA_ARGS__ : "memory")
#define STORE_SIZES(geometry, place)                                                                                   \
    switch (surface->texel_size) {                                                                                     \
    case 1: STORE(geometry, "b8", place, "%[a]", [a] "h"((uint16_t)a)); break;                                         \
    case 2: STORE(geometry, "b16", place, "%[a]", [a] "h"((uint16_t)a)); break;                                        \
    case 4: STORE(geometry, "b32", place, "%[a]", [a] "r"(a)); break;                                                  \
    case 8: STORE(geometry, "v2.b32", place, "{%[a], %[b]}", [a] "r"(a), [b] "r"(b)); break;                           \
    case 16:                                                                                                           \
        STORE(geometry, "v4.b32", place, "{%[a], %[b], %[c], %[d]}", [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d));  \
        break;                                                                                                         \
    }

static inline void store(const struct surface *surface, struct position at, struct texel texel) {
    uint32_t x = at.x * surface->texel_size;
    uint32_t a = texel.words[0], b = texel.words[1], c = texel.words[2], d = texel.words[3];
    switch (surface->shape) {
    case SHAPE_1D: STORE_SIZES("1d", AT_1D); break;
    case SHAPE_2D: STORE_SIZES("2d", AT_2D); break;
    case SHAPE_3D: STORE_SIZES("3d", AT_3D); break;
    case SHAPE_1D_LAYERED: STORE_SIZES("a1d", AT_1D_LAYERED); break;
    case SHAPE_2D_LAYERED: STORE_SIZES("a2d", AT_2D_LAYERED); break;
    }
}

#define LOAD(geometry, type, place, data, ...)                                                                         \
    __asm__ volatile("suld.b." geometry "." type ".zero " data ", " place ";" : __VA_ARGS__ : PLACE : "memory")
#define LOAD_SIZES(geometry, place)                                                                                    \
    switch (surface->texel_size) {                                                                                     \
    case 1: LOAD(geometry, "b8", place, "%[a]", [a] "=h"(narrow)); a = narrow & 0xff; break;                           \
    case 2: LOAD(geometry, "b16", place, "%[a]", [a] "=h"(narrow)); a = narrow; break;                                 \
    case 4: LOAD(geometry, "b32", place, "%[a]", [a] "=r"(a)); break;                                                  \
    case 8: LOAD(geometry, "v2.b32", place, "{%[a], %[b]}", [a] "=r"(a), [b] "=r"(b)); break;                          \
    case 16:                                                                                                           \
        LOAD(geometry, "v4.b32", place, "{%[a], %[b], %[c], %[d]}", [a] "=r"(a), [b] "=r"(b), [c] "=r"(c),             \
             [d] "=r"(d));                                                                                             \
        break;                                                                                                         \
    default: return false;                                                                                             \
    }

// Returns false for an unknown shape or size, so that unread texels never count as verified.
static inline bool load(const struct surface *surface, struct position at, struct texel *texel) {
    uint32_t x = at.x * surface->texel_size;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    uint16_t narrow;
    switch (surface->shape) {
    case SHAPE_1D: LOAD_SIZES("1d", AT_1D); break;
    case SHAPE_2D: LOAD_SIZES("2d", AT_2D); break;
    case SHAPE_3D: LOAD_SIZES("3d", AT_3D); break;
    case SHAPE_1D_LAYERED: LOAD_SIZES("a1d", AT_1D_LAYERED); break;
    case SHAPE_2D_LAYERED: LOAD_SIZES("a2d", AT_2D_LAYERED); break;
    default: return false;
    }
    *texel = (struct texel){{a, b, c, d}};
    return true;
}

KERNEL void surface_fill(uint64_t object, uint32_t shape, uint32_t width, uint32_t height, uint32_t depth,
                         uint32_t texel_size, uint32_t seed) {
    struct surface surface = {object, shape, width, height, depth, texel_size};
    for (uint64_t number = thread_index(); number < texels(&surface); number += thread_count())
        store(&surface, position(number, width, height), pattern_texel(seed, number, texel_size));
}

KERNEL void surface_verify(uint64_t object, uint32_t shape, uint32_t width, uint32_t height, uint32_t depth,
                           uint32_t texel_size, uint32_t seed, GLOBAL uint32_t *mismatches) {
    struct surface surface = {object, shape, width, height, depth, texel_size};
    uint32_t differing = 0;
    for (uint64_t number = thread_index(); number < texels(&surface); number += thread_count()) {
        struct texel found = {0}, expected = pattern_texel(seed, number, texel_size);
        bool differs = !load(&surface, position(number, width, height), &found);
        for (int word = 0; word < 4; word++)
            differs |= found.words[word] != expected.words[word];
        differing += differs;
    }
    if (differing != 0)
        add(mismatches, differing);
}

// Bits of the four channels of a texel.
#define FETCH(instruction, channel, constraint, ...)                                                                   \
    __asm__ volatile("tex." instruction ";"                                                                            \
                     : [r] "=" constraint(channel[0]), [g] "=" constraint(channel[1]), [b] "=" constraint(channel[2]), \
                       [a] "=" constraint(channel[3])                                                                  \
                     : [texture] "l"(texture), __VA_ARGS__)
#define RGBA "{%[r], %[g], %[b], %[a]}"

// Integer coordinates count texels and bypass the object's filter, address mode and normalisation.
#define FETCH_TEXEL(type, channel, constraint)                                                                         \
    FETCH("2d.v4." type ".s32 " RGBA ", [%[texture], {%[x], %[y]}]", channel, constraint, [x] "r"(at.x), [y] "r"(at.y))
#define FETCH_LEVEL(type, channel, constraint)                                                                         \
    FETCH("level.2d.v4." type ".f32 " RGBA ", [%[texture], {%[x], %[y]}], %[lod]", channel, constraint, [x] "f"(x),    \
          [y] "f"(y), [lod] "f"((float)level))

#define FETCH_TYPES(fetch)                                                                                             \
    switch (type) {                                                                                                    \
    case TEXEL_FLOAT: fetch("f32", texel.floats, "f"); break;                                                          \
    case TEXEL_UINT: fetch("u32", texel.words, "r"); break;                                                            \
    case TEXEL_SINT: fetch("s32", texel.words, "r"); break;                                                            \
    }

union channels {
    float floats[4];
    uint32_t words[4];
};

static inline void put(GLOBAL uint32_t *channels, uint64_t number, const union channels *texel) {
    for (int channel = 0; channel < 4; channel++)
        channels[number * 4 + channel] = texel->words[channel];
}

KERNEL void texture_read(uint64_t texture, GLOBAL uint32_t *channels, uint32_t width, uint32_t height, uint32_t type) {
    for (uint64_t number = thread_index(); number < (uint64_t)width * height; number += thread_count()) {
        struct position at = position(number, width, height);
        union channels texel = {0};
        FETCH_TYPES(FETCH_TEXEL)
        put(channels, number, &texel);
    }
}

// Mipmapped texture objects always have normalised coordinates: the driver creates no others.
KERNEL void texture_read_level(uint64_t texture, GLOBAL uint32_t *channels, uint32_t width, uint32_t height,
                               uint32_t type, uint32_t level) {
    for (uint64_t number = thread_index(); number < (uint64_t)width * height; number += thread_count()) {
        struct position at = position(number, width, height);
        float x = ((float)at.x + 0.5f) / (float)width, y = ((float)at.y + 0.5f) / (float)height;
        union channels texel = {0};
        FETCH_TYPES(FETCH_LEVEL)
        put(channels, number, &texel);
    }
}
