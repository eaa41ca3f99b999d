"""Exports travel to other processes: through sockets and `multiprocessing`. Each process verifies the other's bytes."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import socket
import struct
import subprocess
import sys
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan

WORDS = 1024
FIRST = numpy.arange(WORDS, dtype="int32")


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def words(memory: gpu_interop.Memory) -> Any:
    return numpy.from_dlpack(memory.tensor(WORDS, "int32"))


def shared(device: gpu_interop.Device) -> tuple[gpu_interop.Memory, Any]:
    memory = device.allocate(WORDS * 4)
    view = words(memory)
    view[:] = FIRST
    return memory, view


def double(export: gpu_interop.Export) -> bool:
    """In the other process."""
    view = words(gpu_interop.open(backend="host").import_memory(export))
    equal = bool((view == FIRST).all())
    view *= 2
    return equal and export.closed


def from_arguments(export: gpu_interop.Export, answers: Any) -> None:
    inheritable = os.get_inheritable(export.fd)
    answers.put((double(export), inheritable))


def from_queue(exports: Any, answers: Any) -> None:
    answers.put([double(exports.get()), exports.get() is None])


def from_pipe(end: Any) -> None:
    end.send(double(end.recv()))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_arguments_of_a_process(device: gpu_interop.Device, method: str) -> None:
    memory, view = shared(device)
    processes: Any = multiprocessing.get_context(method)
    answers = processes.Queue()
    export = memory.export()
    process = processes.Process(target=from_arguments, args=(export, answers))
    process.start()
    assert answers.get(timeout=60) == (True, False)
    process.join(60)
    assert process.exitcode == 0 and (view == FIRST * 2).all()
    # The sender's own descriptor is still its.
    assert not export.closed
    device.import_memory(export)


def test_queues_and_pipes(device: gpu_interop.Device) -> None:
    processes = multiprocessing.get_context("spawn")
    exports, answers = processes.Queue(), processes.Queue()
    memory, view = shared(device)
    process = processes.Process(target=from_queue, args=(exports, answers))
    process.start()
    export = memory.export()
    exports.put(export)
    exports.put(None)
    assert answers.get(timeout=60) == [True, True]
    process.join(60)
    assert (view == FIRST * 2).all()
    ours, theirs = processes.Pipe()
    memory, view = shared(device)
    process = processes.Process(target=from_pipe, args=(theirs,))
    process.start()
    ours.send(memory.export())
    assert ours.poll(60) and ours.recv() is True
    process.join(60)
    assert (view == FIRST * 2).all()


def test_senders_may_drop_or_close_what_they_sent(device: gpu_interop.Device) -> None:
    """The `Queue` keeps a temporary; a `Pipe` has duplicated the descriptor in `send`."""
    processes = multiprocessing.get_context("spawn")
    for end in ("queue", "pipe"):
        memory, view = shared(device)
        if end == "queue":
            queue, answers = processes.Queue(), processes.Queue()
            queue.put(memory.export())
            queue.put(None)
            target, arguments = from_queue, (queue, answers)
        else:
            ours, theirs = processes.Pipe()
            export = memory.export()
            ours.send(export)
            export.close()
            target, arguments = from_pipe, (theirs,)
        gc.collect()
        process = processes.Process(target=target, args=arguments)
        process.start()
        assert answers.get(timeout=60) == [True, True] if end == "queue" else ours.poll(60) and ours.recv()
        process.join(60)
        assert process.exitcode == 0 and (view == FIRST * 2).all()


def test_what_was_pickled_is_taken_once(device: gpu_interop.Device) -> None:
    memory, view = shared(device)
    pickle.loads(pickle.dumps(memory.export())).close()  # starts the thread of multiprocessing
    before = descriptors()
    data = pickle.dumps(memory.export())
    taken = pickle.loads(data)
    assert (words(device.import_memory(taken)) == FIRST).all()
    with pytest.raises(Exception):  # noqa: B017
        pickle.loads(data)
    del taken
    assert descriptors() == before
    closed = memory.export()
    closed.close()
    with pytest.raises(gpu_interop.InvalidArgument, match="closed"):
        pickle.dumps(closed)


RECEIVER = """
import socket, sys
import gpu_interop
sys.path.insert(0, sys.argv[2])
from test_travel import double
connection = socket.socket(fileno=int(sys.argv[1]))
for _ in range(3):
    connection.sendall(b"y" if double(gpu_interop.Export.receive(connection)) else b"n")
