"""Imports of descriptors, and 200 wrong descriptions: typed exceptions, no descriptor closed, never an abort."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan

TYPED = (gpu_interop.Error, TypeError, ValueError, OverflowError, BufferError)


def memfd(size: int, *, sealable: bool = True) -> int:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | (os.MFD_ALLOW_SEALING if sealable else 0))
    os.ftruncate(fd, size)
    return fd


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_descriptor_belongs_to_the_import_after_success(device: gpu_interop.Device) -> None:
    fd = memfd(4096)
    other = os.dup(fd)
    os.pwrite(fd, b"\x2a" * 4096, 0)
    memory = device.import_memory(fd=fd, size=4096, kind="opaque_fd")
    assert not is_open(fd)
    view = numpy.from_dlpack(memory.tensor(4096, "uint8"))
    assert (view == 0x2A).all()
    view[5] = 1
    assert os.pread(other, 1, 5) == b"\x01"
    os.close(other)


def test_a_descriptor_is_the_callers_after_a_failure(device: gpu_interop.Device) -> None:
    fd = memfd(4096)
    for arguments in [{"size": 4097}, {"size": 0}, {"size": 4096, "kind": "d3d12_heap"}, {"size": 1 << 60}, {}]:
        with pytest.raises(gpu_interop.Error):
            device.import_memory(fd=fd, **arguments)
        assert is_open(fd)
    device.import_memory(fd=fd, size=4096)
    assert not is_open(fd)


def test_a_file_that_may_shrink_needs_a_promise(device: gpu_interop.Device) -> None:
    fd = memfd(4096, sealable=False)
    with pytest.raises(gpu_interop.Error, match="can truncate"):
        device.import_memory(fd=fd, size=4096)
    device.import_memory(fd=fd, size=4096, trusted_peer=True)


def test_an_export_is_consumed_by_success_only(context: vulkan.Context, device: gpu_interop.Device) -> None:
    export = context.buffer(4096).export()
    other = gpu_interop.open(backend="host")
    other.close()
    with pytest.raises(gpu_interop.InvalidArgument, match="closed"):
        other.import_memory(export)
    assert not export.closed
    with pytest.raises(gpu_interop.InvalidArgument, match="either"):
        device.import_memory(export, size=4096)
    device.import_memory(export)
    assert export.closed
    with pytest.raises(gpu_interop.InvalidArgument, match="closed"):
        device.import_memory(export)


def test_exports_detach(device: gpu_interop.Device) -> None:
    with device.allocate(4096) as memory:
        export = memory.export()
        assert export.fileno() == export.fd
        fd = export.detach()
    assert export.closed and is_open(fd)
    description = {"size": export.size, "dedicated": export.dedicated, "native": export.native}
    device.import_memory(fd=fd, kind=export.kind, **description)
    assert not is_open(fd)


def test_another_device_is_rejected(device: gpu_interop.Device) -> None:
    fd = memfd(4096)
    first = gpu_interop.devices()[0].identity
    device.import_memory(fd=os.dup(fd), size=4096, exporter=first)
    os.close(fd)


def test_memory_reaches_another_process(device: gpu_interop.Device) -> None:
    memory = device.allocate(4096)
    view = numpy.from_dlpack(memory.tensor(1024, "int32"))
    view[:] = numpy.arange(1024)
    export = memory.export()
    code = f"""
