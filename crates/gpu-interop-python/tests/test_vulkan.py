"""Vulkan's context, and a device that is taken over by its handles."""

from __future__ import annotations

import gc
import os
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan

FORMATS = {
    "r8_unorm": ("uint8", 1),
    "rg8_unorm": ("uint8", 2),
    "rgba8_unorm": ("uint8", 4),
    "bgra8_unorm": ("uint8", 4),
    "r16_float": ("float16", 1),
    "rgba16_float": ("float16", 4),
    "r32_float": ("float32", 1),
    "rgba32_float": ("float32", 4),
    "r32_uint": ("uint32", 1),
}


@pytest.mark.parametrize("host_visible", [False, True])
@pytest.mark.parametrize("dedicated", [False, True])
def test_buffers(context: vulkan.Context, device: gpu_interop.Device, host_visible: bool, dedicated: bool) -> None:
    buffer = context.buffer(8192, host_visible=host_visible, dedicated=dedicated)
    assert buffer.size == 8192 <= buffer.allocation_size and buffer.handle and buffer.memory
    assert buffer.dedicated or not dedicated
    export = buffer.export()
    assert (export.kind, export.size, export.dedicated, export.native) == (
        "opaque_fd",
        buffer.allocation_size,
        buffer.dedicated,
        False,
    )
    context.upload(buffer, bytearray(range(256)) * 32)
    context.fill(buffer, 0x01020304, 256, 256)
    context.release(buffer)
    view = numpy.from_dlpack(device.import_memory(export).tensor(8192, "uint8"))
    assert (view[:256] == numpy.arange(256)).all() and (view[512:768] == numpy.arange(256)).all()
    assert (view[256:512].view("uint32") == 0x01020304).all()


@pytest.mark.parametrize(
    "data", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), numpy.frombuffer(b"abcd", "uint32")]
)
def test_uploads_take_any_buffer(context: vulkan.Context, data: Any) -> None:
    buffer = context.buffer(8, exportable=False)
    context.upload(buffer, data, 4)
    assert context.download(buffer, 4, 4) == b"abcd"


def test_what_is_not_exportable_says_so(context: vulkan.Context) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="exportable=False"):
        context.buffer(64, exportable=False).export()


def test_buffers_are_imported_from_another_context(context: vulkan.Context) -> None:
    other = vulkan.Context()
    buffer = context.buffer(4096)
    context.fill(buffer, 5)
    context.release(buffer)
    export = buffer.export()
    with pytest.raises(gpu_interop.InvalidArgument, match="larger"):
        other.import_buffer(export, 1 << 20)
    imported = other.import_buffer(export)
    assert export.closed and imported.size == buffer.allocation_size
    other.acquire(imported)
    assert set(numpy.frombuffer(other.download(imported), "uint32")) == {5}
    with pytest.raises(gpu_interop.InvalidArgument, match="imported"):
        imported.export()


def test_memory_of_the_host_backend_is_not_memory_of_lavapipe(
    context: vulkan.Context, memory: gpu_interop.Memory
) -> None:
    export = memory.export()
    with pytest.raises(gpu_interop.Error):
        context.import_buffer(export)
    assert not export.closed


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_images_keep_their_texels(context: vulkan.Context, name: str, linear: bool) -> None:
    dtype, channels = FORMATS[name]
    texels = (numpy.arange(24 * 10 * channels) % 200).astype(dtype).reshape(10, 24, channels)
    image = context.image(24, 10, name, linear=linear)
    assert (image.extent, image.format, image.levels) == ((24, 10, 1), name, 1) and image.handle
    context.initialize(image)
    context.upload(image, texels)
    back = numpy.frombuffer(context.download(image), dtype).reshape(texels.shape)
    numpy.testing.assert_array_equal(back, texels)


def test_a_linear_image_is_a_strided_tensor(context: vulkan.Context, device: gpu_interop.Device) -> None:
    texels = numpy.random.default_rng(1).integers(0, 255, (30, 50, 4), "uint8")
    image = context.image(50, 30, "rgba8_unorm", linear=True)
    context.initialize(image)
    context.upload(image, texels)
    context.release(image)
    offset, pitch = image.row_pitch()
    memory = device.import_memory(image.export())
    view = numpy.from_dlpack(memory.tensor((30, 50, 4), "uint8", (pitch, 4, 1), offset))
    numpy.testing.assert_array_equal(view, texels)
    view[:] = 255 - texels
    context.acquire(image)
    back = numpy.frombuffer(context.download(image), "uint8").reshape(texels.shape)
    numpy.testing.assert_array_equal(back, 255 - texels)


def test_an_image_of_optimal_tiling_is_no_tensor(context: vulkan.Context, device: gpu_interop.Device) -> None:
    """Its texels are in an order that only Vulkan knows."""
    image = context.image(100, 50, "rgba8_unorm")
    context.initialize(image)
    context.release(image)
    memory = device.import_memory(image.export())
    for use in (lambda: memory.tensor((50, 100, 4), "uint8"), lambda: memory.ptr):
        with pytest.raises(gpu_interop.Error, match="linear"):
            use()
    with pytest.raises(gpu_interop.Error, match="linear"):
        device.default_stream.read(memory)


