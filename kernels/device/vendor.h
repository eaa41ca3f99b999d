// Vendor-specific parts: the kernel attribute and the position of a thread in its launch.
#pragma once

#include <stdint.h>

#if defined(__NVPTX__) || defined(__AMDGCN__)
// Address space of global memory on both.
#define GLOBAL __attribute__((address_space(1)))
#endif

#if defined(__NVPTX__)

#define KERNEL __attribute__((nvptx_kernel))

static inline uint64_t thread_index(void) {
    return (uint64_t)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

static inline uint64_t thread_count(void) {
    return (uint64_t)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
}

#elif defined(__AMDGCN__)

// Symbols are hidden by default, and the loader finds only visible ones.
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

static inline uint64_t thread_index(void) {
    return (uint64_t)__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x()
        + __builtin_amdgcn_workitem_id_x();
}

// AMD's grid size is the number of threads, not of blocks.
static inline uint64_t thread_count(void) { return __builtin_amdgcn_grid_size_x(); }

#else
#include "simulated.h"
#endif

// Host code reads a counter once the kernel has run, so the order of the additions does not matter.
static inline void add(GLOBAL uint32_t *counter, uint32_t value) {
    __scoped_atomic_fetch_add(counter, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
