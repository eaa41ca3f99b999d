"""Capsules: their content, their flags, the arguments of ``__dlpack__``, and who frees the memory."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import gpu_interop
import numpy
import pytest
from conftest import capsule_name, capsule_struct, take

CODES = {
    "int8": (0, 8),
    "int64": (0, 64),
    "uint16": (1, 16),
    "float16": (2, 16),
    "float64": (2, 64),
    "bfloat16": (4, 16),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "bool": (6, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e5m2": (12, 8),
}


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dtype", CODES)
def test_the_structure(memory: gpu_interop.Memory, dtype: str, versioned: bool) -> None:
    tensor = memory.tensor((2, 3), dtype, (6, 2), 64)
    capsule = tensor.__dlpack__(max_version=(1, 1) if versioned else None)
    assert capsule_name(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
    struct = capsule_struct(capsule)
    inner = struct.tensor
    assert (inner.code, inner.bits, inner.lanes) == (*CODES[dtype], 1)
    assert (inner.device_type, inner.device_id) == tensor.__dlpack_device__() == (1, 0)
    assert inner.data + inner.byte_offset == tensor.ptr == memory.ptr + 64
    assert inner.shape[: inner.ndim] == [2, 3] and inner.strides[: inner.ndim] == [6, 2]
    if versioned:
        assert (struct.major, struct.flags) == (1, 0)


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_the_version_follows_the_consumer(memory: gpu_interop.Memory, max_version: tuple[int, int] | None) -> None:
    capsule = memory.tensor(4, "int8").__dlpack__(max_version=max_version)
    new = max_version is not None and max_version[0] >= 1
    assert capsule_name(capsule) == (b"dltensor_versioned" if new else b"dltensor")


def test_read_only_needs_a_version(memory: gpu_interop.Memory) -> None:
    tensor = memory.tensor(4, "int8", readonly=True)
    assert capsule_struct(tensor.__dlpack__(max_version=(1, 0))).flags == 1
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert capsule_name(tensor.__dlpack__(copy=True)) == b"dltensor"
    assert capsule_struct(tensor.__dlpack__(copy=True, max_version=(1, 0))).flags == 2


@pytest.mark.parametrize("stream", [0, 1, 2, 7, -2, 1 << 40])
def test_the_cpu_has_no_streams(memory: gpu_interop.Memory, stream: int) -> None:
    with pytest.raises(ValueError, match="stream must be None"):
        memory.tensor(4, "int8").__dlpack__(stream=stream)


@pytest.mark.parametrize("stream", ["1", 1.5, object(), 1 << 70])
def test_streams_are_integers(memory: gpu_interop.Memory, stream: Any) -> None:
    with pytest.raises(TypeError, match="stream must be an integer"):
        memory.tensor(4, "int8").__dlpack__(stream=stream)


@pytest.mark.parametrize("wanted", [(2, 0), (10, 0), (1, 1), (13, 0)])
def test_another_device_is_rejected(memory: gpu_interop.Memory, wanted: tuple[int, int]) -> None:
    with pytest.raises(BufferError, match="another device"):
        memory.tensor(4, "int8").__dlpack__(dl_device=wanted)
    memory.tensor(4, "int8").__dlpack__(dl_device=(1, 0))


def test_there_is_no_cuda_array_interface_on_the_cpu(memory: gpu_interop.Memory) -> None:
    assert not hasattr(memory.tensor(4, "int8"), "__cuda_array_interface__")
    assert not hasattr(memory.tensor(4, "bfloat16"), "__array_interface__")


def test_the_hand_over_waits_for_the_stream(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    stream, timeline = device.stream(), device.timeline()
    tensor = memory.tensor((1024,), "uint32", stream=stream)
    numpy.asarray(memory.tensor((1024,), "uint32"))[:] = 1
    timeline.wait(stream, 1)
    stream.fill(tensor, 0xDEADBEEF, bits=32)
    # Without the wait the data is stale.
    capsule = tensor.__dlpack__(stream=-1)
    assert numpy.asarray(memory.tensor((1024,), "uint32"))[0] == 1
    del capsule
    late = threading.Timer(0.1, timeline.host_signal, (1,))
    late.start()
    assert (numpy.from_dlpack(tensor) == 0xDEADBEEF).all()
    late.join()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def mapped(address: int) -> bool:
    with open("/proc/self/maps") as maps:
        ranges = [[int(part, 16) for part in line.split()[0].split("-")] for line in maps]
    return any(first <= address < last for first, last in ranges)


def test_owners_may_be_deleted_first(device: gpu_interop.Device) -> None:
    memory = device.allocate(1 << 20)
    imported = device.import_memory(memory.export())
    tensor = imported.tensor((1 << 20,), "uint8")
    view = numpy.from_dlpack(tensor)
    view[:] = 7
    imported.close()
    memory.close()
    del tensor, imported, memory
    gc.collect()
    assert (view == 7).all()
    view[:] = 8
    part = view[100:200]
    address = view.ctypes.data
    del view
    gc.collect()
    assert (part == 8).all() and mapped(address)
    del part
    gc.collect()
    assert not mapped(address)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_the_last_owner_frees_the_memory(device: gpu_interop.Device, versioned: bool, taken: bool) -> None:
    memory = device.import_memory(device.allocate(1 << 20).export())
    address = memory.ptr
    capsule = memory.tensor(16, "uint8").__dlpack__(max_version=(1, 0) if versioned else None)
    delete = take(capsule)[1] if taken else None
    memory.close()
    del memory
    gc.collect()
    assert mapped(address)
    del capsule
    gc.collect()
    if delete is not None:
        # The consumer took it: the capsule's end does not free it.
        assert mapped(address)
        delete()
    assert not mapped(address)


def test_deleters_run_on_any_thread(device: gpu_interop.Device) -> None:
    memories = [device.import_memory(device.allocate(1 << 16).export()) for _ in range(64)]
    addresses = [memory.ptr for memory in memories]
    deleters = [take(memory.tensor(16, "uint8").__dlpack__())[1] for memory in memories]
    memories.clear()
    gc.collect()
    assert all(mapped(address) for address in addresses)
    threads = [threading.Thread(target=delete) for delete in deleters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(mapped(address) for address in addresses)


def test_nothing_is_left_after_many_hand_overs(device: gpu_interop.Device) -> None:
    def hand_over() -> None:
        with device.allocate(4096) as memory:
            imported = device.import_memory(memory.export())
            assert numpy.from_dlpack(imported.tensor((16, 64), "float32")).shape == (16, 64)
            numpy.asarray(imported.tensor((16,), "float32"))
            imported.tensor((16,), "float32").__dlpack__()

    hand_over()
    gc.collect()
    before = descriptors()
    for _ in range(500):
        hand_over()
    gc.collect()
    assert descriptors() == before


def test_a_copy_without_memory_is_an_error(memory: gpu_interop.Memory) -> None:
    tensor = memory.tensor((1 << 50,), "uint8", (0,))
    assert numpy.from_dlpack(tensor).nbytes == 1 << 50
    with pytest.raises(gpu_interop.OutOfMemory):
        tensor.__dlpack__(copy=True)


def test_threads_share_everything(device: gpu_interop.Device) -> None:
    memory, stream, timeline = device.allocate(1 << 16), device.stream(), device.timeline(1)
    tensor = memory.tensor((1 << 14,), "uint32", stream=stream)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(200):
                timeline.wait(stream, 1)
                stream.fill(memory.tensor(16, "uint8", offset=number * 16), turn)
                assert numpy.from_dlpack(tensor).shape == (1 << 14,)
                imported = device.import_memory(memory.export())
                view = numpy.asarray(imported.tensor(16, "uint8", offset=number * 16, stream=stream))
                imported.close()
                del imported
                assert (view == turn).all()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_closed_device_keeps_its_memory(device: gpu_interop.Device) -> None:
    other = gpu_interop.open(backend="host")
    memory = other.allocate(4096)
    view = numpy.from_dlpack(memory.tensor((1024,), "int32"))
    other.close()
    view[:] = 5
    assert (numpy.asarray(memory.tensor((1024,), "int32")) == 5).all()
    with pytest.raises(gpu_interop.InvalidArgument, match="closed"):
        other.allocate(1)