def test_buffers_and_images_copy_to_each_other(context: vulkan.Context) -> None:
    source, target = context.buffer(4096), context.buffer(4096)
    image = context.image(32, 32, "rgba8_unorm")
    words = numpy.arange(1024, dtype="uint32")
    context.upload(source, words)
    recording = context.record().initialize(image).copy_to_image(source, image).copy_from_image(image, target)
    assert len(recording) == 3
    submission = recording.submit()
    submission.wait(10)
    assert submission.finished
    assert context.download(target) == words.tobytes()


def test_a_recording_is_submitted_again(context: vulkan.Context) -> None:
    buffer = context.buffer(64)
    recording = context.record().fill(buffer, 1, 0, 32).fill(buffer, 2, 32)
    for _ in range(3):
        context.fill(buffer, 9)
        recording.submit().wait()
        assert numpy.frombuffer(context.download(buffer), "uint32").tolist() == [1] * 8 + [2] * 8


def test_the_timeout_of_the_context_is_used(device: gpu_interop.Device) -> None:
    context = vulkan.Context(timeout=0.1)
    buffer, timeline = context.buffer(64), context.timeline(device)
    pending = context.record().fill(buffer, 1).submit(wait=[(timeline, 1)])
    with pytest.raises(gpu_interop.Timeout, match="100ms"):
        context.fill(buffer, 2)
    assert not pending.finished
    timeline.host_signal(1)
    pending.wait(10)


def test_owners_are_tracked(context: vulkan.Context) -> None:
    buffer = context.buffer(64)
    with pytest.raises(gpu_interop.InvalidArgument):
        context.acquire(buffer)
    context.release(buffer)
    for wrong in [lambda: context.fill(buffer, 1), lambda: context.download(buffer), lambda: context.release(buffer)]:
        with pytest.raises(gpu_interop.InvalidArgument):
            wrong()
    context.acquire(buffer)
    context.fill(buffer, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda context: context.buffer(0),
        lambda context: context.buffer(64, kind="d3d12_heap"),
        lambda context: context.buffer(64, kind="x"),
        lambda context: context.image(0, 1, "r8_unorm"),
        lambda context: context.image(1, 1, "rgb8"),
        lambda context: context.image(4, 4, "r8_unorm", levels=9),
        lambda context: context.fill(context.buffer(64), 1, 2),
        lambda context: context.fill(context.buffer(64), 1, 64),
        lambda context: context.download(context.buffer(64), 65),
        lambda context: context.download(context.buffer(64), offset=1 << 63),
        lambda context: context.upload(context.buffer(64), bytes(65)),
        lambda context: context.record().acquire(3),
        lambda context: context.record().copy(context.buffer(64), context.buffer(64), size=65).submit(),
        lambda context: vulkan.Context(99),
        lambda context: vulkan.Context(queue="x"),
        lambda context: vulkan.Context(timeout=-1),
    ],
)
def test_wrong_requests_are_typed(context: vulkan.Context, wrong: Any) -> None:
    with pytest.raises((gpu_interop.InvalidArgument, gpu_interop.Unsupported, gpu_interop.NoDevice)):
        wrong(context)


@pytest.mark.parametrize("wrong", ["x", 1.5, -1, 1 << 64, None, b"", object()])
def test_wrong_types_are_typed(context: vulkan.Context, wrong: Any) -> None:
    with pytest.raises((TypeError, OverflowError, gpu_interop.Error)):
        context.buffer(wrong)
    with pytest.raises((TypeError, OverflowError, gpu_interop.Error)):
        context.record().fill(wrong, 1).submit()
    with pytest.raises((TypeError, OverflowError, gpu_interop.Error)):
        context.fill(context.buffer(64), wrong, 0, 64 if wrong is not None else None)


@pytest.mark.parametrize("size", [1 << 48, 1 << 50, 1 << 57, 1 << 63, (1 << 64) - 1])
def test_impossible_sizes_are_typed(context: vulkan.Context, device: gpu_interop.Device, size: int) -> None:
    with pytest.raises(gpu_interop.Error):
        context.buffer(size)
    with pytest.raises(gpu_interop.Error):
        device.allocate(size)
    with pytest.raises((gpu_interop.Error, MemoryError, OverflowError)):
        context.download(context.buffer(64), size)


def test_timelines_of_the_host_do_not_reach_vulkan(context: vulkan.Context, device: gpu_interop.Device) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match=r"Context\.timeline"):
        context.record().submit(signal=[(device.timeline(), 1)])


def handles(context: vulkan.Context) -> dict[str, Any]:
    return {
        "instance": context.instance_handle,
        "physical_device": context.physical_device_handle,
        "device": context.device_handle,
        "queue_family": context.queue_family,
        "owner": context,
    }


