"""Memory: shared between processes, mapped from files, of System V, sealed, and much of it."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import random
import struct
import time

from tests.machines.states.kinds import (
    Check,
    Helper,
    called,
    expect,
    forked,
    in_child,
    kind,
    libc,
    path,
    soon,
    text_of,
    token,
    write,
)

libc.shmat.restype = ctypes.c_void_p
IPC_CREAT, IPC_NOWAIT = 0o1000, 0o4000
GETVAL, SETVAL = 12, 16
F_ADD_SEALS, F_SEAL_WRITE = 1033, 8


@kind
def shared_memory_of_system_v() -> Check:
    key = 0x1234
    place = libc.shmat(called(libc.shmget(key, 8192, IPC_CREAT | 0o666)), None, 0)
    ctypes.memmove(place, b"parent", 6)

    def answer() -> None:
        attached = libc.shmat(called(libc.shmget(key, 8192, 0o666)), None, 0)
        expect(ctypes.string_at(attached, 6), b"parent")
        ctypes.memmove(attached + 100, b"child", 5)

    def check() -> None:
        ctypes.memmove(place + 100, b".....", 5)
        in_child(answer)
        expect(ctypes.string_at(place + 100, 5), b"child")

    return check


@kind
def a_semaphore_of_system_v() -> Check:
    semaphore = called(libc.semget(0x77, 1, IPC_CREAT | 0o666))
    called(libc.semctl(semaphore, 0, SETVAL, 3))
    return lambda: expect(libc.semctl(semaphore, 0, GETVAL, 0), 3)


class Message(ctypes.Structure):
    """A msgbuf."""

    _fields_ = (("type", ctypes.c_long), ("text", ctypes.c_char * 16))


@kind
def a_message_queued_in_system_v() -> Check:
    queue = called(libc.msgget(0x88, IPC_CREAT | 0o666))

    def send() -> None:
        called(libc.msgsnd(queue, ctypes.byref(Message(1, b"message")), 16, 0))

    send()

    def check() -> None:
        got = Message()
        called(libc.msgrcv(queue, ctypes.byref(got), 16, 0, IPC_NOWAIT))
        expect(got.text, b"message")
        send()

    return check


@kind
def shared_memory_that_children_write() -> Check:
    fd = os.open("/dev/shm/states", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 4096)
    shared = mmap.mmap(fd, 4096)

    def count(at: int) -> None:
        while True:
            shared[at] = (shared[at] + 1) % 256
            time.sleep(0.02)

    def going_on(at: int) -> bool:
        before = shared[at]
        return soon(lambda: shared[at] != before)

    for at in range(3):
        forked(lambda at=at: count(at))  # type: ignore[misc]
    return lambda: expect([going_on(at) for at in range(3)], [True] * 3)


@kind
def a_file_mapped_by_two_processes_and_read() -> Check:
    with open(path("mapped"), "w+b") as file:
        file.truncate(1 << 16)
        shared = mmap.mmap(file.fileno(), 1 << 16)
    other = mmap.mmap(os.open(path("mapped"), os.O_RDWR), 1 << 16)

    def answer() -> bytes:
        other[5000:5005] = b"child"
        return other[:6]

    helper = Helper(answer)

    def check() -> None:
        shared[5000:5005] = b"....."
        shared[:6] = b"parent"
        expect(helper.ask(), b"parent")
        expect(shared[5000:5005], b"child")
        with open(path("mapped"), "rb") as file:
            found = file.read()
        expect((found[:6], found[5000:5005]), (b"parent", b"child"))

    return check


@kind
def a_private_mapping_of_a_file() -> Check:
    write(path("private"), "of the file".ljust(4096))
    with open(path("private"), "r+b") as file:
        private = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    private[:7] = b"private"

    def check() -> None:
        expect((private[:7], text_of(path("private"))[:11]), (b"private", "of the file"))

    return check


@kind
def what_another_writes_seen_in_a_read_only_mapping() -> Check:
    write(path("read-only"), "first".ljust(4096))
    mapped = mmap.mmap(os.open(path("read-only"), os.O_RDONLY), 4096, prot=mmap.PROT_READ)

    def check() -> None:
        new = token()

        def change() -> None:
            with open(path("read-only"), "r+") as file:
                file.write(new)

        in_child(change)
        expect(mapped[: len(new)], new.encode())

    return check


@kind
def the_seal_of_a_memfd() -> Check:
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.write(fd, b"sealed")
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)

    def check() -> None:
        try:
            expect(os.write(fd, b"x"), "refused")
        except PermissionError:
            expect(os.pread(fd, 100, 0), b"sealed")

    return check


@kind
def megabytes_of_its_own() -> Check:
    page = random.Random(3).randbytes(4088)
    held = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, len(held), 4096):
        held[at : at + 4096] = struct.pack("Q", at) + page

    def check() -> None:
        wrong = [at for at in range(0, len(held), 4096) if held[at : at + 4096] != struct.pack("Q", at) + page]
        expect(wrong, [])

    return check
