"""Exports on their way to another process."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

from ._errors import InvalidArgument, Unsupported
from ._native import Export

#: Bytes of the description that follow.
_LENGTH = struct.Struct("!I")
#: Longest description, bytes.
_LONGEST = 1 << 16


def _check(operation: str, connection: socket.socket) -> None:
    if not hasattr(socket, "CMSG_LEN") or not hasattr(socket, "SCM_RIGHTS"):
        raise Unsupported(f"{operation}: this system passes no descriptors through sockets")
    if connection.family != socket.AF_UNIX or connection.type != socket.SOCK_STREAM:
        raise InvalidArgument(
            f"{operation}: descriptors need a Unix socket of the type SOCK_STREAM: socket.socketpair()"
        )


def send(export: Export, connection: socket.socket) -> None:
    """Send a duplicate of the descriptor with the first byte, and the description."""
    _check("Export.send", connection)
    description = export._description().encode()
    message = _LENGTH.pack(len(description)) + description
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", export.fd))
    sent = connection.sendmsg([message], [rights])
    connection.sendall(message[sent:])


def receive(connection: socket.socket) -> Export:
    """Receive what `send` sent. Every descriptor is owned by the result, or closed."""
    _check("Export.receive", connection)
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    head, ancillary, received, _ = connection.recvmsg(_LENGTH.size, socket.CMSG_LEN(4), flags)
    fds = [
        number
        for level, kind, data in ancillary
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        for (number,) in struct.iter_unpack("i", data[: len(data) // 4 * 4])
    ]
    try:
        head += _exactly(connection, _LENGTH.size - len(head))
        (length,) = _LENGTH.unpack(head)
        if len(fds) != 1 or received & socket.MSG_CTRUNC or length > _LONGEST:
            raise InvalidArgument("Export.receive: this is not an export; send it with Export.send")
        return Export._from_description(_exactly(connection, length).decode(errors="replace"), fds[0])
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError("Export.receive: the peer has closed the connection")
        data += more
    return data


def reduce(export: Export) -> tuple[Any, ...]:
    """Reduce an export for `multiprocessing`: the description, and a duplicate that can be taken once."""
    from multiprocessing import reduction

    duplicate = getattr(reduction, "DupFd", None)
    if duplicate is None:
        raise Unsupported("Export: multiprocessing passes descriptors on Linux only")
    return _rebuild, (export._description(), duplicate(export.fd))


def _rebuild(description: str, duplicate: Any) -> Export:
    fd = duplicate.detach()
    try:
        os.set_inheritable(fd, False)
        return Export._from_description(description, fd)
    except BaseException:
        os.close(fd)
        raise
