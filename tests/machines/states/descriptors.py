"""Descriptors that are neither files nor sockets: timers, counters, signals, events of folders."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct

from tests.machines.states.kinds import Check, called, expect, kind, libc, path, read, write

CLOCK_MONOTONIC = 1
IN_MODIFY, IN_CREATE, IN_DELETE = 0x2, 0x100, 0x200


class Interval(ctypes.Structure):
    """An itimerspec: seconds and nanoseconds of each period, then of the first."""

    _fields_ = (("every", ctypes.c_long * 2), ("first", ctypes.c_long * 2))


@kind
def a_timer_descriptor_in_an_edge_triggered_epoll() -> Check:
    timer = called(libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK))
    period = (ctypes.c_long * 2)(0, 50_000_000)
    called(libc.timerfd_settime(timer, 0, ctypes.byref(Interval(period, period)), None))
    poll = select.epoll()
    poll.register(timer, select.EPOLLIN | select.EPOLLET)

    def check() -> None:
        try:
            os.read(timer, 8)
        except BlockingIOError:
            pass
        poll.poll(0)
        expect([fd for fd, _ in poll.poll(5)], [timer])
        expect(struct.unpack("Q", os.read(timer, 8))[0] >= 1, True)

    return check


@kind
def the_count_of_an_eventfd() -> Check:
    fd = os.eventfd(5)

    def check() -> None:
        expect(os.eventfd_read(fd), 5)
        os.eventfd_write(fd, 5)

    return check


@kind
def a_semaphore_eventfd() -> Check:
    fd = os.eventfd(3, os.EFD_SEMAPHORE | os.EFD_NONBLOCK)

    def check() -> None:
        expect([os.eventfd_read(fd) for _ in range(3)], [1, 1, 1])
        try:
            expect(os.eventfd_read(fd), "nothing")
        except BlockingIOError:
            os.eventfd_write(fd, 3)

    return check


@kind
def a_signal_that_waits_in_a_signalfd() -> Check:
    mask = (ctypes.c_ulong * 16)(1 << (signal.SIGUSR2 - 1))
    fd = called(libc.signalfd(-1, ctypes.byref(mask), 0))
    os.kill(os.getpid(), signal.SIGUSR2)

    def check() -> None:
        expect(struct.unpack("I", read(fd, 128)[:4])[0], signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR2)

    return check


@kind
def events_queued_in_inotify_and_new_ones() -> Check:
    os.mkdir(path("watched"))
    watch = called(libc.inotify_init1(os.O_NONBLOCK))
    called(libc.inotify_add_watch(watch, path("watched").encode(), IN_MODIFY | IN_CREATE | IN_DELETE))

    def happen(name: str) -> None:
        write(path(f"watched/{name}"), "x")
        os.unlink(path(f"watched/{name}"))

    happen("queued")

    def check() -> None:
        expect(read(watch, 65536).count(b"queued\0"), 3)
        happen("new")
        expect(read(watch, 65536).count(b"new\0"), 3)
        happen("queued")

    return check


@kind
def a_full_pipe_and_its_size() -> Check:
    out, into = os.pipe2(os.O_NONBLOCK)
    text = bytes(range(256)) * 1024

    def fill() -> int:
        written = 0
        try:
            while True:
                written += os.write(into, text[written : written + 4096])
        except BlockingIOError:
            return written

    size = fill()

    def check() -> None:
        expect(os.read(out, 2 * size) == text[:size], True)
        expect(fill(), size)

    return check
