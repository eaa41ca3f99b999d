"""The CUDA backend: on an NVIDIA GPU, or on this project's simulator of its driver (GPU_INTEROP_CUDA_LIBRARY)."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import gpu_interop
import numpy
import pytest
from conftest import capsule_name, capsule_struct, take
from exchange import Api, delete, prototype
from gpu_interop import vulkan
from test_import import TYPED, is_open, opened, wrong_descriptions

SIZE = 1 << 16


@pytest.fixture(autouse=True)
def cuda(device: gpu_interop.Device) -> None:
    if device.backend != "cuda":
        if os.environ.get("GPU_INTEROP_REQUIRE_CUDA"):
            pytest.fail(f"the device is not one of CUDA: {gpu_interop.backends()}")
        pytest.skip("the device is not one of CUDA")


def words(device: gpu_interop.Device, memory: gpu_interop.Memory) -> set[int]:
    return set(numpy.frombuffer(device.stream().read(memory), "uint32").tolist())


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", "bfloat16", "int64"])
@pytest.mark.parametrize("offset", [0, 4096])
def test_tensors_are_memory_of_cuda(memory: gpu_interop.Memory, dtype: str, offset: int) -> None:
    tensor = memory.tensor((16, 8), dtype, (1, 16), offset)
    assert tensor.__dlpack_device__() == (2, memory.device.ordinal)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    inner = capsule_struct(capsule).tensor
    assert (inner.device_type, inner.device_id) == (2, memory.device.ordinal)
    assert inner.data == tensor.ptr == memory.ptr + offset
    assert capsule_name(tensor.__dlpack__()) == b"dltensor"


def test_the_cuda_array_interface(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    stream = device.stream()
    tensor = memory.tensor((4, 4), "float32", (8, 2), 64, readonly=True, stream=stream)
    assert tensor.__cuda_array_interface__ == {
        "shape": (4, 4),
        "typestr": "<f4",
        "data": (memory.ptr + 64, True),
        "strides": (32, 8),
        "version": 3,
        "stream": stream.ptr,
    }
    packed = memory.tensor((4,), "uint8").__cuda_array_interface__
    assert packed["strides"] is None and packed["data"] == (memory.ptr, False)
    assert not hasattr(memory.tensor(4, "bfloat16"), "__cuda_array_interface__")


def test_the_host_cannot_see_the_memory(memory: gpu_interop.Memory) -> None:
    tensor = memory.tensor(4, "uint8")
    assert not hasattr(tensor, "__array_interface__")
    with pytest.raises(BufferError, match="GPU"):
        tensor.view()
    for arguments in [{"copy": True}, {"dl_device": (1, 0)}]:
        with pytest.raises(BufferError):
            tensor.__dlpack__(**arguments)


@pytest.mark.parametrize("stream", [0, -2, -100])
def test_streams_that_do_not_exist(memory: gpu_interop.Memory, stream: int) -> None:
    with pytest.raises(ValueError, match="stream"):
        memory.tensor(4, "uint8").__dlpack__(stream=stream)


@pytest.mark.parametrize("stream", [None, 1, 2, -1])
def test_streams_that_always_exist(device: gpu_interop.Device, memory: gpu_interop.Memory, stream: int | None) -> None:
    if stream == 2 and "sim-cuda" in device.identity.name:
        pytest.skip("the simulator has no default streams of threads")
    device.default_stream.fill(memory, 1)
    memory.tensor(4, "uint8").__dlpack__(stream=stream)


@pytest.mark.parametrize("ordered", [True, False])
def test_the_consumers_stream_waits(device: gpu_interop.Device, memory: gpu_interop.Memory, ordered: bool) -> None:
    producer, consumer, timeline = device.stream(), device.stream(), device.timeline()
    seen = device.allocate(memory.size)
    for target in (memory, seen):
        producer.fill(target, 0x01010101, bits=32)
    producer.synchronize()
    # The producer is late.
    timeline.wait(producer, 1)
    producer.fill(memory, 0x02020202, bits=32)
    capsule = memory.tensor(16, "uint8", stream=producer).__dlpack__(stream=consumer.ptr if ordered else -1)
    consumer.copy(seen, memory)
    if not ordered:
        consumer.synchronize(10)
    timeline.host_signal(1)
    consumer.synchronize(10)
    assert words(device, seen) == {0x02020202 if ordered else 0x01010101}
    producer.synchronize(10)
    del capsule


class Foreign:
    """A stream of another library."""

    def __init__(self, stream: gpu_interop.Stream, protocol: str) -> None:
        self._stream = stream
        if protocol == "__cuda_stream__":
            self.__class__ = type("Foreign", (Foreign,), {protocol: lambda self: (0, self._stream.ptr)})
        else:
            setattr(self, protocol, stream.ptr)

    def wait_event(self, event: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("protocol", ["cuda_stream", "ptr", "__cuda_stream__", "integer", "own"])
def test_timelines_take_streams_of_others(
    context: vulkan.Context, device: gpu_interop.Device, memory: gpu_interop.Memory, protocol: str
) -> None:
    own, timeline, done = device.stream(), context.timeline(device), context.timeline(device)
    stream: Any = {"own": own, "integer": own.ptr}.get(protocol) or Foreign(own, protocol)
    own.fill(memory, 1)
    own.synchronize()
    for value in (1, 2, 3):
        timeline.wait(stream, value)
        own.fill(memory, value + 1)
        done.signal(stream, value)
        with pytest.raises(gpu_interop.Timeout):
            done.host_wait(value, 0.01)
        context.record().submit(signal=[(timeline, value)])
        done.host_wait(value, 10)
        assert words(device, memory) == {(value + 1) * 0x01010101}
    del stream
    device.collect()


@pytest.mark.parametrize("protocol", ["cuda_stream", "ptr", "__cuda_stream__", "integer"])
def test_the_default_stream_of_a_thread_is_refused(device: gpu_interop.Device, protocol: str) -> None:
    """It is another stream on every thread: memory would be freed under its pending work."""
    per_thread: Any = Parts(ptr=2)  # cupy.cuda.Stream.ptds
    stream: Any = 2 if protocol == "integer" else Foreign(per_thread, protocol)
    timeline = device.timeline()
    for use in (timeline.wait, timeline.signal):
        with pytest.raises(gpu_interop.InvalidArgument, match="another stream on every thread.*gpu_interop.Stream"):
            use(stream, 1)
    # Nothing was enqueued.
    assert timeline.value == 0


@pytest.mark.parametrize("protocol", ["cuda_stream", "integer"])
def test_a_stream_of_a_capture_is_refused(device: gpu_interop.Device, protocol: str) -> None:
    driver = ctypes.CDLL(os.environ.get("GPU_INTEROP_CUDA_LIBRARY", "libcuda.so.1"))
    own, timeline = device.stream(), device.timeline(1)
    stream: Any = own.ptr if protocol == "integer" else Foreign(own, protocol)
    # Known before the capture: the check is that of each use.
    timeline.wait(stream, 1)
    own.synchronize(10)
    raw, graph, relaxed = ctypes.c_void_p(own.ptr), ctypes.c_void_p(), 2
    assert driver.cuCtxSetCurrent(ctypes.c_void_p(device.context)) == 0
    assert driver.cuStreamBeginCapture_v2(raw, relaxed) == 0
    for use, value in ((timeline.wait, 1), (timeline.signal, 2)):
        with pytest.raises(gpu_interop.InvalidArgument, match="a graph is being captured"):
            use(stream, value)
    # The capture is intact, and empty.
    assert driver.cuStreamEndCapture(raw, ctypes.byref(graph)) == 0
    timeline.signal(stream, 2)
    timeline.host_wait(2, 10)
    assert driver.cuGraphDestroy(graph) == 0 and driver.cuCtxSetCurrent(None) == 0


class Parts:
    """An object with these attributes."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