"""


def test_a_socket_to_another_process(device: gpu_interop.Device) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-c", RECEIVER, str(theirs.fileno()), os.path.dirname(__file__)]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        # Several in a row, before the first is taken.
        memories = [shared(device) for _ in range(3)]
        for memory, _ in memories:
            with memory.export() as export:
                export.send(ours)
        ours.settimeout(60)
        assert b"".join(ours.recv(1) for _ in range(3)) == b"yyy"
        assert process.wait(60) == 0
    assert all((view == FIRST * 2).all() for _, view in memories)


def received(export: gpu_interop.Export) -> gpu_interop.Export:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        export.send(ours)
        return gpu_interop.Export.receive(theirs)


def test_the_description_travels(context: vulkan.Context, device: gpu_interop.Device) -> None:
    buffer = context.buffer(4096, dedicated=True)
    for export in (buffer.export(), device.allocate(4096).export()):
        again = received(export)
        assert again.fd != export.fd and os.path.sameopenfile(again.fd, export.fd)
        parts = ("kind", "size", "dedicated", "native")
        assert [getattr(again, name) for name in parts] == [getattr(export, name) for name in parts]
        device.import_memory(again)
    # The image of optimal tiling is still known: its bytes are no tensor.
    image = received(context.image(16, 16, "rgba8_unorm", levels=2).export())
    assert json.loads(image._description())["image"]["levels"] == 2
    with pytest.raises(gpu_interop.InvalidArgument, match="optimal tiling"):
        device.import_memory(image).tensor(16, "uint8")


def test_the_exporter_travels(context: vulkan.Context, device: gpu_interop.Device) -> None:
    export = context.buffer(4096).export()
    description = json.loads(export._description())
    assert description["exporter"]["name"] == context.identity.name
    description["exporter"]["kind"] = "gpu"
    other = gpu_interop.Export._from_description(json.dumps(description), export.detach())
    with pytest.raises(gpu_interop.DeviceMismatch):
        device.import_memory(other)


class Sent:
    """A message that no `Export.send` has sent."""

    def __init__(self, data: bytes, fds: list[int]) -> None:
        self.ours, self.theirs = socket.socketpair()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
        self.ours.sendmsg([data], rights)
        self.ours.shutdown(socket.SHUT_WR)

    def receive(self) -> Any:
        with self.ours, self.theirs:
            return gpu_interop.Export.receive(self.theirs)


def message(text: bytes) -> bytes:
    return struct.pack("!I", len(text)) + text


GOOD = (
    b'{"kind":"opaque_fd","size":4096,"dedicated":false,"native":false,"trusted_peer":true,'
    b'"exporter":null,"image":null}'
)


@pytest.mark.parametrize(
    ("data", "count", "error"),
    [
        (message(GOOD), 0, gpu_interop.InvalidArgument),
        (message(GOOD), 2, gpu_interop.InvalidArgument),
        (message(GOOD)[:3], 1, EOFError),
        (message(GOOD)[:40], 1, EOFError),
        (message(b"{}"), 1, gpu_interop.InvalidArgument),
        (message(b"\xff\xfe"), 1, gpu_interop.InvalidArgument),
        (message(GOOD.replace(b"opaque_fd", b"nv_sci_buf")), 1, gpu_interop.InvalidArgument),
        (message(GOOD.replace(b"opaque_fd", b"opaque_win32")), 1, gpu_interop.InvalidArgument),
        (message(GOOD.replace(b"4096", b"-1")), 1, gpu_interop.InvalidArgument),
        (message(GOOD.replace(b'"image":null', b'"image":{"offset":-1}')), 1, gpu_interop.InvalidArgument),
        (struct.pack("!I", 1 << 31) + GOOD, 1, gpu_interop.InvalidArgument),
    ],
)
def test_other_messages_leave_no_descriptor(data: bytes, count: int, error: type[Exception]) -> None:
    fds = [os.memfd_create("test", os.MFD_CLOEXEC) for _ in range(count)]
    before = descriptors()
    with pytest.raises(error):
        Sent(data, fds).receive()
    assert descriptors() == before
    for fd in fds:
        os.close(fd)


def test_a_good_message_has_a_descriptor_that_children_do_not_inherit() -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    export = Sent(message(GOOD), [fd]).receive()
    assert export.size == 4096 and not os.get_inheritable(export.fd)
    os.close(fd)
    with pytest.raises(EOFError):
        Sent(b"", []).receive()


def test_other_sockets_are_rejected(memory: gpu_interop.Memory) -> None:
    for arguments in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)):
        with socket.socket(*arguments) as connection:
            with pytest.raises(gpu_interop.InvalidArgument, match="SOCK_STREAM"):
                memory.export().send(connection)
            with pytest.raises(gpu_interop.InvalidArgument, match="SOCK_STREAM"):
                gpu_interop.Export.receive(connection)
