// Conversion between RGBA and 4:2:0 with interleaved chroma. Integers only, so that every vendor computes the same
// bytes. `../src/convert/cpu.rs` is the same arithmetic for one texel at a time.
//
// A thread converts blocks of four columns, of four rows to RGBA and of two rows to YUV, with accesses of 4, 8 and 16 bytes
// where the addresses permit.
#pragma once

#include <stdbool.h>

#include "vendor.h"

// Bits of the fraction of sums.
enum { FRACTION = 20 };

typedef uint32_t words2 __attribute__((vector_size(8)));
typedef uint32_t words4 __attribute__((vector_size(16)));

// A plane: rows of bytes, `pitch` apart.
struct plane {
    GLOBAL uint8_t *start;
    uint32_t pitch;
};

// Sizes in texels, of luma and of chroma, and the bytes of a sample.
struct picture {
    uint32_t width, height, chroma_width, chroma_height, sample_size;
    // Every block of four samples and of four texels is aligned to its size.
    bool aligned;
};

// Four samples, or two pairs of chroma: each word has one in its low half and one in its high half.
struct four {
    uint32_t low, high;
};

// The bytes of `a` (numbers 0 to 3) and of `b` (4 to 7) with these numbers, the lowest first. One instruction on GPUs.
#if defined(__NVPTX__)
#define BYTES(first, second, third, fourth) ((first) | (second) << 4 | (third) << 8 | (fourth) << 12)
static inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t numbers) {
    return (uint32_t)__nvvm_prmt((int)a, (int)b, (int)numbers);
}
#else
#define BYTES(first, second, third, fourth) ((first) | (second) << 8 | (third) << 16 | (fourth) << 24)
static inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t numbers) {
#if defined(__AMDGCN__)
    return __builtin_amdgcn_perm(b, a, numbers);
#else
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int byte = 0; byte < 4; byte++)
        result |= (uint32_t)(bytes >> 8 * (numbers >> 8 * byte & 7) & 0xff) << 8 * byte;
    return result;
#endif
}
#endif

static inline uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static inline bool is_aligned(const struct plane *plane, uint32_t bytes) {
    return (((uint64_t)plane->start | plane->pitch) & (bytes - 1)) == 0;
}

static inline struct picture picture(const struct plane *luma, const struct plane *chroma, const struct plane *rgba,
                                     uint32_t width, uint32_t height, uint32_t sample_size) {
    uint32_t four = 4 * sample_size;
    bool aligned = is_aligned(luma, four) && is_aligned(chroma, four) && is_aligned(rgba, 16);
    return (struct picture){width, height, (width >> 1) + (width & 1), (height >> 1) + (height & 1), sample_size, aligned};
}

static inline GLOBAL uint8_t *row(const struct plane *plane, uint32_t number) {
    return plane->start + (uint64_t)number * plane->pitch;
}

// Samples of 16 bits have their 10 in the high ones.
static inline uint32_t of_high_bits(uint32_t word) { return word >> 6 & 0x03ff03ff; }

static inline struct four load_four(const GLOBAL uint8_t *samples, uint32_t size) {
    if (size == 1) {
        uint32_t word = *(const GLOBAL uint32_t *)samples;
        return (struct four){select_bytes(word, 0, BYTES(0, 4, 1, 4)), select_bytes(word, 0, BYTES(2, 4, 3, 4))};
    }
    words2 words = *(const GLOBAL words2 *)samples;
    return (struct four){of_high_bits(words[0]), of_high_bits(words[1])};
}

static inline uint32_t load_luma(const GLOBAL uint8_t *sample, uint32_t size) {
    return size == 1 ? *sample : of_high_bits(*(const GLOBAL uint16_t *)sample);
}

static inline uint32_t load_pair(const GLOBAL uint8_t *pair, uint32_t size) {
    if (size == 1)
        return select_bytes(*(const GLOBAL uint16_t *)pair, 0, BYTES(0, 4, 1, 4));
    return of_high_bits(*(const GLOBAL uint32_t *)pair);
}

