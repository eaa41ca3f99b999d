"""Vulkan draws 64 views of 256 x 256 in each step, and torch learns where each view looks. No copy to the CPU.

Vulkan draws a view by copying 256 rows of a panorama of 4,096, from a place that torch must find, with a black bar
across the view. The network reads the pixels where Vulkan wrote them. With --through-cpu each batch goes through host
memory instead, as without gpu-interop; the rest is the same. Writes the loss to a PNG file. Needs torch, and a GPU.
"""

from __future__ import annotations

import argparse
import struct
import time
import zlib

import gpu_interop
import numpy
import torch
from gpu_interop import vulkan
from torch import nn

VIEWS, SIDE, ROWS, BAR = 64, 256, 4096, 16
ROW = SIDE * 4 * 4  # bytes of a row: four channels of float32
VIEW = SIDE * ROW
SHAPE = (VIEWS, SIDE, SIDE, 4)


def panorama() -> numpy.ndarray:
    """Colours and stripes that tell where a row is."""
    row, column = numpy.mgrid[0 : 1 : ROWS * 1j, 0 : 1 : SIDE * 1j]
    waves = numpy.sin(6.3 * row), numpy.cos(6.3 * row), numpy.sin(90 * row + 6 * column), row
    return numpy.stack(waves, axis=-1).astype("float32")


def draw(world: vulkan.Buffer, batch: vulkan.Buffer, context: vulkan.Context, rows: numpy.ndarray) -> vulkan.Recording:
    commands = context.record().acquire(batch)
    for view, row in enumerate(rows):
        commands.copy(world, batch, source_offset=int(row) * ROW, target_offset=view * VIEW, size=VIEW)
        commands.fill(batch, 0, view * VIEW + int(row) % (SIDE - BAR) * ROW, BAR * ROW)
    return commands.release(batch)


def plot(path: str, losses: list[float], width: int = 400, height: int = 200) -> None:
    """A logarithmic curve as a PNG file of grey levels."""
    pixels = numpy.full((height, width), 255, "uint8")
    curve = numpy.interp(numpy.linspace(0, len(losses) - 1, width), range(len(losses)), numpy.log10(losses))
    place = (curve.max() - curve) / max(float(numpy.ptp(curve)), 1e-9) * (height - 3)
    pixels[place.astype(int) + 1, numpy.arange(width)] = pixels[place.astype(int), numpy.arange(width)] = 0
    lines = zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", lines), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in parts]
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--through-cpu", action="store_true")
    parser.add_argument("--plot", default="loss.png")
    options, context = parser.parse_args(), vulkan.Context()
    device = gpu_interop.open(matching=context)
    gpu = torch.device("cuda", device.ordinal or 0)
    world = context.buffer(ROWS * ROW, exportable=False)
    context.upload(world, panorama())
    batches = [context.buffer(VIEWS * VIEW) for _ in range(2)]  # Vulkan draws one while torch learns from the other
    context.release(*batches)
    inputs = [torch.from_dlpack(device.import_memory(batch.export()).tensor(SHAPE, "float32")) for batch in batches]
    drawn, learnt = context.timeline(device), context.timeline(device)
    layers = [nn.Conv2d(4, 16, 8, 8), nn.ReLU(), nn.Conv2d(16, 32, 4, 4), nn.ReLU(), nn.Flatten()]
    layers += [nn.Linear(2048, 64), nn.ReLU(), nn.Linear(64, 1)]
    network = nn.Sequential(*layers).to(gpu, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, fused=True)
    places = numpy.random.default_rng(0).integers(0, ROWS - SIDE, (options.steps, VIEWS))
    targets = torch.from_numpy((places / (ROWS - SIDE)).astype("float32")).to(gpu)
    losses, start = [], time.perf_counter()
    for step in range(1, options.steps + 1):
        batch, pixels = batches[step % 2], inputs[step % 2]
        # Vulkan waits until torch has finished with this batch, two steps ago; torch waits until it is drawn.
        draw(world, batch, context, places[step - 1]).submit(wait=[(learnt, max(step - 2, 0))], signal=[(drawn, step)])
        if options.through_cpu:
            context.acquire(batch)
            pixels = torch.frombuffer(bytearray(context.download(batch)), dtype=torch.float32).reshape(SHAPE).to(gpu)
            context.release(batch)
        else:
            drawn.wait(torch.cuda.current_stream(gpu), step)
        loss = nn.functional.mse_loss(network(pixels.permute(0, 3, 1, 2))[:, 0], targets[step - 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learnt.signal(torch.cuda.current_stream(gpu), step)
        losses.append(loss.detach())
    curve = torch.stack(losses).tolist()  # waits for the GPU
    rate = options.steps / (time.perf_counter() - start)
    plot(options.plot, curve)
    print(f"{rate:.1f} steps/s, loss {curve[0]:.4f} to {curve[-1]:.4f}, {device}")


if __name__ == "__main__":
    main()
