"""Messages of errors: the names of Python, the timelines of a timeout, and classes of this module for wrong numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gpu_interop
import pytest
from gpu_interop import vulkan

#: Names of Rust: paths, dumps of structures, and types that Python has under another name or lacks.
RUST = [
    "::",
    " { ",
    "DevicePtr",
    "Raw",
    "Some(",
    "Owned",
    "Mipmapped",
    "ArrayShape",
    "ArrayUsage",
    "ImageSpec",
    "Extent3D",
    "DeviceLocal",
    "HostVisible",
    "HostSemaphore",
    "HostBackend",
    "map_mipmapped_array",
    "map_image_bytes",
    "trusted_peer(",
    "_from_raw",
    "`native`",
    "`dedicated`",
]


def failure(call: Callable[[], Any]) -> gpu_interop.Error:
    with pytest.raises(gpu_interop.Error) as caught:
        call()
    message = str(caught.value)
    found = [name for name in RUST if name in message]
    assert not found, f"{found} are names of Rust: {message}"
    return caught.value


def test_a_timeout_lists_the_timelines_that_the_stream_waits_for(
    context: vulkan.Context, device: gpu_interop.Device
) -> None:
    for timeline, origin in [(device.timeline(), "the host"), (context.timeline(device), "Vulkan")]:
        with device.stream() as stream:
            timeline.wait(stream, 9)
            for timeout in [0, 0.02, 0.06, 0.12]:
                error = failure(lambda: stream.synchronize(timeout=timeout))  # noqa: B023
                assert isinstance(error, gpu_interop.Timeout)
                message = str(error)
                assert message.startswith("Stream.synchronize: timeout: work is still pending on the stream")
                assert f" of {origin}: value 9; it is 0, and was last signalled here to 0" in message
                assert message.count("timeout:") == 2, message  # the class, and the value
            timeline.host_signal(9)
            stream.synchronize(timeout=10)


def test_a_stream_of_an_abandoned_timeline_fails_once(context: vulkan.Context, device: gpu_interop.Device) -> None:
    for timeline in [device.timeline(), context.timeline(device)]:
        with device.stream() as stream:
            timeline.wait(stream, 5)
            timeline.abandon("the renderer is gone")
            error = failure(lambda: stream.synchronize(timeout=10))  # noqa: B023
            assert isinstance(error, gpu_interop.Cancelled)
            assert str(error).count("cancelled") == 1, error
            assert "the timeline failed before: the renderer is gone" in str(error)
            stream.synchronize(timeout=10)
            failure(lambda: timeline.wait(stream, 9))  # noqa: B023
            failure(lambda: timeline.host_wait(9))  # noqa: B023


def test_sizes_beyond_the_memory_are_one_class(context: vulkan.Context, device: gpu_interop.Device) -> None:
    buffer = context.buffer(4096)
    messages = set()
    # Within the pages of the descriptor, and beyond.
    for size in [8192, 1 << 20]:
        fd = buffer.export().detach()
        error = failure(lambda: device.import_memory(fd=fd, size=size, kind="opaque_fd"))  # noqa: B023
        os.close(fd)
        assert isinstance(error, gpu_interop.InvalidArgument)
        messages.add(str(error).split("[")[0])
    assert len(messages) == 1, messages


def test_messages_have_no_names_of_rust(
    context: vulkan.Context, device: gpu_interop.Device, memory: gpu_interop.Memory
) -> None:
    stream = device.stream()
    timeline = device.timeline()
    optimal = context.image(16, 16, "rgba8_unorm")
    buffer = context.buffer(4096)
    imported = device.import_memory(optimal.export())
    calls: list[Callable[[], Any]] = [
        lambda: device.allocate(0),
        lambda: device.allocate(1 << 60),
        lambda: device.import_memory(fd=-1, size=4096),
        lambda: device.import_memory(fd=os.pipe()[0], size=4096),
        lambda: device.import_memory(fd=100_000, size=4096),
        lambda: device.import_memory(fd=0, size=0),
        lambda: device.import_memory(fd=0, size=4096, kind="opaque_win32"),
        lambda: device.import_memory(fd=0, size=4096, kind="opaque"),
        lambda: device.import_memory(buffer.export(), size=4096),
        lambda: memory.tensor(1 << 40, "float32"),
        lambda: memory.tensor(4, "float31"),
        lambda: memory.tensor(4, "float32", offset=2),
        lambda: memory.tensor(4, "float32", (1 << 40,)),
        lambda: imported.tensor((16, 16, 4), "uint8"),
        lambda: imported.ptr,
        lambda: optimal.row_pitch(),
        lambda: optimal.array(device),
        lambda: imported.array(),
        lambda: memory.array(),
        lambda: context.image(16, 16, "r8_unorm", linear=True).array(device),
        lambda: context.image(16, 16, "r8_unorm", layers=2, depth=2),
        lambda: context.image(0, 16, "rgba8_unorm"),
        lambda: context.image(1 << 30, 16, "rgba8_unorm"),
        lambda: context.image(16, 16, "rgba8_unorm", levels=99),
        lambda: context.image(16, 16, "rgba8"),
        lambda: context.image(16, 16, "rgba8_unorm", linear=True, levels=2, depth=1 << 20),
        lambda: context.buffer(0),
        lambda: context.buffer(1 << 60),
        lambda: context.buffer(64, exportable=False).export(),
        lambda: context.acquire(buffer),
        lambda: context.upload(buffer, b"x" * 8192),
        lambda: context.fill(buffer, 1, offset=2),
        lambda: context.release(optimal),
        lambda: context.import_buffer(memory.export()),
        lambda: stream.copy(memory.tensor(64, "uint8"), memory.tensor(64, "uint8", offset=32)),
        lambda: stream.copy(memory, memory.tensor(4, "uint8")),
        lambda: stream.fill(memory.tensor(6, "uint8", offset=1), 7, bits=32),
        lambda: stream.fill(memory, 256),
        lambda: stream.write(memory, b"abc"),
        lambda: timeline.signal(stream, 0),
        lambda: timeline.host_signal(0),
        lambda: timeline.host_wait(1, timeout=0),
        lambda: timeline.host_wait(1, timeout=-1),
        lambda: timeline.watch_process(0x7FFF_FFF0),
        lambda: gpu_interop.open(backend="cuda"),
        lambda: gpu_interop.open(backend="hip"),
        lambda: gpu_interop.open(5, backend="host"),
        lambda: gpu_interop.open(uuid="zzz"),
        lambda: device.export_tensor(b""),  # type: ignore[arg-type]
    ]
    for call in calls:
        failure(call)


class Tensor:
    """As torch's, by name."""


