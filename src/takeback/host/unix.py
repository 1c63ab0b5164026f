"""Unix sockets of this machine: the one place that opens sockets, and it knows no other family.

Does not cover: what is said over them (see `machines.wire`).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

Socket = socket.socket
_BACKLOG = 128
_PEER = struct.Struct("3i")


def listen(path: Path) -> Socket:
    """Listen at `path` (mode 0600), replacing a socket that a killed process left there."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            try:
                os.unlink(name)
            except FileNotFoundError:
                pass
            old = os.umask(0o177)
            try:
                server.bind(name)
            finally:
                os.umask(old)
        server.listen(_BACKLOG)
        server.setblocking(False)
    except BaseException:
        server.close()
        raise
    return server


def connect(path: Path) -> Socket:
    """Connect to `path`.

    Raises FileNotFoundError, ConnectionRefusedError, PermissionError.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            client.connect(name)
    except BaseException:
        client.close()
        raise
    return client


def send_some(connection: Socket, data: memoryview) -> int:
    """Send what fits now and return how many bytes that were; 0 when nothing fits."""
    try:
        return connection.send(data, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0


def send_with(connection: Socket, data: bytes, descriptors: Sequence[int]) -> None:
    """Send all of `data`, with copies of `descriptors` travelling beside its first byte."""
    sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else 0
    if sent < len(data):
        connection.sendall(data[sent:])


def peer_uid(connection: Socket) -> int:
    """Return the user at the other end as this user namespace knows it (65534 when it does not)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[1])


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Give a name that fits into the 108 bytes of a socket address, however deep the folder lies (unix(7))."""
    if len(os.fsencode(path)) < 100:
        yield os.fspath(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
