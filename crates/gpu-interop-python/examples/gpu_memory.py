"""Vulkan and a GPU's compute driver, CUDA or HIP, work on the same words. Needs no package but this one.

In each round Vulkan writes the buffer, the compute device exchanges its halves and fills the last quarter, and Vulkan
reads all of it. The host waits between the two, because not every driver has timelines.

A GPU with Vulkan. Without one, the CPU computes.
"""

from __future__ import annotations

import struct

import gpu_interop
from gpu_interop import vulkan

WORDS = 4096
ROUNDS = 20


def main() -> None:
    context = vulkan.Context()
    device = gpu_interop.open(matching=context)
    print(context, device, sep="\n")
    buffer, for_halves = context.buffer(WORDS * 4), context.buffer(WORDS * 2)
    # From here on the other side owns the buffers.
    context.release(buffer, for_halves)
    memory, spare = (device.import_memory(shared.export()) for shared in (buffer, for_halves))
    stream = device.stream()
    first, second = (memory.tensor(WORDS // 2, "uint32", offset=offset) for offset in (0, WORDS * 2))
    last = memory.tensor(WORDS // 4, "uint32", offset=WORDS * 3)
    for turn in range(ROUNDS):
        words = [(turn << 16) + index for index in range(WORDS)]
        context.acquire(buffer)
        context.upload(buffer, struct.pack(f"={WORDS}I", *words))
        context.release(buffer)

        for target, source in ((spare, first), (first, second), (second, spare)):
            stream.copy(target, source)
        stream.fill(last, turn + 7, bits=32)
        seen = stream.read(memory)
        stream.synchronize(timeout=60)

        context.acquire(buffer)
        half = WORDS // 2
        expected = struct.pack(f"={WORDS}I", *words[half:], *words[: half // 2], *[turn + 7] * (half // 2))
        assert seen == context.download(buffer) == expected
        context.release(buffer)
    print(f"{ROUNDS} rounds over {WORDS:,} words of {device.backend}, at {memory.ptr:#x}")


if __name__ == "__main__":
    main()
