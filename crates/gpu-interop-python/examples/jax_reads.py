"""JAX reads memory of Vulkan, without a copy to the CPU.

Arrays of JAX are immutable, and JAX has no streams of the caller. So the host waits for Vulkan before JAX reads, and
for JAX before Vulkan writes again. Runs on the CPU, too.

pip install jax (or jax[cuda13]).
"""

from __future__ import annotations

import gpu_interop
import jax
import jax.numpy
import numpy
from gpu_interop import vulkan

POINTS = 1 << 20
ROUNDS = 20


def mean_energy(positions: jax.Array) -> jax.Array:
    return jax.numpy.mean(jax.numpy.sum(positions**2, axis=1))


def main() -> None:
    context = vulkan.Context()
    device = gpu_interop.open(matching=context)
    platform = {"cuda": "gpu", "hip": "gpu", "host": "cpu"}[device.backend]
    buffer = context.buffer(POINTS * 4 * 4)
    energy = jax.jit(mean_energy)
    generator = numpy.random.default_rng(3)
    context.release(buffer)
    memory = device.import_memory(buffer.export())
    # Read-only: JAX never writes it.
    tensor = memory.tensor((POINTS, 4), "float32")
    with jax.default_device(jax.devices(platform)[0]):
        for step in range(ROUNDS):
            positions = generator.standard_normal((POINTS, 4), dtype="float32") * (step + 1)
            context.acquire(buffer)
            context.upload(buffer, positions)
            # Returns when Vulkan has finished.
            context.release(buffer)
            seen = jax.dlpack.from_dlpack(tensor)
            if step == 0:
                print("the same memory" if seen.unsafe_buffer_pointer() == memory.ptr else "JAX copied the memory")
            # float() waits for JAX; without it, Vulkan would write while JAX reads.
            found = float(energy(seen))
            del seen
            expected = float(numpy.mean(numpy.sum(positions.astype("float64") ** 2, axis=1)))
            assert abs(found - expected) < 1e-3 * expected, (found, expected)
    print(f"{ROUNDS} rounds of {POINTS:,} points, {device}")


if __name__ == "__main__":
    main()
