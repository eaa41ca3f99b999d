"""Images of optimal tiling as arrays. The simulator maps the images of Vulkan's driver for the CPU."""

from __future__ import annotations

import gc
import os
import re
import runpy
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan
from test_cuda import cuda as cuda  # noqa: PLC0414

#: Name of Vulkan, dtype of the bytes, format and channels of the array.
FORMATS = {
    "r8_unorm": ("uint8", "unorm8", 1),
    "rg8_unorm": ("uint8", "unorm8", 2),
    "rgba8_unorm": ("uint8", "unorm8", 4),
    "rgba8_uint": ("uint8", "uint8", 4),
    "rgba16_float": ("float16", "float16", 4),
    "r32_float": ("float32", "float32", 1),
    "rg32_float": ("float32", "float32", 2),
    "r16_uint": ("uint16", "uint16", 1),
}


def texels(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Any:
    return numpy.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def image_of(context: vulkan.Context, *arguments: Any, **options: Any) -> vulkan.Image:
    image = context.image(*arguments, **options)
    context.initialize(image)
    return image


def tensor_of(device: gpu_interop.Device, shape: tuple[int, ...], dtype: str) -> gpu_interop.Tensor:
    size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    return device.allocate(size).tensor(shape, dtype)


@pytest.mark.parametrize("name", FORMATS)
def test_texels_reach_a_tensor_and_return(context: vulkan.Context, device: gpu_interop.Device, name: str) -> None:
    dtype, form, channels = FORMATS[name]
    image = image_of(context, 37, 21, name)
    shape = (21, 37, channels) if channels > 1 else (21, 37)
    drawn = texels(shape, dtype)
    context.upload(image, drawn)
    context.release(image)
    array = image.array(device)
    assert (array.shape, array.dtype, array.format, array.channels) == (shape, dtype, form, channels)
    assert (array.extent, array.levels, array.layers, array.surface) == ((37, 21, 1), 1, 1, False)
    assert array.handle and array.mipmapped_handle and array.region().handle == array.handle
    assert array.device.backend == "cuda" and array.region().size == drawn.nbytes
    stream, tensor = device.stream(), tensor_of(device, shape, dtype)
    stream.copy(tensor, array)
    assert stream.read(tensor) == stream.read(array) == drawn.tobytes()
    computed = texels(shape, dtype, 2)
    stream.write(tensor, computed)
    stream.copy(array, tensor)
    stream.synchronize()
    context.acquire(image)
    assert context.download(image) == computed.tobytes()


def test_levels_layers_and_boxes(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 32, 16, "rgba8_unorm", levels=3, layers=2)
    assert (image.levels, image.layers) == (3, 2)
    drawn = [texels((2, 16 >> level, 32 >> level, 4), "uint8", level) for level in range(3)]
    for level, both in enumerate(drawn):
        for layer in range(2):
            context.upload(image, both[layer], level=level, layer=layer)
            assert context.download(image, level=level, layer=layer) == both[layer].tobytes()
    context.release(image)
    array, stream = image.array(device), device.stream()
    assert (array.shape, array.levels, array.layers, array.extent) == ((2, 16, 32, 4), 3, 2, (32, 16, 1))
    for level, both in enumerate(drawn):
        region = array.region(level)
        assert (region.level, region.shape, region.extent) == (level, both.shape, (32 >> level, 16 >> level, 2))
        assert stream.read(region) == both.tobytes()
    assert len({array.region(level).handle for level in range(3)}) == 3
    box = array.region(1, (3, 2, 1), (5, 4, 1))
    assert (box.shape, box.offset, box.size) == ((1, 4, 5, 4), (3, 2, 1), 80)
    assert stream.read(box) == drawn[1][1:2, 2:6, 3:8].tobytes()
    # Missing numbers are the rest.
    assert array.region(1, (3,)).extent == (13, 8, 2)
    # Between two regions, and back in Vulkan.
    stream.copy(array.region(1, (0, 0, 0), (5, 4, 1)), box)
    stream.synchronize()
    context.acquire(image)
    drawn[1][0, :4, :5] = drawn[1][1, 2:6, 3:8]
    assert context.download(image, level=1) == drawn[1][0].tobytes()
    target = context.buffer(8 * 4 * 4)
    context.record().copy_from_image(image, target, level=2, layer=1).submit().wait(10)
    assert context.download(target) == drawn[2][1].tobytes()


def test_three_dimensions(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 8, 6, "r32_float", depth=4)
    drawn = texels((4, 6, 8), "float32")
    context.upload(image, drawn)
    context.release(image)
    array = image.array(device, surface=True)
    assert (array.shape, array.extent, array.layers, array.surface) == (drawn.shape, (8, 6, 4), 1, True)
    assert device.stream().read(array) == drawn.tobytes()


def test_an_array_outlives_what_it_was_made_from(context: vulkan.Context) -> None:
    own = vulkan.Context(context.identity)
    device = gpu_interop.open(matching=own)
    image = image_of(own, 16, 16, "r32_uint")
    drawn = texels((16, 16), "uint32")
    own.upload(image, drawn)
    own.release(image)
    memory = device.import_memory(image.export())
    array = memory.array()
    stream, region = device.stream(), array.region()
    memory.close()
    device.close()
    del image, own, memory, device
    gc.collect()
    assert stream.read(array) == drawn.tobytes()
    array.close()
    array.close()
    # The region keeps the mapping.
    assert array.closed and stream.read(region) == drawn.tobytes()
    for use in (lambda: array.handle, lambda: array.shape, lambda: array.region(), lambda: stream.read(array)):
        with pytest.raises(gpu_interop.InvalidArgument, match="the array is closed"):
            use()
    assert "closed" in repr(array) and "level 0" in repr(region)


def test_wrong_copies_are_rejected(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 16, 8, "rgba8_unorm")
    context.release(image)
    array, stream = image.array(device), device.stream()
    good = tensor_of(device, (8, 16, 4), "uint8")
    read_only = device.allocate(512).tensor((8, 16, 4), "uint8", readonly=True)
    small = tensor_of(device, (8, 16, 3), "uint8")
    strided = device.allocate(1024).tensor((8, 16, 4), "uint8", (128, 4, 1))
    stream.copy(array, good)
    wrong: list[Any] = [
        lambda: stream.copy(small, array),
        lambda: stream.copy(array, small),
        lambda: stream.copy(strided, array),
        lambda: stream.copy(read_only, array),
        lambda: stream.copy(array, array),
        lambda: stream.copy(array, array.region(0, (1,), (4,))),
        lambda: stream.write(array, bytes(511)),
        lambda: stream.fill(array, 0),
        lambda: stream.keep(array),
        lambda: array.region(1),
        lambda: array.region(-1),
        lambda: array.region(1 << 40),
        lambda: array.region(0, (16,)),
        lambda: array.region(0, (0, 0, 1)),
        lambda: array.region(0, (0, 0), (16, 9)),
        lambda: array.region(0, (0, 0), (0, 8)),
        lambda: array.region(0, (1 << 64,)),
        lambda: array.region(0, (0, 0, 0, 0)),
        lambda: array.region(0, (1 << 63, 1 << 63), (1 << 63, 1 << 63)),
    ]
    for use in wrong:
        with pytest.raises(gpu_interop.InvalidArgument) as caught:
            use()
        assert "::" not in str(caught.value), caught.value
    for given in ("16", 3, ("x",), (1.5,)):
        with pytest.raises(TypeError):
            array.region(0, given)  # type: ignore[arg-type]


def test_tensors_have_the_shape_and_dtype_of_the_texels(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 16, 8, "rgba8_unorm", layers=2)
    drawn = texels((2, 8, 16, 4), "uint8")
    for layer in range(2):
        context.upload(image, drawn[layer], layer=layer)
    context.release(image)
    array, stream, memory = image.array(device), device.stream(), device.allocate(1 << 16)
    assert array.nbytes == array.region().size == drawn.nbytes
    region = array.region(0, (0, 0, 1))
    whole, layer = "[2, 8, 16, 4] uint8, 1024 bytes", "[1, 8, 16, 4] uint8, 512 bytes"
    # As many bytes, with rows, channels or elements of others.
    for operand, shape, dtype, expected in (
        (array, (1024,), "uint8", whole),
        (array, (2, 16, 8, 4), "uint8", whole),
        (array, (2, 8, 4, 16), "uint8", whole),
        (array, (2, 8, 16, 4), "int8", whole),
        (array, (2, 8, 16), "uint32", whole),
        (region, (8, 16), "float32", layer),
    ):
        wrong, name = memory.tensor(shape, dtype), "array" if operand is array else "region"
        for copy in (lambda: stream.copy(wrong, operand), lambda: stream.copy(operand, wrong)):  # noqa: B023
            with pytest.raises(gpu_interop.InvalidArgument) as caught:
                copy()
            message = str(caught.value)
            assert f"use memory.tensor({name}.shape, array.dtype)" in message, message
            assert f"given: {list(shape)} {dtype}" in message and f"texels: {expected}" in message, message
    for copy in (lambda: stream.copy(memory, array), lambda: stream.copy(array, memory)):
        with pytest.raises(gpu_interop.InvalidArgument, match=r"size of the texels; use memory\.tensor\(array\.shape"):
            copy()
    # Without dimensions of length 1.
    one = memory.tensor((8, 16, 4), "uint8")
    stream.copy(one, region)
    assert stream.read(one) == drawn[1].tobytes()


def test_a_tensor_for_the_texels_is_allocated(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 5, 3, "rgba16_float")
    drawn = texels((3, 5, 4), "float16")
    context.upload(image, drawn)
    context.release(image)
    array, stream = image.array(device), device.stream()
    tensor = array.allocate_tensor(stream=stream)
    assert (tensor.shape, tensor.dtype, tensor.nbytes) == (array.shape, array.dtype, array.nbytes)
    assert array.nbytes == drawn.nbytes and tensor.__cuda_array_interface__["stream"] == stream.ptr
    stream.copy(tensor, array)
    assert stream.read(tensor) == drawn.tobytes()
    array.close()
    for use in (array.allocate_tensor, lambda: array.nbytes):
        with pytest.raises(gpu_interop.InvalidArgument, match="the array is closed"):
            use()


def test_an_array_is_no_tensor(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 4, 4, "r8_unorm")
    context.release(image)
    array = image.array(device)
    uses: list[Callable[[], Any]] = [
        array.__dlpack__,
        array.__dlpack_device__,
        lambda: array.__dlpack__(stream=None, max_version=(1, 0), dl_device=None, copy=None),
        lambda: numpy.from_dlpack(array),
        lambda: numpy.asarray(array),
        lambda: numpy.asarray(array, "float32"),
    ]
    for use in uses:
        with pytest.raises(BufferError, match=r"optimal tiling has no addresses: stream\.copy it to a tensor"):
            use()


class Texels:
    """A tensor of torch, as far as the README uses it: its work runs late, on the current stream."""

    def __init__(self, tensor: gpu_interop.Tensor, current: gpu_interop.Stream) -> None:
        self.tensor, self.current = tensor, current
        tensor.__dlpack__(stream=current.ptr)

    def bitwise_not_(self) -> None:
        device, gate = self.tensor.device, self.tensor.device.timeline()
        texels = numpy.frombuffer(self.current.read(self.tensor), "uint8")
        inverted = tensor_of(device, self.tensor.shape, "uint8")
        self.current.write(inverted, 255 - texels)
        gate.wait(self.current, 1)
        self.current.copy(self.tensor, inverted)
        threading.Timer(0.1, gate.host_signal, [1]).start()


def test_the_loop_of_the_readme_runs(monkeypatch: Any, tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (program,) = re.findall("```python\n(# image_to_torch.py\n.*?)```", readme, re.S)
    streams: list[gpu_interop.Stream] = []

    def from_dlpack(tensor: gpu_interop.Tensor) -> Texels:
        if not streams:
            streams.append(tensor.device.stream())
        return Texels(tensor, streams[0])

    torch: Any = types.ModuleType("torch")
    torch.from_dlpack, torch.cuda = from_dlpack, types.SimpleNamespace(current_stream=lambda: streams[0])
    monkeypatch.setitem(sys.modules, "torch", torch)
    # Known texels.
    drawn = texels((480, 640, 4), "uint8")
    initialize = "context.initialize(image)\n"
    assert initialize in program
    program = program.replace(initialize, initialize + "context.upload(image, drawn)\n")
    file = tmp_path / "image_to_torch.py"
    file.write_text(program)
    names = runpy.run_path(str(file), {"drawn": drawn})
    assert names["context"].download(names["image"]) == (255 - drawn).tobytes()
    assert len(names["box"]) == 16 * 16 * 4


def test_what_is_no_array_says_so(context: vulkan.Context, device: gpu_interop.Device) -> None:
    linear = image_of(context, 16, 16, "r8_unorm", linear=True)
    optimal = image_of(context, 16, 16, "r8_unorm")
    closed = gpu_interop.open(matching=context)
    closed.close()
    fds = len(os.listdir("/proc/self/fd"))
    with pytest.raises(gpu_interop.Unsupported, match=r"Image\.row_pitch"):
        linear.array(device)
    with pytest.raises(gpu_interop.InvalidArgument, match="the device is closed"):
        optimal.array(closed)
    with pytest.raises(gpu_interop.Unsupported, match="linear"):
        optimal.array(gpu_interop.open(backend="host"))
    for memory in (device.allocate(4096), device.import_memory(context.buffer(4096).export())):
        with pytest.raises(gpu_interop.InvalidArgument, match=r"Memory\.array"):
            memory.array()
    del memory
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == fds
    # The same memory is no tensor, and the message names the way.
    with pytest.raises(gpu_interop.InvalidArgument, match=r"Image\.array"):
        device.import_memory(optimal.export()).tensor(16, "uint8")


def test_nothing_is_left_after_many_arrays(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = image_of(context, 64, 64, "rgba8_unorm")
    context.release(image)
    tensor, stream = tensor_of(device, (64, 64, 4), "uint8"), device.stream()

    def once() -> None:
        # Dropped with work pending.
        stream.copy(tensor, image.array(device))

    once()
    stream.synchronize()
    device.collect()
    fds = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        once()
    stream.synchronize()
    device.collect()
    assert len(os.listdir("/proc/self/fd")) <= fds