#: How streams of other libraries say the device that they are on.
SAYS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "torch": lambda number: {"device_index": number, "device": Parts(type="cuda", index=number)},
    "torch's device": lambda number: {"device": Parts(type="cuda", index=number)},
    "cupy": lambda number: {"device_id": number},
    "cuda.core": lambda number: {"device": Parts(device_id=number)},
}


def on_device(stream: gpu_interop.Stream, protocol: str, parts: dict[str, Any]) -> Foreign:
    foreign = Foreign(stream, protocol)
    foreign.__dict__.update(parts)
    return foreign


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("protocol", ["cuda_stream", "ptr", "__cuda_stream__"])
def test_streams_of_another_gpu_are_rejected(device: gpu_interop.Device, protocol: str, says: str) -> None:
    assert device.ordinal is not None
    own, timeline = device.stream(), device.timeline(1)
    # Also of a stream that was used before under the same number.
    timeline.wait(on_device(own, protocol, SAYS[says](device.ordinal)), 1)
    other = on_device(own, protocol, SAYS[says](device.ordinal + 1))
    for use in (timeline.wait, timeline.signal):
        with pytest.raises(gpu_interop.DeviceMismatch, match=r"gpu_interop\.open\(") as caught:
            use(other, 1)
        assert f"stream's device: {device.ordinal + 1}" in str(caught.value)
        assert f"timeline's device: {device.ordinal}" in str(caught.value)
        assert caught.value.device is not None
    assert timeline.value == 1
    own.synchronize(10)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        # CuPy's default stream, and an external one without a device.
        {"device_id": -1},
        # torch.device("cuda")
        {"device": Parts(type="cuda", index=None)},
        {"device": "cuda", "device_index": None},
    ],
)
def test_streams_may_leave_their_device_unsaid(device: gpu_interop.Device, parts: dict[str, Any]) -> None:
    own, timeline = device.stream(), device.timeline()
    timeline.signal(on_device(own, "ptr", parts), 1)
    timeline.host_wait(1, 10)