static inline void store_four(GLOBAL uint8_t *samples, struct four four, uint32_t size) {
    if (size == 1)
        *(GLOBAL uint32_t *)samples = select_bytes(four.low, four.high, BYTES(0, 2, 4, 6));
    else
        *(GLOBAL words2 *)samples = (words2){four.low << 6, four.high << 6};
}

static inline void store_luma(GLOBAL uint8_t *row, uint32_t x, uint32_t sample, uint32_t size) {
    if (size == 1)
        row[x] = (uint8_t)sample;
    else
        ((GLOBAL uint16_t *)row)[x] = (uint16_t)(sample << 6);
}

static inline void store_pair(GLOBAL uint8_t *row, uint32_t x, uint32_t pair, uint32_t size) {
    if (size == 1)
        ((GLOBAL uint16_t *)row)[x] = (uint16_t)select_bytes(pair, 0, BYTES(0, 2, 4, 4));
    else
        ((GLOBAL uint32_t *)row)[x] = pair << 6;
}

// The two pairs of a row of chroma from column `x` on, and one on each side.
struct pairs {
    uint32_t left, first, second, right;
};

static inline struct pairs load_chroma(const GLOBAL uint8_t *row, const struct picture *picture, uint32_t x) {
    uint32_t size = picture->sample_size, last = picture->chroma_width - 1;
    uint32_t left = load_pair(row + 2 * size * (x == 0 ? 0 : x - 1), size);
    uint32_t right = load_pair(row + 2 * size * smaller(x + 2, last), size);
    row += 2 * size * x;
    if (picture->aligned && x < last) {
        struct four two = load_four(row, size);
        return (struct pairs){left, two.low, two.high, right};
    }
    uint32_t first = load_pair(row, size);
    return (struct pairs){left, first, x < last ? load_pair(row + 2 * size, size) : first, right};
}

// Parts of 4. The halves of a word are sums of their own: they have at most 12 bits.
static inline struct pairs between_rows(struct pairs near, struct pairs far) {
    return (struct pairs){3 * near.left + far.left, 3 * near.first + far.first, 3 * near.second + far.second,
                          3 * near.right + far.right};
}

// Parts of 16. In a column with chroma of its own and in the next one; `centre` has all bits if chroma is centred.
static inline uint32_t in_even_column(uint32_t own, uint32_t left, uint32_t centre) {
    return 4 * own + ((left - own) & centre);
}

static inline uint32_t in_odd_column(uint32_t own, uint32_t right, uint32_t centre) {
    return 2 * (own + right) + ((own - right) & centre);
}

// Coefficients have 24 bits with their sign, so that AMD's processors multiply in one step.
static inline int32_t coefficient(uint32_t argument) { return (int32_t)(argument << 8) >> 8; }

// The integer part of a sum, within 8 bits.
static inline uint32_t to_byte(uint32_t sum) {
    int32_t value = (int32_t)sum >> FRACTION;
    return value < 0 ? 0 : value > 255 ? 255 : (uint32_t)value;
}