import gpu_interop, numpy
device = gpu_interop.open(backend="host")
memory = device.import_memory(fd={export.fd}, size={export.size}, kind={export.kind!r}, native={export.native})
view = numpy.from_dlpack(memory.tensor(1024, "int32"))
assert (view == numpy.arange(1024)).all()
view *= 2
"""
    subprocess.run([sys.executable, "-c", code], pass_fds=[export.fd], check=True, timeout=60)
    assert (view == numpy.arange(1024) * 2).all()


def test_foreign_tensors_cannot_be_exported(device: gpu_interop.Device) -> None:
    with pytest.raises(gpu_interop.Unsupported, match=r"torch\.from_dlpack\(memory\.tensor"):
        device.export_tensor(numpy.zeros(4))


def test_imports_are_not_exported_again(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    with pytest.raises(gpu_interop.Unsupported, match="where it was allocated"):
        device.import_memory(memory.export()).export()


def test_errors_carry_their_parts(device: gpu_interop.Device) -> None:
    fd = memfd(4096)
    with pytest.raises(gpu_interop.InvalidArgument) as caught:
        device.import_memory(fd=fd, size=8192)
    os.close(fd)
    error = caught.value
    assert error.operation == "Device.import_memory" and error.code is None and error.backend == "host"
    assert "8192" in str(error) and "4096 bytes" in str(error)


def wrong_descriptions() -> list[dict[str, Any]]:
    """200 requests that are wrong in one or several ways, always the same ones."""
    choose = random.Random(21)
    numbers = [-1, -2, 0x7FFFFFFF, 1 << 31, 1 << 32, 1 << 63, 1 << 64, -(1 << 63), 999_999, 3.5, "4", None, [1]]
    kinds = [None, "opaque_fd", "dma_buf_fd", "opaque_win32", "d3d12_heap", "d3d12_resource", "", "OPAQUE_FD", "nv", 3]
    sizes = [0, 1, 4096, 4097, -1, 1 << 57, (1 << 57) + 1, 1 << 63, (1 << 64) - 1, 1 << 64, "1", None, 1.0]
    files = ["memfd", "pipe", "folder", "null", "socket", "file", "eventfd", "closed"]
    requests = []
    for case in range(200):
        request: dict[str, Any] = {"kind": choose.choice(kinds), "size": choose.choice(sizes)}
        request["dedicated"] = choose.choice([False, True])
        handle = choose.choice(["fd", "fd", "file", "file", "handle", "name", "none", "both"])
        if handle == "fd":
            request["fd"] = choose.choice(numbers)
        elif handle == "file":
            request["fd"] = choose.choice(files)
        elif handle == "handle":
            request["handle"] = choose.choice(numbers)
        elif handle == "name":
            request["name"] = choose.choice(["", "a\0b", "Local\\x", "x" * 70_000, 5])
        elif handle == "both":
            request.update(fd=0, handle=1)
        request["case"] = case
        requests.append(request)
    return requests


def opened(kind: str) -> list[int]:
    if kind == "pipe":
        return list(os.pipe())
    if kind == "socket":
        one, two = socket.socketpair()
        return [one.detach(), two.detach()]
    if kind == "closed":
        fd = memfd(1)
        os.close(fd)
        return [fd]
    if kind == "eventfd":
        return [os.eventfd(0)] if hasattr(os, "eventfd") else [memfd(0)]
    paths = {"folder": "/", "null": "/dev/null", "file": sys.executable}
    return [os.open(paths[kind], os.O_RDONLY)] if kind in paths else [memfd(4096)]


@pytest.mark.parametrize("request_", wrong_descriptions(), ids=lambda request: str(request["case"]))
def test_wrong_descriptions(device: gpu_interop.Device, request_: dict[str, Any]) -> None:
    request = {key: value for key, value in request_.items() if key != "case"}
    files: list[int] = []
    names = ["memfd", "pipe", "folder", "null", "socket", "file", "eventfd", "closed"]
    if request.get("fd") in names:
        files = opened(request["fd"])
        request["fd"] = files[0]
    were_open = [is_open(fd) for fd in files]
    try:
        memory = device.import_memory(**request)
    except TYPED:
        assert [is_open(fd) for fd in files] == were_open
    else:
        # Some of them are right: an open memfd of this size.
        assert memory.size <= 4096 and files and not is_open(files[0])
        files = files[1:]
    for fd in files:
        if is_open(fd):
            os.close(fd)


def wrong_tensors() -> list[tuple[Any, ...]]:
    choose = random.Random(22)
    lengths = [0, 1, 3, 64, 65_536, 65_537, -1, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64, 2.0, "2", None]
    cases: list[tuple[Any, ...]] = []
    for _ in range(200):
        rank = choose.choice([0, 1, 2, 3, 3, 5, 65])
        shape = [choose.choice(lengths) for _ in range(rank)]
        strides = choose.choice([None, [choose.choice([*lengths, -3, -(1 << 63)]) for _ in range(rank)], [1]])
        dtype = choose.choice(
            ["int8", "float64", "complex128", "bfloat16", "void", "", "object", 7, None, numpy.float32]
        )
        cases.append(
            (shape, dtype, strides, choose.choice([0, 1, 8, 65_535, 65_536, 65_537, 1 << 63, -1, (1 << 64) - 1]))
        )
    return cases


def test_wrong_tensors(memory: gpu_interop.Memory) -> None:
    right = 0
    for shape, dtype, strides, offset in wrong_tensors():
        try:
            tensor = memory.tensor(shape, dtype, strides, offset)
        except TYPED:
            continue
        right += 1
        # Every element is inside the memory.
        view = numpy.from_dlpack(tensor) if tensor.dtype != "bfloat16" else None
        if view is not None and view.size:
            first, last = numpy.lib.array_utils.byte_bounds(view)
            assert memory.ptr <= first and last <= memory.ptr + memory.size
    assert 0 < right < 100


@pytest.mark.parametrize(
    ("strides", "offset"), [((-1,), 0), ((1,), 65_536 - 3), ((1 << 14,), 4), ((-1,), 2), ((1 << 62,), 0)]
)
def test_elements_past_the_memory_are_rejected(
    memory: gpu_interop.Memory, strides: tuple[int, ...], offset: int
) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="past the memory"):
        memory.tensor((4,), "uint8" if offset % 4 else "int32", strides, offset)


@pytest.mark.parametrize("length", [2**40, 2**62])
def test_long_sequences_do_not_exhaust_the_memory(
    context: vulkan.Context, memory: gpu_interop.Memory, length: int
) -> None:
    wrong: Any = range(length)
    with pytest.raises(gpu_interop.InvalidArgument, match="64 dimensions"):
        memory.tensor(wrong, "uint8")
    with pytest.raises(gpu_interop.InvalidArgument, match="different lengths"):
        memory.tensor((4,), "uint8", wrong)
    with pytest.raises(TypeError):
        context.record().submit(wait=wrong)
