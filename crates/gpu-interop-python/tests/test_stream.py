"""Work of streams: fills, copies, reads and writes, in order."""

from __future__ import annotations

from typing import Any

import gpu_interop
import numpy
import pytest


def test_fills_copies_reads_and_writes(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    stream = device.stream()
    other = device.allocate(memory.size)
    stream.write(memory, bytes(range(256)) * 256)
    stream.fill(memory.tensor(16, "uint8"), 7)
    stream.fill(memory.tensor(4, "uint32", offset=16), 0x04030201, bits=32)
    stream.copy(other, memory)
    stream.keep(other)
    data = stream.read(other)
    assert data[:32] == b"\x07" * 16 + b"\x01\x02\x03\x04" * 4 and data[32:256] == bytes(range(32, 256))
    assert stream.read(other.tensor((2, 2), "uint16", offset=256)) == bytes(range(8))
    assert stream.idle


@pytest.mark.parametrize(
    "wrong",
    [
        lambda stream, memory: stream.fill(memory, 256),
        lambda stream, memory: stream.fill(memory, 1, bits=16),
        lambda stream, memory: stream.fill(memory.tensor(4, "uint8", readonly=True), 1),
        lambda stream, memory: stream.write(memory.tensor(4, "uint8", readonly=True), b"abcd"),
        lambda stream, memory: stream.copy(memory.tensor(4, "uint8", readonly=True), memory.tensor(4, "uint8")),
        lambda stream, memory: stream.copy(memory.tensor(4, "uint8"), memory.tensor(4, "uint8", offset=2)),
        lambda stream, memory: stream.copy(memory.tensor(4, "uint8"), memory.tensor(5, "uint8", offset=8)),
        lambda stream, memory: stream.write(memory, b"a"),
        lambda stream, memory: stream.fill(memory.tensor(4, "uint8", (2,)), 1),
        lambda stream, memory: stream.fill(memory.tensor(0, "uint8"), 1),
        lambda stream, memory: stream.fill(numpy.zeros(4), 1),
        lambda stream, memory: stream.fill(None, 1),
        lambda stream, memory: stream.keep(3),
    ],
)
def test_wrong_work_is_typed(device: gpu_interop.Device, memory: gpu_interop.Memory, wrong: Any) -> None:
    with pytest.raises(gpu_interop.InvalidArgument):
        wrong(device.stream(), memory)


def test_strides_count_elements(memory: gpu_interop.Memory) -> None:
    """Those of numpy count bytes: where they leave the memory, the error says so."""
    array = numpy.zeros((128, 128), "float32")
    with pytest.raises(gpu_interop.InvalidArgument, match="strides count elements, not bytes"):
        memory.tensor(array.shape, array.dtype, array.strides)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    assert memory.tensor(array.shape, array.dtype, strides).strides == (128, 1)


def test_memory_of_another_device_is_rejected(device: gpu_interop.Device) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="another device"):
        device.stream().fill(gpu_interop.open(backend="host").allocate(64), 1)


def test_streams_of_the_cpu_are_not_those_of_cuda(device: gpu_interop.Device) -> None:
    with pytest.raises(gpu_interop.Unsupported, match="threads"):
        device.stream().__cuda_stream__()


def test_tensors_follow_their_stream(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    other = gpu_interop.open(backend="host")
    with pytest.raises(gpu_interop.InvalidArgument, match="another device"):
        memory.tensor(4, "uint8", stream=other.stream())
    stream = device.stream()
    tensor = memory.tensor(4, "uint8", stream=stream)
    stream.close()
    # The tensor keeps its stream.
    numpy.from_dlpack(tensor)
    device.collect()
