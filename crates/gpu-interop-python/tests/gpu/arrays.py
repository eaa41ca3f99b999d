"""Images of optimal tiling as arrays: copies, CuPy's and warp's textures, cuda.core, against torch's result."""

from __future__ import annotations

import ctypes
from typing import Any

import gpu_interop
import numpy
from common import Failed, Machine, Result, require

WIDTH, HEIGHT = 200, 120
#: Format of Vulkan, type of the elements, channels.
FORMATS = {
    "r8_unorm": ("uint8", 1),
    "rgba8_unorm": ("uint8", 4),
    "rgba8_uint": ("uint8", 4),
    "rgba16_float": ("float16", 4),
    "r32_float": ("float32", 1),
    "rgba32_float": ("float32", 4),
}


class Drawn:
    """An image that Vulkan wrote and released, as an array, and its texels."""

    def __init__(self, machine: Machine, form: str, levels: int = 1, layers: int = 1) -> None:
        self.context, (dtype, channels) = machine.context, FORMATS[form]
        self.image = self.context.image(WIDTH, HEIGHT, form, levels=levels, layers=layers)
        self.context.initialize(self.image)
        random = numpy.random.default_rng(levels * 100 + layers)
        self.levels = []
        for level in range(levels):
            shape = (layers, HEIGHT >> level, WIDTH >> level, channels)
            texels = random.integers(0, 200, shape).astype(dtype)
            for layer in range(layers):
                self.context.upload(self.image, texels[layer], level=level, layer=layer)
            self.levels.append(texels)
        self.context.release(self.image)
        self.array = self.image.array(machine.device)
        self.tensor = machine.device.allocate(self.levels[0].nbytes).tensor(self.array.shape, self.array.dtype)
        self.stream = machine.device.stream()

    def copied(self) -> gpu_interop.Tensor:
        """The texels of level 0 in linear memory."""
        self.stream.copy(self.tensor, self.array)
        self.stream.synchronize(60)
        return self.tensor


def copies(machine: Machine) -> Result:
    """Array to tensor, changed by torch, back to the array, read by Vulkan; levels and layers."""
    import torch

    cases = []
    for form in FORMATS:
        drawn = Drawn(machine, form)
        view = torch.from_dlpack(drawn.copied())
        seen = view.cpu().numpy().reshape(drawn.levels[0].shape)
        if not numpy.array_equal(seen, drawn.levels[0]):
            raise Failed({"case": form, "wrong elements": int((seen != drawn.levels[0]).sum())})
        view.copy_(200 - view)
        torch.cuda.synchronize()
        drawn.stream.copy(drawn.array, drawn.tensor)
        drawn.stream.synchronize(60)
        machine.context.acquire(drawn.image)
        back = numpy.frombuffer(machine.context.download(drawn.image), seen.dtype).reshape(seen.shape)
        if not numpy.array_equal(back, (200 - drawn.levels[0]).astype(seen.dtype)):
            raise Failed({"case": f"{form}, back"})
        cases.append(form)
    for levels, layers in ((1, 3), (4, 1), (4, 3)):
        drawn = Drawn(machine, "rgba8_unorm", levels, layers)
        for level, texels in enumerate(drawn.levels):
            if drawn.stream.read(drawn.array.region(level)) != texels.tobytes():
                raise Failed({"case": f"{levels} levels, {layers} layers", "level": level})
        box = drawn.array.region(0, (3, 5), (40, 20, 1))
        if drawn.stream.read(box) != drawn.levels[0][0, 5:25, 3:43].tobytes():
            raise Failed({"case": "a box"})
        cases.append(f"{levels} levels, {layers} layers")
    return {"cases": len(cases), "equal": cases}


def expected(tensor: gpu_interop.Tensor, scale: float) -> Any:
    """Torch's result: twice each element, on the CPU."""
    import torch

    view = torch.from_dlpack(tensor)
    return (view.to(torch.float32) * (2 * scale)).cpu().numpy().reshape(HEIGHT, WIDTH, -1)


class Resource(ctypes.Structure):
    """cudaResourceDesc of an array."""

    _fields_ = [("type", ctypes.c_int), ("array", ctypes.c_void_p), ("rest", ctypes.c_byte * 240)]


KERNEL = r"""
extern "C" __global__ void twice(cudaTextureObject_t texture, float4* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float4 t = tex2D<float4>(texture, x + 0.5f, y + 0.5f);
    out[y * width + x] = make_float4(2 * t.x, 2 * t.y, 2 * t.z, 2 * t.w);
}
"""