def test_an_address_of_something_else_is_no_stream(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    timeline = device.timeline()
    # As CuPy's MemoryPointer and Event.
    for given in (memory, Parts(ptr=memory.ptr, mem=None), Parts(ptr=memory.ptr, synchronize=None)):
        with pytest.raises(gpu_interop.InvalidArgument, match="not a stream"):
            timeline.signal(given, 1)
    assert timeline.value == 0


def test_many_streams_of_others(device: gpu_interop.Device) -> None:
    timeline = device.timeline(1)
    for _ in range(40):
        timeline.wait(Foreign(device.stream(), "ptr"), 1)
    gc.collect()
    device.collect()


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
def test_vulkan_and_cuda_share(context: vulkan.Context, device: gpu_interop.Device, dtype: str) -> None:
    values = (numpy.arange(SIZE) % 100).astype(dtype)
    buffer = context.buffer(values.nbytes)
    context.upload(buffer, values)
    context.release(buffer)
    memory = device.import_memory(buffer.export())
    stream = device.stream()
    assert stream.read(memory.tensor(SIZE, dtype)) == values.tobytes()
    stream.write(memory.tensor(SIZE, dtype), values[::-1])
    context.acquire(buffer)
    assert context.download(buffer) == values[::-1].tobytes()


def test_a_uuid_is_that_of_nvidia_smi(device: gpu_interop.Device) -> None:
    for prefix in ("GPU-", ""):
        assert gpu_interop.open(uuid=f"{prefix}{device.identity.uuid}").ordinal == device.ordinal


@pytest.mark.parametrize("stream", [None, 1])
def test_the_default_streams_work_is_seen_by_a_consumer(
    device: gpu_interop.Device, memory: gpu_interop.Memory, stream: int | None
) -> None:
    """A tensor without a stream of its own follows the device's default stream."""
    timeline, seen = device.timeline(), device.allocate(memory.size)
    device.default_stream.fill(memory, 0x01010101, bits=32)
    device.default_stream.synchronize(10)
    timeline.wait(None, 1)
    device.default_stream.fill(memory, 0x02020202, bits=32)
    consumer = device.stream()
    capsule = memory.tensor(16, "uint8").__dlpack__(stream=consumer.ptr)
    consumer.copy(seen, memory)
    timeline.host_signal(1)
    consumer.synchronize(10)
    assert words(device, seen) == {0x02020202}
    # The driver's default stream, which the tensor's consumer may also be: the call itself does not wait.
    memory.tensor(4, "uint8").__dlpack__(stream=stream)
    del capsule


def test_memory_of_cuda_is_exported(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    export = memory.export()
    assert export.native and export.size == memory.size
    imported = device.import_memory(export)
    stream = device.stream()
    stream.fill(imported, 9)
    assert stream.read(memory) == b"\x09" * memory.size


def test_deleters_run_on_any_thread_after_their_owners(context: vulkan.Context) -> None:
    deleters, fds = [], len(os.listdir("/proc/self/fd"))
    device = gpu_interop.open(matching=context)
    for _ in range(32):
        memory = device.import_memory(context.buffer(4096).export())
        deleters.append(take(memory.tensor(16, "uint8").__dlpack__(stream=-1))[1])
        memory.close()
    device.close()
    del memory, device
    gc.collect()
    threads = [threading.Thread(target=delete) for delete in deleters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(os.listdir("/proc/self/fd")) <= fds + 1


@pytest.mark.parametrize("request_", wrong_descriptions(), ids=lambda request: str(request["case"]))
def test_wrong_descriptions(device: gpu_interop.Device, request_: dict[str, Any]) -> None:
    request = {key: value for key, value in request_.items() if key != "case"}
    # A memfd is memory for the simulator, and for a driver a descriptor that it may reject.
    if request.get("fd") == "memfd":
        request["fd"] = "pipe"
    names = ["pipe", "folder", "null", "socket", "file", "eventfd", "closed"]
    files = opened(request["fd"]) if request.get("fd") in names else []
    if files:
        request["fd"] = files[0]
    were_open = [is_open(fd) for fd in files]
    with pytest.raises(TYPED):
        device.import_memory(**request)
    assert [is_open(fd) for fd in files] == were_open
    for fd, was_open in zip(files, were_open):
        if was_open:
            os.close(fd)


@pytest.mark.parametrize("function", ["managed", "plain"])
def test_the_c_exchange_api_orders_the_default_stream(
    device: gpu_interop.Device, memory: gpu_interop.Memory, function: str
) -> None:
    driver = ctypes.CDLL(os.environ.get("GPU_INTEROP_CUDA_LIBRARY", "libcuda.so.1"))
    assert driver.cuCtxSetCurrent(ctypes.c_void_p(device.context)) == 0
    api, stream, timeline = Api(gpu_interop.Tensor), device.stream(), device.timeline()
    tensor = memory.tensor(16, "uint8", stream=stream)
    timeline.wait(stream, 1)
    stream.fill(memory, 7)
    assert driver.cuStreamQuery(None) == 0 and api.stream(*tensor.__dlpack_device__()) is None
    made = getattr(api, function)(tensor)
    # The host did not wait, and the default stream does.
    assert driver.cuStreamQuery(None) == 600
    timeline.host_signal(1)
    assert driver.cuStreamSynchronize(None) == 0 and words(device, memory) == {0x07070707}
    if function == "managed":
        assert made.tensor.device_type == 2
        delete(made)
    assert api.object(api.allocate(prototype([8], 2, 32, (2, device.ordinal or 0)))).device.backend == "cuda"
    assert driver.cuCtxSetCurrent(None) == 0
