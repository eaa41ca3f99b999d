"""Timelines: streams, the host, Vulkan and asyncio wait for each other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan


@pytest.fixture(params=["host", "vulkan"])
def timeline(
    request: pytest.FixtureRequest, context: vulkan.Context, device: gpu_interop.Device
) -> gpu_interop.Timeline:
    return device.timeline() if request.param == "host" else context.timeline(device)


def test_the_host_signals_and_waits(timeline: gpu_interop.Timeline) -> None:
    assert timeline.value == 0
    timeline.host_signal(3)
    timeline.host_wait(3)
    timeline.host_wait(2, timeout=0)
    assert timeline.value == 3
    with pytest.raises(gpu_interop.InvalidArgument, match="only grows"):
        timeline.host_signal(3)


def test_streams_wait_and_signal(
    timeline: gpu_interop.Timeline, context: vulkan.Context, device: gpu_interop.Device
) -> None:
    # One timeline for each direction.
    done = context.timeline(device)
    memory, stream = device.allocate(4096), device.stream()
    word = memory.tensor(1, "uint32", stream=stream)
    timeline.wait(stream, 1)
    stream.fill(word, 5, bits=32)
    done.signal(stream, 2)
    with pytest.raises(gpu_interop.Timeout) as caught:
        done.host_wait(2, timeout=0.05)
    assert "has not reached" in str(caught.value) and "50ms" in str(caught.value)
    assert not stream.idle
    with pytest.raises(gpu_interop.Timeout):
        stream.synchronize(0.01)
    timeline.host_signal(1)
    done.host_wait(2, timeout=10)
    assert numpy.asarray(word)[0] == 5
    stream.synchronize()


def test_the_cost_is_measured(timeline: gpu_interop.Timeline, device: gpu_interop.Device) -> None:
    timeline.host_signal(1)
    assert timeline._cost(device.stream(), 1, 10) > 0
    timeline.host_wait(11, 10)


def test_none_is_the_default_stream(device: gpu_interop.Device) -> None:
    timeline = device.timeline(7)
    timeline.wait(None, 7)
    timeline.signal(None, 8)
    timeline.host_wait(8, 10)
    assert device.default_stream.ptr == device.default_stream.ptr


@pytest.mark.parametrize("stream", [1, 0x7F0000000000, True, 1.5, "stream", object()])
def test_foreign_streams_are_rejected_on_the_cpu(timeline: gpu_interop.Timeline, stream: Any) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="stream"):
        timeline.wait(stream, 1)
    with pytest.raises(gpu_interop.InvalidArgument, match="stream"):
        timeline.signal(stream, 1)


@pytest.mark.parametrize("attribute", ["cuda_stream", "ptr", "__cuda_stream__"])
def test_streams_of_others_are_recognised(timeline: gpu_interop.Timeline, attribute: str) -> None:
    """The host backend recognises the protocols, and rejects them."""
    value = (lambda self: (0, 64)) if attribute.startswith("_") else 64
    stream = type("Stream", (), {attribute: value, "wait_event": None})()
    with pytest.raises(gpu_interop.InvalidArgument, match="no streams of other libraries"):
        timeline.wait(stream, 1)


def test_streams_of_another_device_are_rejected(timeline: gpu_interop.Timeline) -> None:
    stream = gpu_interop.open(backend="host").stream()
    with pytest.raises(gpu_interop.InvalidArgument, match="another device"):
        timeline.wait(stream, 1)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_timeouts_are_seconds(timeline: gpu_interop.Timeline, timeout: float) -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="timeout"):
        timeline.host_wait(1, timeout)


@pytest.mark.parametrize("what", ["host_wait", "synchronize", "submission"])
def test_timeouts_last_as_long_as_they_say(
    timeline: gpu_interop.Timeline, context: vulkan.Context, device: gpu_interop.Device, what: str
) -> None:
    stream, other = device.stream(), context.timeline(device)
    timeline.wait(stream, 1)
    submission = context.record().submit(wait=[(other, 1)])
    waits = {"host_wait": lambda t: timeline.host_wait(1, t), "synchronize": stream.synchronize}
    start = time.monotonic()
    with pytest.raises(gpu_interop.Timeout):
        waits.get(what, submission.wait)(0.06)
    lasted = time.monotonic() - start
    timeline.host_signal(1)
    other.host_signal(1)
    assert 0.06 <= lasted < 5
    submission.wait(10)


def test_a_wait_releases_the_gil(timeline: gpu_interop.Timeline) -> None:
    done = threading.Event()

    def wait() -> None:
        timeline.host_wait(1)
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    count = 0
    start = time.monotonic()
    while time.monotonic() - start < 0.2:
        count += 1
    assert count > 1000 and not done.is_set()
    timeline.host_signal(1)
    thread.join(10)
    assert done.is_set()


@pytest.mark.parametrize(
    "wait",
    [
        "timeline.host_wait(1)",
        "stream.synchronize()",
        "submission.wait()",
        "stream.read(memory)",
        "stream.write(memory, bytes(4096))",
    ],
)
def test_a_wait_honours_control_c(wait: str) -> None:
    # A shell's background jobs ignore the signal, and so do their children.
    code = f"""
