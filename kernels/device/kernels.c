// All kernels, in the order of `../src/signature.rs`, which documents arguments and effects.
//
// Launches are one-dimensional, of any size: each thread processes every n-th element, where n is the number of threads.

#include "convert.h"
#include "pattern.h"
#include "vendor.h"

KERNEL void fill_pattern(GLOBAL uint32_t *words, uint64_t count, uint32_t seed) {
    for (uint64_t index = thread_index(); index < count; index += thread_count())
        words[index] = pattern_word(seed, index);
}

KERNEL void verify_pattern(const GLOBAL uint32_t *words, uint64_t count, uint32_t seed, GLOBAL uint32_t *mismatches) {
    uint32_t differing = 0;
    for (uint64_t index = thread_index(); index < count; index += thread_count())
        differing += words[index] != pattern_word(seed, index);
    if (differing != 0)
        add(mismatches, differing);
}

KERNEL void increment(GLOBAL uint32_t *words, uint64_t count) {
    for (uint64_t index = thread_index(); index < count; index += thread_count())
        words[index] += 1;
}

#if defined(__NVPTX__)
#include "image.h"
#endif
