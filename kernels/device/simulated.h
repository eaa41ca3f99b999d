// The CPU as a vendor: kernels for a library that the simulators load (`GPU_INTEROP_SIM_KERNELS`).
#pragma once

#include <stdint.h>

#define GLOBAL
#define KERNEL static

// The position of the thread that runs now: a launch is one call of the kernel for each of its threads.
static _Thread_local uint64_t current_index, current_count;

static inline uint64_t thread_index(void) { return current_index; }
static inline uint64_t thread_count(void) { return current_count; }

// What the simulators know of a kernel: the sizes of its arguments in bytes, and a function that runs all threads.
struct simulated_kernel {
    uint64_t arguments;
    const uint64_t *sizes;
    void (*run)(void *const *pointers, uint64_t threads);
};

// Exports a kernel as `gpu_interop_kernel_NAME`. The types are those of its arguments.
#define SIMULATED_KERNEL(name, sizes, ...)                                                                             \
    static void name##_run(void *const *pointers, uint64_t threads) {                                                  \
        current_count = threads;                                                                                       \
        for (current_index = 0; current_index < threads; current_index++)                                              \
            name(__VA_ARGS__);                                                                                         \
    }                                                                                                                  \
    extern const struct simulated_kernel gpu_interop_kernel_##name;                                                    \
    const struct simulated_kernel gpu_interop_kernel_##name = {sizeof(sizes) / sizeof(uint64_t), sizes, name##_run};
#define SIZES (const uint64_t[])
#define ARGUMENT(index, type) (*(type const *)pointers[index])

#define SIMULATED_KERNEL_4(name, a, b, c, d)                                                                           \
    SIMULATED_KERNEL(name, (SIZES{sizeof(a), sizeof(b), sizeof(c), sizeof(d)}), ARGUMENT(0, a), ARGUMENT(1, b),        \
                     ARGUMENT(2, c), ARGUMENT(3, d))
#define SIMULATED_KERNEL_6(name, a, b, c, d, e, f)                                                                     \
    SIMULATED_KERNEL(name, (SIZES{sizeof(a), sizeof(b), sizeof(c), sizeof(d), sizeof(e), sizeof(f)}), ARGUMENT(0, a),  \
                     ARGUMENT(1, b), ARGUMENT(2, c), ARGUMENT(3, d), ARGUMENT(4, e), ARGUMENT(5, f))