import gpu_interop, signal
from gpu_interop import vulkan
signal.signal(signal.SIGINT, signal.default_int_handler)
context = vulkan.Context()
device = gpu_interop.open(matching=context)
timeline, stream = context.timeline(device), device.stream()
timeline.wait(stream, 1)
memory = device.allocate(4096)
buffer = context.buffer(64)
submission = context.record().fill(buffer, 1).submit(wait=[(timeline, 1)])
print("waiting", flush=True)
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
timeline.host_signal(1)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        start = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - start < 20
        assert process.wait(20) == 0
        watchdog.cancel()


def test_asyncio_awaits_values(timeline: gpu_interop.Timeline) -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def reach(value: int) -> None:
            await timeline.reached(value)
            order.append(value)

        tasks = {value: asyncio.ensure_future(reach(value)) for value in (3, 1, 2)}
        for value in (1, 2, 3):
            await asyncio.sleep(0.02)
            timeline.host_signal(value)
            await asyncio.wait_for(tasks[value], 10)
        await timeline.reached(2)
        return order

    assert asyncio.run(main()) == [1, 2, 3]


def test_an_awaited_value_can_be_cancelled(timeline: gpu_interop.Timeline) -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(timeline.reached(1), 0.05)
        timeline.host_signal(1)
        await timeline.reached(1)

    asyncio.run(main())


def test_a_failed_timeline_raises(timeline: gpu_interop.Timeline, device: gpu_interop.Device) -> None:
    async def main() -> None:
        waiting = asyncio.ensure_future(timeline.reached(9))
        await asyncio.sleep(0.02)
        timeline.abandon("the renderer has ended")
        with pytest.raises(gpu_interop.Cancelled, match="the renderer has ended"):
            await asyncio.wait_for(waiting, 10)

    asyncio.run(main())
    with pytest.raises(gpu_interop.Cancelled, match="the renderer has ended"):
        timeline.host_wait(9)
    with pytest.raises(gpu_interop.Cancelled):
        timeline.wait(device.stream(), 9)


def test_a_process_that_ended_is_noticed(timeline: gpu_interop.Timeline) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    timeline.watch_process(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)
    with pytest.raises(gpu_interop.Error):
        timeline.host_wait(1, 10)


def test_an_awaited_value_notices_that_the_process_ended(timeline: gpu_interop.Timeline) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    timeline.watch_process(process.pid)

    async def main() -> None:
        waiting = asyncio.ensure_future(timeline.reached(1))
        await asyncio.sleep(0.05)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
        with pytest.raises(gpu_interop.Cancelled, match="process"):
            await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_the_default_streams_work_is_seen_by_numpy(device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    """A tensor without a stream of its own follows the device's default stream: `from_dlpack` waits for it."""
    timeline, tensor = device.timeline(), memory.tensor(16, "uint8")
    consumers = {
        "from_dlpack": lambda: numpy.from_dlpack(tensor),
        "asarray": lambda: numpy.asarray(tensor),
        "copy": lambda: numpy.from_dlpack(tensor, copy=True),
        "view": lambda: numpy.frombuffer(tensor.view(), "uint8"),
    }
    for value, (name, consume) in enumerate(consumers.items(), 1):
        timeline.wait(None, value)
        device.default_stream.fill(memory, value)
        # The host signals later, from another thread.
        signaller = threading.Timer(0.05, timeline.host_signal, [value])
        signaller.start()
        seen = consume()[:16].copy()
        signaller.join()
        assert (seen == value).all(), (name, seen)


def test_one_thread_serves_all_awaited_values(context: vulkan.Context, device: gpu_interop.Device) -> None:
    timelines = [context.timeline(device) for _ in range(8)]

    def threads() -> int:
        names = []
        for task in os.listdir("/proc/self/task"):
            # A thread of an earlier test may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/self/task/{task}/comm") as comm:
                    names.append(comm.read().strip())
        return sum(name.startswith("gpu-interop asy") for name in names)

    # Threads of earlier tests end within a second.
    before = threads()

    async def main() -> int:
        tasks = [asyncio.ensure_future(timeline.reached(value)) for timeline in timelines for value in (1, 2, 3)]
        await asyncio.sleep(0.1)
        running = threads()
        for timeline in timelines:
            timeline.host_signal(3)
        await asyncio.wait_for(asyncio.gather(*tasks), 10)
        return running

    assert asyncio.run(main()) <= before + 1


@pytest.mark.parametrize("rounds", [200])
def test_vulkan_and_a_stream_alternate(context: vulkan.Context, device: gpu_interop.Device, rounds: int) -> None:
    buffer, seen = context.buffer(4096), context.buffer(4096, exportable=False)
    context.release(buffer)
    memory = device.import_memory(buffer.export())
    stream, timeline = device.stream(), context.timeline(device)
    words = memory.tensor(1024, "uint32", stream=stream)
    for turn in range(1, rounds + 1):
        base = 2 * (turn - 1)
        recording = context.record().acquire(buffer).copy(buffer, seen).fill(buffer, turn).release(buffer)
        recording.submit(wait=[(timeline, base)], signal=[(timeline, base + 1)])
        timeline.wait(stream, base + 1)
        view = numpy.from_dlpack(words)
        assert (view == turn).all()
        if turn > 1:
            last = numpy.frombuffer(context.download(seen), "uint32")
            assert (last == turn - 1 + 1_000_000).all()
        view += 1_000_000
        timeline.signal(stream, base + 2)
    timeline.host_wait(2 * rounds, 10)