def test_a_device_is_taken_over(device: gpu_interop.Device) -> None:
    context = vulkan.Context()
    taken = vulkan.Device.from_handles(**handles(context))
    assert taken.identity == context.identity and taken.queue_family == context.queue_family
    buffer = taken.buffer(4096)
    other = taken.context()
    # Each keeps the owner.
    del context, taken
    gc.collect()
    other.fill(buffer, 3)
    other.release(buffer)
    view = numpy.from_dlpack(device.import_memory(buffer.export()).tensor(1024, "uint32"))
    assert (view == 3).all()


def test_memory_of_the_application_is_exported(context: vulkan.Context, device: gpu_interop.Device) -> None:
    taken = vulkan.Device.from_handles(**handles(context))
    buffer = context.buffer(4096)
    context.fill(buffer, 0x61616161)
    context.release(buffer)
    export = taken.export_memory(buffer.memory, buffer.allocation_size, dedicated=buffer.dedicated)
    memory = device.import_memory(export)
    assert bytes(memory.tensor(4, "uint8").view()) == b"aaaa"
    assert memory.tensor(4, "uint8").device.backend == "host"


def test_timelines_of_a_taken_device(context: vulkan.Context, device: gpu_interop.Device) -> None:
    taken = vulkan.Device.from_handles(**handles(context))
    timeline, stream = taken.timeline(device, 4), device.stream()
    timeline.wait(stream, 5)
    timeline.signal(stream, 6)
    buffer = context.buffer(64)
    context.record().fill(buffer, 1).submit(signal=[(timeline, 5)])
    timeline.host_wait(6, 10)


def test_recordings_order_their_commands_and_count_bytes(context: vulkan.Context) -> None:
    """No barrier of the caller; `offset` is the first byte in the buffer."""
    source, target = context.buffer(1024), context.buffer(1024)
    image = context.image(4, 4, "rgba16_float")
    recording = context.record().initialize(image).fill(target, 7).fill(source, 1).fill(source, 2, 256, 128)
    recording.copy_to_image(source, image, offset=256).copy_from_image(image, target, offset=64).submit().wait(60)
    expected = numpy.full(256, 7, "uint32")
    expected[16:48] = 2
    assert context.download(target) == expected.tobytes()


@pytest.mark.parametrize("missing", ["instance", "physical_device", "device"])
def test_null_handles_are_rejected(context: vulkan.Context, missing: str) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match=missing):
        vulkan.Device.from_handles(**{**handles(context), missing: 0})


@pytest.mark.parametrize("wrong", [-1, 1 << 64, "x", None, 1.5])
@pytest.mark.parametrize("name", ["instance", "physical_device", "device", "queue_family"])
def test_handles_are_integers(context: vulkan.Context, name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, OverflowError)):
        vulkan.Device.from_handles(**{**handles(context), name: wrong})


def test_absent_queue_families_are_rejected(context: vulkan.Context) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="queue family"):
        vulkan.Device.from_handles(**{**handles(context), "queue_family": 77})


def test_null_objects_are_rejected(context: vulkan.Context, device: gpu_interop.Device) -> None:
    taken = vulkan.Device.from_handles(**handles(context))
    with pytest.raises(gpu_interop.InvalidArgument, match="null"):
        taken.export_memory(0, 64)
    with pytest.raises(gpu_interop.InvalidArgument, match="null"):
        taken.timeline_from_handle(device, 0)
    with pytest.raises(gpu_interop.InvalidArgument, match="null"):
        taken.context(0)
    with pytest.raises(gpu_interop.InvalidArgument, match="null"):
        vulkan.Device.from_handles(**handles(context), get_instance_proc_addr=0)


def test_extensions_are_named() -> None:
    assert "VK_KHR_external_memory_fd" in vulkan.Device.required_extensions()
    assert "VK_KHR_external_semaphore_fd" in vulkan.Device.optional_extensions()


def test_the_cpu_maps_no_arrays(context: vulkan.Context, device: gpu_interop.Device) -> None:
    image = context.image(16, 16, "rgba8_unorm")
    fds = len(os.listdir("/proc/self/fd"))
    for use in (lambda: image.array(device), lambda: device.import_memory(image.export()).array()):
        with pytest.raises(gpu_interop.Unsupported, match="linear"):
            use()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == fds


@pytest.mark.parametrize("arguments", [{"layers": 0}, {"layers": -1}, {"layers": 2, "depth": 2}])
def test_wrong_layers(context: vulkan.Context, arguments: dict[str, int]) -> None:
    with pytest.raises(gpu_interop.Error):
        context.image(8, 8, "r8_unorm", **arguments)  # type: ignore[arg-type]
    image = context.image(8, 8, "r8_unorm", layers=3)
    context.initialize(image)
    context.upload(image, bytes(range(64)), layer=2)
    assert context.download(image, layer=2) == bytes(range(64))
    for use in (lambda: context.download(image, layer=3), lambda: context.upload(image, bytes(64), layer=3)):
        with pytest.raises(gpu_interop.InvalidArgument):
            use()
