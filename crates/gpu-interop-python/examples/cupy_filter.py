"""A filter of CuPy on memory of Vulkan, without a copy to the CPU.

Vulkan uploads a picture, a kernel of CuPy sharpens it where it is, and Vulkan reads the result. Each side waits for the
other on the GPU, over a timeline.

pip install cupy-cuda13x, and a GPU with Vulkan.
"""

from __future__ import annotations

import cupy
import gpu_interop
import numpy
from gpu_interop import vulkan

WIDTH, HEIGHT = 1920, 1080
FRAMES = 100


def sharpen(pixels: cupy.ndarray) -> cupy.ndarray:
    """An unsharp mask: the picture minus the mean of its neighbours."""
    neighbours = sum(cupy.roll(pixels, shift, axis) for axis in (0, 1) for shift in (-1, 1)) / 4
    return cupy.clip(pixels + 0.5 * (pixels - neighbours), 0, 1)


def main() -> None:
    context = vulkan.Context()
    device = gpu_interop.open(matching=context)
    if device.backend == "host":
        raise SystemExit("this example needs a GPU; numpy_lavapipe.py runs without")
    row, column = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    picture = ((row // 64 + column // 64) % 2 * 0.5 + 0.25).astype("float32")
    source, shared = context.buffer(picture.nbytes), context.buffer(picture.nbytes)
    context.upload(source, picture)
    context.release(shared)

    memory = device.import_memory(shared.export())
    timeline = context.timeline(device)
    with cupy.cuda.Device(device.ordinal or 0), cupy.cuda.Stream(non_blocking=True) as stream:
        pixels = cupy.from_dlpack(memory.tensor((HEIGHT, WIDTH), "float32"))
        assert pixels.data.ptr == memory.ptr
        for frame in range(FRAMES):
            drawing = context.record().acquire(shared).copy(source, shared).release(shared)
            drawing.submit(wait=[(timeline, 2 * frame)], signal=[(timeline, 2 * frame + 1)])
            # The host does not wait: CuPy's stream does.
            timeline.wait(stream, 2 * frame + 1)
            pixels[:] = sharpen(pixels)
            timeline.signal(stream, 2 * frame + 2)
        timeline.host_wait(2 * FRAMES, timeout=60)
        expected = cupy.asnumpy(sharpen(cupy.asarray(picture)))
    context.acquire(shared)
    seen = numpy.frombuffer(context.download(shared), "float32").reshape(HEIGHT, WIDTH)
    numpy.testing.assert_allclose(seen, expected, rtol=1e-6)
    print(f"{FRAMES} frames of {WIDTH} x {HEIGHT}, strategy {timeline.strategy}, {device}")


if __name__ == "__main__":
    main()
