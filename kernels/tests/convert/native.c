// Runs the conversion kernels on the CPU. Reads cases from standard input, and writes the planes of each to standard
// output: `header`, then the three planes.

#include <stdio.h>
#include <stdlib.h>

#include "convert.h"

// All but the addresses are as the test writes them.
struct header {
    uint32_t to_yuv, threads, sizes[3], numbers[18];
};

static void to_rgba(uint8_t *planes[3], const uint32_t *n) {
    yuv_to_rgba(planes[0], planes[1], planes[2], n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10],
                n[11], n[12], n[13], n[14], n[15]);
}

static void to_yuv(uint8_t *planes[3], const uint32_t *n) {
    rgba_to_yuv(planes[0], planes[1], planes[2], n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10],
                n[11], n[12], n[13], n[14], n[15], n[16], n[17]);
}

int main(void) {
    struct header header;
    while (fread(&header, sizeof header, 1, stdin) == 1) {
        uint8_t *planes[3];
        for (int plane = 0; plane < 3; plane++) {
            // Exactly as large as the plane, so that a sanitizer sees accesses beyond it.
            planes[plane] = aligned_alloc(16, (header.sizes[plane] + 15) / 16 * 16);
            if (planes[plane] == NULL || fread(planes[plane], 1, header.sizes[plane], stdin) != header.sizes[plane])
                return 1;
        }
        current_count = header.threads;
        for (current_index = 0; current_index < current_count; current_index++)
            (header.to_yuv != 0 ? to_yuv : to_rgba)(planes, header.numbers);
        for (int plane = 0; plane < 3; plane++) {
            fwrite(planes[plane], 1, header.sizes[plane], stdout);
            free(planes[plane]);
        }
    }
    return 0;
}
