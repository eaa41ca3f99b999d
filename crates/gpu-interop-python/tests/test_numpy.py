"""numpy sees the memory without a copy, in both directions."""

from __future__ import annotations

import sys
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]

#: Shape, strides in elements, offset in elements.
LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None, int]] = {
    "vector": ((64,), None, 0),
    "offset": ((64,), None, 3),
    "matrix": ((8, 16), None, 0),
    "cube": ((4, 3, 5), None, 1),
    "scalar": ((), None, 2),
    "empty": ((0, 4), None, 0),
    "every second": ((32,), (2,), 0),
    "transposed": ((16, 8), (1, 16), 0),
    "window": ((4, 4), (16, 1), 18),
    "backwards": ((16,), (-1,), 15),
    "broadcast": ((4, 8), (0, 1), 0),
}


def values(count: int, dtype: str) -> Any:
    numbers = numpy.arange(count) % 113
    return numbers.astype(bool) if dtype == "bool" else numbers.astype(dtype)


def view_of(block: Any, dtype: str, layout: str) -> Any:
    """The same view, made by numpy."""
    shape, strides, offset = LAYOUTS[layout]
    elements = block.view(dtype)[offset:]
    if strides is None:
        return elements[: int(numpy.prod(shape))].reshape(shape)
    steps = [stride * elements.itemsize for stride in strides]
    return numpy.lib.stride_tricks.as_strided(elements, shape, steps)