Tensor.__module__ = "torch"


def test_tensors_of_other_libraries_are_named(
    context: vulkan.Context, device: gpu_interop.Device, memory: gpu_interop.Memory
) -> None:
    stream, tensor = device.stream(), Tensor()
    calls: list[Callable[[], Any]] = [
        lambda: stream.copy(tensor, memory),  # type: ignore[arg-type]
        lambda: stream.copy(memory, tensor),  # type: ignore[arg-type]
        lambda: stream.read(tensor),  # type: ignore[arg-type]
    ]
    for call in calls:
        message = str(failure(call))
        assert "Memory, Tensor, Array or ArrayRegion" in message and "given: torch.Tensor" in message, message
        assert "device.allocate(size).tensor(shape, dtype)" in message and "from_dlpack(tensor)" in message
    message = str(failure(lambda: stream.fill(tensor, 0)))  # type: ignore[arg-type]
    assert "Array" not in message and "given: torch.Tensor" in message
    assert "given: torch.Tensor" in str(failure(lambda: device.export_tensor(tensor)))
    assert "given: torch.Tensor" in str(failure(lambda: context.release(tensor)))  # type: ignore[arg-type]
    assert "given: list" in str(failure(lambda: stream.copy(memory, [])))  # type: ignore[arg-type]
    buffer = context.buffer(64)
    for upload in (lambda: stream.write(memory, tensor), lambda: context.upload(buffer, tensor)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"not torch\.Tensor; pass tensor\.numpy\(\)") as caught:
            upload()
        assert isinstance(caught.value.__cause__, TypeError)


def test_wrong_numbers_are_errors_of_this_module(
    context: vulkan.Context, device: gpu_interop.Device, memory: gpu_interop.Memory
) -> None:
    stream, timeline = device.stream(), device.timeline()
    calls: list[Callable[[], Any]] = [
        lambda: device.allocate(-1),
        lambda: device.allocate(1 << 64),
        lambda: device.import_memory(fd=0, size=-1),
        lambda: device.timeline(-1),
        lambda: memory.tensor(4, "float32", offset=-4),
        lambda: timeline.wait(stream, -1),
        lambda: timeline.signal(stream, -1),
        lambda: timeline.host_wait(-1),
        lambda: timeline.host_signal(-1),
        lambda: stream.fill(memory, -1),
        lambda: context.buffer(-1),
        lambda: context.image(-1, 16, "rgba8_unorm"),
        lambda: context.fill(context.buffer(64), 1, offset=-4),
    ]
    for call in calls:
        assert isinstance(failure(call), gpu_interop.InvalidArgument)
    assert "pass an Export, or one of fd, handle and name" in str(failure(lambda: device.import_memory()))
    with pytest.raises(TypeError):
        device.allocate("64")  # type: ignore[arg-type]
