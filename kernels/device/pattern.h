// Test pattern, identical to `pattern_word` of this crate.
#pragma once

#include <stdint.h>

static inline uint32_t pattern_word(uint32_t seed, uint64_t index) {
    uint32_t word = seed ^ (uint32_t)index * 0x9e3779b9u ^ (uint32_t)(index >> 32) * 0x85ebca6bu;
    word = (word ^ word >> 16) * 0x7feb352du;
    word = (word ^ word >> 15) * 0x846ca68bu;
    return word ^ word >> 16;
}