@pytest.mark.parametrize("consumer", ["dlpack", "array interface"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_view_is_the_memory(memory: gpu_interop.Memory, dtype: str, layout: str, consumer: str) -> None:
    block = numpy.from_dlpack(memory.tensor(4096, "uint8"))
    block[:] = values(4096 // numpy.dtype(dtype).itemsize, dtype).view("uint8")
    shape, strides, offset = LAYOUTS[layout]
    size = numpy.dtype(dtype).itemsize
    tensor = memory.tensor(shape, dtype, strides, offset * size)
    view = numpy.from_dlpack(tensor) if consumer == "dlpack" else numpy.asarray(tensor)
    expected = view_of(block, dtype, layout)
    assert view.shape == tensor.shape == shape
    assert view.dtype == numpy.dtype(dtype)
    numpy.testing.assert_array_equal(view, expected)
    if view.size:
        # No copy: the address is the same, and writes through one are seen through the other.
        assert view.ctypes.data == tensor.ptr == memory.ptr + offset * size
        view[...] = values(1, dtype)[0]
        numpy.testing.assert_array_equal(view, expected)
        assert block.view(dtype)[offset] == values(1, dtype)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_vulkan_writes_and_numpy_reads_and_back(
    context: vulkan.Context, device: gpu_interop.Device, dtype: str
) -> None:
    expected = values(256, dtype)
    buffer = context.buffer(expected.nbytes)
    context.upload(buffer, expected)
    context.release(buffer)
    memory = device.import_memory(buffer.export())
    view = numpy.from_dlpack(memory.tensor(256, dtype))
    numpy.testing.assert_array_equal(view, expected)
    view[:] = view[::-1].copy()
    context.acquire(buffer)
    back = numpy.frombuffer(context.download(buffer), dtype)
    numpy.testing.assert_array_equal(back, expected[::-1])


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float16" and not dtype.startswith("complex")])
def test_the_buffer_protocol(memory: gpu_interop.Memory, dtype: str) -> None:
    tensor = memory.tensor((4, 8), dtype)
    view = tensor.view()
    assert view.shape == (4, 8) and view.itemsize == tensor.itemsize and not view.readonly
    numpy.asarray(tensor)[...] = values(32, dtype).reshape(4, 8)
    assert view.tolist() == values(32, dtype).reshape(4, 8).tolist()
    if sys.version_info >= (3, 12):
        assert memoryview(tensor).tolist() == view.tolist()


def test_the_buffer_protocol_rejects_what_it_cannot_express(memory: gpu_interop.Memory) -> None:
    with pytest.raises(BufferError, match="packed"):
        memory.tensor((4,), "int8", (2,)).view()
    with pytest.raises(BufferError, match="bfloat16"):
        memory.tensor((4,), "bfloat16").view()
    assert memory.tensor((4,), "int8", readonly=True).view().readonly
    assert memory.tensor((), "int32").view().shape == ()
    assert len(memory.tensor((0,), "int32").view()) == 0


@pytest.mark.parametrize("consumer", [numpy.from_dlpack, numpy.asarray])
def test_read_only_is_honoured(memory: gpu_interop.Memory, consumer: Any) -> None:
    tensor = memory.tensor((4,), "int32", readonly=True)
    view = consumer(tensor)
    assert tensor.readonly and not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_copies_are_copies(memory: gpu_interop.Memory) -> None:
    tensor = memory.tensor((3, 4), "int16", (1, 3))
    block = numpy.asarray(memory.tensor((12,), "int16"))
    block[:] = numpy.arange(12)
    copied = numpy.from_dlpack(tensor, copy=True)
    numpy.testing.assert_array_equal(copied, numpy.arange(12).reshape(4, 3).T)
    block[:] = 0
    assert copied[2, 3] == 11 and copied.ctypes.data != tensor.ptr


@pytest.mark.parametrize(
    "given",
    [
        "float32",
        "f4",
        "<f4",
        "=f4",
        numpy.float32,
        numpy.dtype("float32"),
        numpy.dtype("<f4"),
        "torch.float32",
        "torch.float",
    ],
)
def test_names_of_types(memory: gpu_interop.Memory, given: Any) -> None:
    assert memory.tensor(4, given).dtype == "float32"


@pytest.mark.parametrize("given", [float, int, bool, complex])
def test_types_of_python_are_those_of_numpy(memory: gpu_interop.Memory, given: Any) -> None:
    assert memory.tensor(4, given).dtype == numpy.dtype(given).name


@pytest.mark.parametrize("given", ["float", "int", "numpy.float"])
def test_names_that_differ_between_libraries(memory: gpu_interop.Memory, given: str) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match=rf'{given[-3:]}32".*{given[-3:]}64"'):
        memory.tensor(4, given)


def foreign(name: str) -> numpy.dtype[Any]:
    """A type whose bytes are in the order that this machine does not have."""
    return numpy.dtype(name).newbyteorder("S")


@pytest.mark.parametrize("name", [dtype for dtype in DTYPES if numpy.dtype(dtype).itemsize > 1])
def test_the_other_byte_order_is_rejected(memory: gpu_interop.Memory, name: str) -> None:
    for given in (foreign(name), foreign(name).str):
        with pytest.raises(gpu_interop.InvalidArgument, match=r"newbyteorder\(\"=\"\)") as caught:
            memory.tensor(4, given)
        assert foreign(name).str in str(caught.value)
    native = foreign(name).newbyteorder("=")
    assert memory.tensor(4, native).dtype == memory.tensor(4, native.str).dtype == name


@pytest.mark.parametrize("given", ["<u1", ">u1", "=u1", "|u1", "u1", numpy.dtype(">u1"), foreign("uint8")])
def test_bytes_have_no_order(memory: gpu_interop.Memory, given: Any) -> None:
    assert memory.tensor(4, given).dtype == "uint8"


@pytest.mark.parametrize("given", [type(numpy.dtype("float32")), dict, object(), None, 4])
def test_what_is_no_type_is_rejected(memory: gpu_interop.Memory, given: Any) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="unknown type of elements"):
        memory.tensor(4, given)


def test_no_copy_means_no_time(device: gpu_interop.Device) -> None:
    """A gigabyte is seen without being touched."""
    memory = device.allocate(1 << 30)
    view = numpy.from_dlpack(memory.tensor((1 << 30,), "uint8"))
    assert view.ctypes.data == memory.ptr and view.nbytes == 1 << 30