KERNEL void yuv_to_rgba(GLOBAL uint8_t *luma, GLOBAL uint8_t *chroma, GLOBAL uint8_t *rgba, uint32_t luma_pitch,
                        uint32_t chroma_pitch, uint32_t rgba_pitch, uint32_t width, uint32_t height,
                        uint32_t sample_size, uint32_t siting, uint32_t blue_first, uint32_t luma_scale, uint32_t red_v,
                        uint32_t green_u, uint32_t green_v, uint32_t blue_u, uint32_t red_base, uint32_t green_base,
                        uint32_t blue_base) {
    struct plane y_plane = {luma, luma_pitch}, uv_plane = {chroma, chroma_pitch}, rgba_plane = {rgba, rgba_pitch};
    struct picture picture_ = picture(&y_plane, &uv_plane, &rgba_plane, width, height, sample_size);
    const struct picture *of = &picture_;
    int32_t scale = coefficient(luma_scale), rv = coefficient(red_v), gu = coefficient(green_u),
            gv = coefficient(green_v), bu = coefficient(blue_u);
    // Red and blue in bytes 0 and 2 of a texel, or the other way round.
    uint32_t order = blue_first != 0 ? BYTES(4u, 1u, 0u, 1u) : BYTES(0u, 1u, 4u, 1u);
    uint32_t across = (width >> 2) + ((width & 3) != 0), strips = (height >> 2) + ((height & 3) != 0);
    uint32_t centre = 0 - siting;
    for (uint64_t index = thread_index(); index < across * strips; index += thread_count()) {
        uint32_t strip = (uint32_t)index / across, x = ((uint32_t)index - strip * across) * 4;
        bool whole = of->aligned && width - x >= 4;
        uint32_t chroma_row = 2 * strip;
        struct pairs above = load_chroma(row(&uv_plane, chroma_row == 0 ? 0 : chroma_row - 1), of, x / 2);
        struct pairs own = load_chroma(row(&uv_plane, chroma_row), of, x / 2), below = own;
        // One row after the other: most of the traffic is stores, which no register waits for.
#pragma clang loop unroll(disable)
        for (uint32_t y = 4 * strip, end = smaller(y + 4, height); y < end; y++) {
            bool lower = y % 2 != 0;
            if (!lower)
                below = load_chroma(row(&uv_plane, smaller(++chroma_row, of->chroma_height - 1)), of, x / 2);
            struct pairs pairs = between_rows(own, lower ? below : above);
            const GLOBAL uint8_t *samples = row(&y_plane, y) + x * sample_size;
            uint32_t lumas[4], uvs[4] = {
                in_even_column(pairs.first, pairs.left, centre),
                in_odd_column(pairs.first, pairs.second, centre),
                in_even_column(pairs.second, pairs.first, centre),
                in_odd_column(pairs.second, pairs.right, centre),
            };
            if (whole) {
                struct four four = load_four(samples, sample_size);
                lumas[0] = four.low & 0xffff, lumas[1] = four.low >> 16;
                lumas[2] = four.high & 0xffff, lumas[3] = four.high >> 16;
            } else {
                for (uint32_t column = 0; column < 4; column++)
                    lumas[column] = column < width - x ? load_luma(samples + column * sample_size, sample_size) : 0;
            }
            words4 texels;
            for (int column = 0; column < 4; column++) {
                int32_t u = uvs[column] & 0xffff, v = uvs[column] >> 16;
                uint32_t base = (uint32_t)((int32_t)lumas[column] * scale);
                uint32_t red = to_byte(base + red_base + (uint32_t)(v * rv));
                uint32_t green = to_byte(base + green_base + (uint32_t)(u * gu) + (uint32_t)(v * gv));
                uint32_t blue = to_byte(base + blue_base + (uint32_t)(u * bu));
                texels[column] = select_bytes(red, blue, order) | (green << 8 | 0xff000000);
            }
            GLOBAL uint32_t *target = (GLOBAL uint32_t *)row(&rgba_plane, y) + x;
            if (whole)
                *(GLOBAL words4 *)target = texels;
            else
                for (uint32_t column = 0; column < 4; column++)
                    if (column < width - x)
                        target[column] = texels[column];
            if (lower)
                above = own, own = below;
        }
    }
}

// Sums of two texels: channels 0 and 2 in the halves of a word, and channel 1.
struct sums {
    uint32_t outer, inner;
};

static inline struct sums add_texels(uint32_t a, uint32_t b) {
    return (struct sums){(a & 0xff00ff) + (b & 0xff00ff), (a >> 8 & 0xff) + (b >> 8 & 0xff)};
}

static inline uint32_t dot(uint32_t outer, uint32_t inner, const int32_t factors[3], uint32_t base) {
    return base + (uint32_t)((int32_t)(outer & 0xffff) * factors[0]) + (uint32_t)((int32_t)inner * factors[1])
        + (uint32_t)((int32_t)(outer >> 16) * factors[2]);
}

