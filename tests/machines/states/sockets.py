"""Sockets: what is queued in them, whom nobody accepted yet, what was closed on one side, descriptors under way."""

from __future__ import annotations

import array
import os
import socket
import stat

from tests.machines.states.kinds import PATIENCE, Check, expect, keep, kind, path

socket.setdefaulttimeout(PATIENCE)


def unix(how: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    return socket.socket(socket.AF_UNIX, how)


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a new connection, the one that called first."""
    caller = called_up(listener)
    return caller, listener.accept()[0]


def called_up(listener: socket.socket) -> socket.socket:
    """Connect to a listener that need not accept it."""
    caller = socket.socket(listener.family)
    caller.connect(listener.getsockname())
    return caller


def received(server: socket.socket, size: int) -> bytes:
    """Return so much of what a socket receives, less when it ends."""
    got = bytearray()
    while len(got) < size and (part := server.recv(size - len(got))):
        got += part
    return bytes(got)


@kind
def what_is_queued_in_an_abstract_unix_socket() -> Check:
    listener = keep(unix())
    listener.bind("\0queued")
    listener.listen()
    caller, server = connected(listener)
    caller.sendall(b"queued")

    def check() -> None:
        expect(server.recv(100), b"queued")
        caller.sendall(b"queued")

    return check


@kind
def a_unix_connection_that_nobody_accepted_and_new_ones() -> Check:
    listener = unix()
    listener.bind("\0backlog")
    listener.listen()
    waiting = called_up(listener)

    def check() -> None:
        nonlocal waiting
        server, _ = listener.accept()
        server.sendall(b"at last")
        expect(waiting.recv(100), b"at last")
        caller, other = connected(listener)
        caller.sendall(b"new")
        expect(other.recv(100), b"new")
        for one in (waiting, server, caller, other):
            one.close()
        waiting = called_up(listener)

    return check


@kind
def messages_queued_in_a_seqpacket_pair() -> Check:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fill() -> None:
        left.send(b"a")
        left.send(b"bb")

    fill()

    def check() -> None:
        expect((right.recv(100), right.recv(100)), (b"a", b"bb"))
        fill()

    return check


@kind
def datagrams_queued_at_a_unix_path_and_new_senders() -> Check:
    server, client = unix(socket.SOCK_DGRAM), unix(socket.SOCK_DGRAM)
    server.bind(path("datagrams"))
    client.connect(path("datagrams"))
    client.send(b"queued")

    def check() -> None:
        expect(server.recv(100), b"queued")
        with unix(socket.SOCK_DGRAM) as other:
            other.settimeout(
                None
            )  # with a limit Python asks first, and the engine never says that it can be written to
            other.sendto(b"new", path("datagrams"))
            expect(server.recv(100), b"new")
        expect(stat.S_ISSOCK(os.lstat(path("datagrams")).st_mode), True)
        client.send(b"queued")

    return check


@kind
def a_descriptor_on_its_way_through_a_socket() -> Check:
    left, right = socket.socketpair()
    out, into = os.pipe()

    def send() -> None:
        os.write(into, b"through it")
        socket.send_fds(left, [b"x"], [out])

    send()

    def check() -> None:
        _, (fd,), _, _ = socket.recv_fds(right, 10, 5)
        expect(os.read(fd, 100), b"through it")
        os.close(fd)
        send()

    return check


@kind
def a_tcp_connection_full_at_both_ends_with_its_options() -> Check:
    listener = keep(socket.create_server(("127.0.0.1", 0)))
    caller, server = connected(listener)
    options = ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    for option in options:
        caller.setsockopt(*option, 1)
    caller.setblocking(False)
    stream = memoryview(array.array("I", range(8 << 20)).tobytes())

    def fill() -> int:
        sent = 0
        try:
            while True:
                sent += caller.send(stream[sent : sent + 65536])
        except BlockingIOError:
            return sent

    size = fill()

    def check() -> None:
        nonlocal size
        for begin in range(0, size, 65536):
            part = stream[begin : min(begin + 65536, size)]
            expect(received(server, len(part)) == part, True)
        expect([caller.getsockopt(*option) != 0 for option in options], [True, True])
        size = fill()

    return check


@kind
def a_tcp_connection_closed_on_one_side() -> Check:
    listener = socket.create_server(("127.0.0.1", 0))

    def half() -> tuple[socket.socket, socket.socket]:
        caller, server = connected(listener)
        caller.sendall(b"bye")
        caller.shutdown(socket.SHUT_WR)
        return caller, server

    caller, server = half()

    def check() -> None:
        nonlocal caller, server
        expect((server.recv(100), server.recv(100)), (b"bye", b""))
        server.sendall(b"still here")
        expect(caller.recv(100), b"still here")
        caller.close()
        server.close()
        caller, server = half()

    return check


@kind
def a_tcp_connection_that_nobody_accepted() -> Check:
    listener = socket.create_server(("127.0.0.1", 0))

    def early() -> socket.socket:
        caller = called_up(listener)
        caller.sendall(b"early")
        return caller

    caller = early()

    def check() -> None:
        nonlocal caller
        server, _ = listener.accept()
        expect(server.recv(100), b"early")
        server.close()
        caller.close()
        caller = early()

    return check


@kind
def a_tcp_connection_over_ipv6() -> Check:
    listener = keep(socket.create_server(("::1", 0), family=socket.AF_INET6))
    caller, server = connected(listener)

    def check() -> None:
        caller.sendall(b"six")
        expect(server.recv(100), b"six")
        for end in connected(listener):
            end.close()

    return check


@kind
def datagrams_queued_in_a_udp_socket() -> Check:
    server, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    server.bind(("127.0.0.1", 0))
    client.connect(server.getsockname())

    def fill() -> None:
        client.send(b"one")
        client.send(b"two")

    fill()

    def check() -> None:
        expect((server.recv(100), server.recv(100)), (b"one", b"two"))
        fill()

    return check
