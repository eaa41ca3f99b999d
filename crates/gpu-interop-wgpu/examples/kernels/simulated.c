// All kernels, for the simulators: a library for the CPU.

#include "edges.c"
#include "particles.c"

SIMULATED_KERNEL_6(edges, uint64_t, uint64_t, uint64_t, uint64_t, int32_t, int32_t)
SIMULATED_KERNEL_4(advance, GLOBAL float4 *, GLOBAL float4 *, uint64_t, struct step)