def with_cupy(machine: Machine) -> Result:
    """A texture of the array in CuPy, against torch's result. Formats that the runtime rejects are listed."""
    import cupy

    runtime, cases, rejected = cupy.cuda.runtime, [], {}
    elements, normalized = runtime.cudaReadModeElementType, runtime.cudaReadModeNormalizedFloat
    with cupy.cuda.Device(machine.ordinal):
        kernel = cupy.RawKernel(KERNEL, "twice")
        for form, mode in (
            ("rgba32_float", elements),
            ("rgba16_float", elements),
            ("rgba8_uint", normalized),
            ("rgba8_unorm", elements),
            ("rgba8_unorm", normalized),
        ):
            drawn = Drawn(machine, form)
            resource = Resource(runtime.cudaResourceTypeArray, drawn.array.handle)
            sampling = cupy.cuda.texture.TextureDescriptor(
                [runtime.cudaAddressModeClamp] * 2, runtime.cudaFilterModePoint, mode
            )
            try:
                texture = runtime.createTextureObject(ctypes.addressof(resource), sampling.ptr)
            except runtime.CUDARuntimeError as error:
                rejected[f"{form}, read mode {mode}"] = str(error)
                continue
            out = cupy.empty((HEIGHT, WIDTH, 4), cupy.float32)
            grid, block = ((WIDTH + 15) // 16, (HEIGHT + 15) // 16), (16, 16)
            kernel(grid, block, (numpy.uint64(texture), out, numpy.int32(WIDTH), numpy.int32(HEIGHT)))
            seen = cupy.asnumpy(out)
            runtime.destroyTextureObject(texture)
            wanted = expected(drawn.copied(), 1 / 255 if "8" in form else 1)
            worst = float(numpy.abs(seen - wanted).max())
            if worst > 1e-6 * float(wanted.max()):
                raise Failed({"case": form, "largest difference": worst})
            cases.append(form)
    return require(len(cases) >= 3, {"equal": cases, "rejected": rejected})


def with_warp(machine: Machine) -> Result:
    """`warp.Texture2D` of the array, against torch's result on the copy. Formats that warp rejects are listed."""
    import warp
    from warp_kernel import twice

    device, equal, rejected = f"cuda:{machine.ordinal}", [], {}
    for form in ("rgba32_float", "rgba16_float", "rgba8_uint", "rgba8_unorm"):
        drawn = Drawn(machine, form)
        try:
            texture = warp.Texture2D(
                cuda_array=drawn.array.handle, device=device, normalized_coords=False, filter_mode=0
            )
        except Exception as error:
            rejected[form] = f"{type(error).__name__}: {error}"
            continue
        out = warp.empty((HEIGHT, WIDTH), dtype=warp.vec4f, device=device)
        warp.launch(twice, dim=(HEIGHT, WIDTH), inputs=[texture, out], device=device)
        seen = out.numpy()
        del texture
        wanted = expected(drawn.copied(), 1 / 255 if "8" in form else 1)
        worst = float(numpy.abs(seen - wanted).max())
        if worst > 1e-5 * float(wanted.max()):
            raise Failed({"case": form, "largest difference": worst})
        equal.append(form)
    return require(len(equal) >= 2, {"equal": equal, "rejected by warp": rejected})


def with_cuda_core(machine: Machine) -> Result:
    """`cuda.core` reads the array; the function is not public there yet."""
    from cuda.core import Device
    from cuda.core.texture import OpaqueArray

    drawn, gpu = Drawn(machine, "rgba32_float"), Device(machine.ordinal)
    gpu.set_current()
    stream = gpu.create_stream()
    theirs = OpaqueArray._from_handle(drawn.array.handle, False, device_id=machine.ordinal)
    seen = numpy.empty_like(drawn.levels[0])
    theirs.copy_to(seen, stream=stream)
    stream.sync()
    theirs.close()
    same = numpy.array_equal(seen, drawn.levels[0])
    return require(same and drawn.stream.read(drawn.array) == seen.tobytes(), {"bytes": seen.nbytes})


# DLPack's C exchange API -------------------------------------------------------------------------------------------


def exchange(machine: Machine) -> Result:
    """Tensors from this module's table into torch's, ordered by the default stream; the allocator."""
    import torch
    from exchange import Api, delete, prototype

    ours, theirs = Api(gpu_interop.Tensor), Api(torch.Tensor)
    stream, timeline = machine.device.stream(), machine.device.timeline()
    memory = machine.device.allocate(1 << 20)
    tensor = memory.tensor((512, 512), "int32", stream=stream)
    stream.fill(memory, 1, bits=32)
    stream.synchronize(60)
    # Kernels are loaded before the stream waits.
    warm = theirs.object(ours.managed(tensor))
    first = int(warm.sum().item())
    # A late producer: the default stream, on which torch reduces, waits for it.
    timeline.wait(stream, 1)
    stream.fill(memory, 2, bits=32)
    view = theirs.object(ours.managed(tensor))
    total = view.sum()
    pending = not torch.cuda.default_stream(machine.ordinal).query()
    timeline.host_signal(1)
    second = int(total.item())
    view.fill_(3)
    torch.cuda.synchronize()
    # The memory may be larger than the tensor.
    seen = set(numpy.frombuffer(machine.device.stream().read(memory), "int32")[: 1 << 18].tolist())
    made = ours.allocate(prototype([16, 16], 2, 32, (2, machine.ordinal)))
    shared = theirs.object(made)
    shared.fill_(7)
    foreign = ""
    try:
        ours.object(theirs.managed(torch.zeros(4, device="cuda")))
    except BufferError as error:
        foreign = str(error)
    plain = ours.plain(tensor)
    delete(ours.managed(tensor))
    result: Result = {
        "address": view.data_ptr() == tensor.ptr == plain.data,
        "sums": [first, second],
        "pending before the signal": pending,
        "written by torch": sorted(seen),
        "allocated": float(shared.sum().item()),
        "foreign": foreign,
        "version of torch's table": [theirs.table.major, theirs.table.minor],
    }
    sound = result["address"] and [first, second] == [1 << 18, 1 << 19] and pending and seen == {3}
    return require(bool(sound) and result["allocated"] == 7 * 256 and "from_dlpack" in foreign, result)


PARTS = {
    "arrays": copies,
    "arrays, cupy": with_cupy,
    "arrays, warp": with_warp,
    "arrays, cuda.core": with_cuda_core,
    "exchange": exchange,
}