// The arguments `luma_`, `u_` and `v_` are coefficients of the channels in the order of memory.
KERNEL void rgba_to_yuv(GLOBAL uint8_t *luma, GLOBAL uint8_t *chroma, GLOBAL uint8_t *rgba, uint32_t luma_pitch,
                        uint32_t chroma_pitch, uint32_t rgba_pitch, uint32_t width, uint32_t height,
                        uint32_t sample_size, uint32_t siting, uint32_t luma_0, uint32_t luma_1, uint32_t luma_2,
                        uint32_t u_0, uint32_t u_1, uint32_t u_2, uint32_t v_0, uint32_t v_1, uint32_t v_2,
                        uint32_t luma_base, uint32_t chroma_base) {
    struct plane y_plane = {luma, luma_pitch}, uv_plane = {chroma, chroma_pitch}, rgba_plane = {rgba, rgba_pitch};
    struct picture picture_ = picture(&y_plane, &uv_plane, &rgba_plane, width, height, sample_size);
    const struct picture *of = &picture_;
    const int32_t of_luma[3] = {coefficient(luma_0), coefficient(luma_1), coefficient(luma_2)};
    const int32_t of_u[3] = {coefficient(u_0), coefficient(u_1), coefficient(u_2)};
    const int32_t of_v[3] = {coefficient(v_0), coefficient(v_1), coefficient(v_2)};
    uint32_t greatest = sample_size == 1 ? 255 : 1023;
    uint32_t across = (width >> 2) + ((width & 3) != 0), blocks = across * of->chroma_height;
    for (uint64_t index = thread_index(); index < blocks; index += thread_count()) {
        uint32_t block = (uint32_t)index, chroma_row = block / across, x = (block - chroma_row * across) * 4;
        bool whole = of->aligned && width - x >= 4;
        // The last row of a picture of odd height is its own neighbour.
        uint32_t rows[2] = {2 * chroma_row, smaller(2 * chroma_row + 1, height - 1)};
        // Column `x - 1` and the block's.
        uint32_t texels[2][5];
        for (int number = 0; number < 2; number++) {
            const GLOBAL uint32_t *source = (const GLOBAL uint32_t *)row(&rgba_plane, rows[number]);
            texels[number][0] = source[x == 0 ? 0 : x - 1];
            if (whole) {
                words4 four = *(const GLOBAL words4 *)(source + x);
                for (int column = 0; column < 4; column++)
                    texels[number][1 + column] = four[column];
            } else {
                for (uint32_t column = 0; column < 4; column++)
                    texels[number][1 + column] = source[smaller(x + column, width - 1)];
            }
        }
        for (int number = 0; number < 2; number++) {
            uint32_t lumas[4];
            for (int column = 0; column < 4; column++) {
                uint32_t texel = texels[number][1 + column];
                lumas[column] = dot(texel & 0xff00ff, texel >> 8 & 0xff, of_luma, luma_base) >> FRACTION;
            }
            GLOBAL uint8_t *target = row(&y_plane, rows[number]);
            if (whole)
                store_four(target + x * sample_size,
                           (struct four){lumas[0] | lumas[1] << 16, lumas[2] | lumas[3] << 16}, sample_size);
            else
                for (uint32_t column = 0; column < 4; column++)
                    if (column < width - x)
                        store_luma(target, x + column, lumas[column], sample_size);
        }
        struct sums columns[5];
        for (int column = 0; column < 5; column++)
            columns[column] = add_texels(texels[0][column], texels[1][column]);
        uint32_t pairs[2];
        for (int pair = 0; pair < 2; pair++) {
            // Left of the pair's first column, that column, and right of it: weights of 1, 2, 1 or of 0, 2, 2.
            struct sums own = columns[2 * pair + 1], right = columns[2 * pair + 2];
            struct sums fourth = siting != 0 ? right : columns[2 * pair];
            uint32_t outer = fourth.outer + 2 * own.outer + right.outer;
            uint32_t inner = fourth.inner + 2 * own.inner + right.inner;
            uint32_t u = smaller(dot(outer, inner, of_u, chroma_base) >> FRACTION, greatest);
            uint32_t v = smaller(dot(outer, inner, of_v, chroma_base) >> FRACTION, greatest);
            pairs[pair] = u | v << 16;
        }
        GLOBAL uint8_t *target = row(&uv_plane, chroma_row);
        if (whole)
            store_four(target + x * sample_size, (struct four){pairs[0], pairs[1]}, sample_size);
        else
            for (uint32_t pair = 0; pair < 2; pair++)
                if (x / 2 + pair < of->chroma_width)
                    store_pair(target, x / 2 + pair, pairs[pair], sample_size);
    }
}
