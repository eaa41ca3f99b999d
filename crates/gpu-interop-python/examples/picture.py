"""Pictures in dma-bufs, as a decoder or a camera passes them: Vulkan imports each plane of NV12, reads and writes it.

Here a buffer of the same driver is the producer. Needs a driver with DRM modifiers, such as RADV or ANV.
"""

import os
import random
import sys

import gpu_interop
from gpu_interop import vulkan

WIDTH, HEIGHT, PITCH, LINEAR = 64, 32, 256, 0

context = vulkan.Context(queue="compute")
try:
    print(f"{len(context.picture_modifiers('R8'))} modifiers of {context!r}")
except gpu_interop.Unsupported as error:
    sys.exit(f"no pictures here: {error}")

# The producer: luma, and chroma of half the height.
buffer = context.buffer(PITCH * HEIGHT * 3 // 2, kind="dma_buf_fd", dedicated=False)
texels = random.Random(1).randbytes(buffer.size)
context.upload(buffer, texels)
context.release(buffer)
export = buffer.export()

frame = {
    "width": WIDTH,
    "height": HEIGHT,
    "objects": [{"fd": export.fd, "format_modifier": LINEAR}],
    "layers": [
        {"format": "R8", "planes": [{"object_index": 0, "offset": 0, "pitch": PITCH}]},
        {"format": "GR88", "planes": [{"object_index": 0, "offset": PITCH * HEIGHT, "pitch": PITCH}]},
    ],
}


def rows(start: int, height: int) -> bytes:
    return b"".join(texels[start + row * PITCH :][:WIDTH] for row in range(height))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


expected = {"R8": rows(0, HEIGHT), "GR88": rows(PITCH * HEIGHT, HEIGHT // 2)}
before = descriptors()
for _ in range(20):
    pictures = context.import_planes(frame, same_driver=True)
    for picture in pictures:
        context.acquire(picture)
        assert context.download(picture) == expected[picture.format], picture
        expected[picture.format] = bytes(255 - byte for byte in expected[picture.format])
        context.upload(picture, expected[picture.format])
        context.release(picture)
    assert [picture.format for picture in pictures] == ["R8", "GR88"] and not pictures[0].disjoint
    del picture, pictures
whole = ""
try:
    whole = f", and as a whole: {context.import_picture(frame, same_driver=True)!r}"
except gpu_interop.Unsupported as error:
    whole = f", not as a whole: {error}"
assert descriptors() == before, "a descriptor was lost"
os.fstat(export.fd)  # still open
context.acquire(buffer)
assert context.download(buffer) == texels, "twenty inversions are none"
print(f"20 rounds over 2 planes of {WIDTH} x {HEIGHT}{whole}")
