"""Vulkan and numpy share a picture, without a copy. Runs without a GPU, on a Vulkan driver for the CPU.

Vulkan writes a gradient into an image, numpy turns the bytes around where they are, and Vulkan reads the result. Then a
stream and Vulkan alternate over a timeline.

Debian: apt install libvulkan1 mesa-vulkan-drivers; pip install numpy.
"""

from __future__ import annotations

import gpu_interop
import numpy
from gpu_interop import vulkan

WIDTH, HEIGHT = 256, 128
ROUNDS = 100


def share_an_image(context: vulkan.Context, device: gpu_interop.Device) -> None:
    """An image of linear tiling is a tensor with the driver's row pitch."""
    red, green = numpy.meshgrid(numpy.arange(WIDTH), numpy.arange(HEIGHT))
    texels = numpy.stack([red, green, red ^ green, numpy.full_like(red, 255)], axis=-1).astype("uint8")
    image = context.image(WIDTH, HEIGHT, "rgba8_unorm", linear=True)
    context.initialize(image)
    context.upload(image, texels)
    # From here on the other side owns the image.
    context.release(image)

    offset, pitch = image.row_pitch()
    memory = device.import_memory(image.export())
    view = numpy.from_dlpack(memory.tensor((HEIGHT, WIDTH, 4), "uint8", (pitch, 4, 1), offset))
    assert (view == texels).all()
    view[:] = view[::-1].copy()

    context.acquire(image)
    seen = numpy.frombuffer(context.download(image), "uint8").reshape(texels.shape)
    assert (seen == texels[::-1]).all()
    print(f"numpy and Vulkan share {view.nbytes:,} bytes at {view.ctypes.data:#x}")


def alternate(context: vulkan.Context, device: gpu_interop.Device) -> None:
    """Vulkan fills, numpy adds, Vulkan copies, in each round; no side waits for more than it needs."""
    buffer, seen = context.buffer(4096), context.buffer(4096, exportable=False)
    context.release(buffer)
    memory = device.import_memory(buffer.export())
    timeline, stream = context.timeline(device), device.stream()
    words = memory.tensor(1024, "uint32", stream=stream)
    for turn in range(ROUNDS):
        step = 4 * turn
        drawing = context.record().acquire(buffer).fill(buffer, turn).release(buffer)
        drawing.submit(wait=[(timeline, step)], signal=[(timeline, step + 1)])
        timeline.wait(stream, step + 1)
        # from_dlpack waits for the stream, and so for Vulkan.
        view = numpy.from_dlpack(words)
        view[:] = view + 7
        timeline.signal(stream, step + 2)
        reading = context.record().acquire(buffer).copy(buffer, seen).release(buffer)
        reading.submit(wait=[(timeline, step + 2)], signal=[(timeline, step + 4)])
        timeline.host_wait(step + 4, timeout=10)
        assert (numpy.frombuffer(context.download(seen), "uint32") == turn + 7).all()
    print(f"{ROUNDS} rounds over a timeline, strategy {timeline.strategy}")


def main() -> None:
    context = vulkan.Context()
    device = gpu_interop.open(matching=context)
    print(context, device, sep="\n")
    if device.backend != "host":
        raise SystemExit("this example is for the CPU; cupy_filter.py and jax_reads.py are for GPUs")
    share_an_image(context, device)
    alternate(context, device)


if __name__ == "__main__":
    main()
