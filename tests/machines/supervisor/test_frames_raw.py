"""What the supervisor makes of frames no host of ours would send: answered or skipped, never a crash."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import select
import struct
from collections.abc import Iterator

import pytest

from takeback.machines.channel.frames import Fields, Flag, Frame, FrameReader, Tag, Type, encode_fields, encode_frame
from tests.support.guest import ENV, Guest, shell

NONCE = b"nonce of 16 byte"


class Raw:
    """The host's ends, bytes only."""

    def __init__(self, guest: Guest) -> None:
        self.to = os.open(guest.to_guest, os.O_RDWR)
        self.source = os.open(guest.from_guest, os.O_RDWR)
        self.reader = FrameReader()
        self.frames: list[Frame] = []

    def send(self, data: bytes) -> None:
        os.write(self.to, data)

    def next(self, limit: float = 10.0) -> Frame:
        while not self.frames:
            assert select.select([self.source], [], [], limit)[0], "no answer"
            self.frames += self.reader.feed(os.read(self.source, 65536))
        return self.frames.pop(0)

    def silent(self, seconds: float = 0.2) -> bool:
        return not self.frames and not select.select([self.source], [], [], seconds)[0]

    def error(self) -> tuple[int, int]:
        kind, _, ident, body = self.next()
        assert kind == Type.ERROR
        return ident, Fields(body).number(Tag.ERRNO)


@pytest.fixture
def raw(guest: Guest) -> Iterator[Raw]:
    made = Raw(guest)
    made.send(encode_frame(Type.ATTACH, 0, NONCE))
    assert made.next()[3].startswith(NONCE)
    yield made
    made.send(encode_frame(Type.ATTACH, 0, NONCE[::-1]))
    while not made.next()[3].startswith(NONCE[::-1]):
        pass
    os.close(made.to)
    os.close(made.source)


def test_an_unknown_message_and_an_unknown_process_are_answered(raw: Raw) -> None:
    raw.send(encode_frame(31, 5))
    assert raw.error() == (5, errno.ENOSYS)
    for kind in (Type.SIGNAL, Type.RESIZE, Type.FORGET, Type.STDIN):
        raw.send(encode_frame(kind, 6))
        assert raw.error() == (6, errno.ESRCH)
    raw.send(encode_frame(Type.FOLLOW, 7, encode_fields([(Tag.PROCESS, 99)])))
    assert raw.error() == (7, errno.ESRCH)
    raw.send(encode_frame(Type.UNFOLLOW, 8) + encode_frame(Type.CREDIT, 8) + encode_frame(Type.PING, 9))
    assert raw.next()[:3] == (Type.PONG, 0, 9)


@pytest.mark.parametrize(
    "body",
    [b"\x01", b"\x01\xff\xff\xff\xff", b"\x01\x05\0\0\0ab", encode_fields([(Tag.UID, b"abc"), (Tag.ARG, b"x")])],
)
def test_a_malformed_body_is_answered(raw: Raw, body: bytes) -> None:
    raw.send(encode_frame(Type.SPAWN, 3, body))
    assert raw.error()[0] == 3
    for kind in (Type.FOLLOW, Type.SHUTDOWN, Type.ATTACH):
        raw.send(encode_frame(kind, 0, b"\x11\x03\0\0\0abc\x18\x04\0\0\0abcd"))
        assert raw.error() == (0, errno.EPROTO)


def test_a_frame_in_pieces_is_put_together(raw: Raw) -> None:
    for byte in encode_frame(Type.PING, 77, b"ignored"):
        raw.send(bytes([byte]))
    assert raw.next()[2] == 77


def test_a_message_of_over_a_mebibyte_is_refused_and_skipped(raw: Raw) -> None:
    part = b"x" * 4088
    os.set_blocking(raw.to, True)
    for _ in range(300):
        raw.send(encode_frame(Type.SPAWN, 4, part, Flag.MORE))
    raw.send(encode_frame(Type.SPAWN, 4, part) + b"")
    raw.send(encode_frame(Type.PING, 5))
    assert raw.error() == (4, errno.E2BIG)
    assert raw.next()[2] == 5


def test_many_half_messages_are_bounded_and_dropped_by_attach(raw: Raw, guest: Guest) -> None:
    before = guest.resident()
    for ident in range(1, 2000):
        raw.send(encode_frame(Type.SPAWN, ident, b"x" * 1000, Flag.MORE))
        if ident > 32:
            assert raw.error() == (ident, errno.ENOBUFS)
    assert guest.resident() - before < 8 << 20
    raw.send(encode_frame(Type.ATTACH, 0, NONCE))
    assert raw.next()[0] == Type.ATTACHED
    fields = encode_fields([(Tag.ARG, b"/bin/true")])
    raw.send(encode_frame(Type.SPAWN, 1, fields))
    assert raw.next()[0] == Type.STARTED
    assert raw.next()[0] == Type.ENDED


def test_bytes_that_are_no_frames_are_skipped_up_to_an_attach(raw: Raw) -> None:
    raw.send(struct.pack("<BBHI", 2, 0, 60_000, 1) + b"\xff" * 3000)
    assert raw.error()[1] == errno.EPROTO
    raw.send(encode_frame(Type.PING, 1))
    assert raw.silent()
    raw.send(encode_frame(Type.ATTACH, 0, b"a" * 16))
    kind, _, _, body = raw.next()
    assert kind == Type.ATTACHED and body.startswith(b"a" * 16)


def test_half_a_frame_of_a_host_that_is_gone_does_not_swallow_the_next_ones_attach(raw: Raw) -> None:
    raw.send(encode_frame(Type.STDIN, 1, b"x" * 4000)[:100])
    assert raw.silent(1.2)
    raw.send(encode_frame(Type.ATTACH, 0, b"b" * 16))
    assert raw.next()[3].startswith(b"b" * 16)


def test_random_bytes_never_end_it(raw: Raw, guest: Guest) -> None:
    dice = random.Random(7)
    harmless = [kind for kind in range(256) if kind not in (Type.SHUTDOWN, Type.SPAWN, Type.ATTACH)]
    for _ in range(3000):
        body = dice.randbytes(dice.choice([0, 1, 5, 13, 40, 400]))
        if dice.random() < 0.5:
            body = encode_fields([(dice.randrange(50), dice.randrange(1 << 64)) for _ in range(dice.randrange(5))])
        flags = dice.choice([0, 0, 1, 2, dice.randrange(256)])
        raw.send(encode_frame(dice.choice(harmless), dice.choice([0, 1, 2, dice.randrange(1 << 32)]), body, flags))
        while select.select([raw.source], [], [], 0)[0]:
            os.read(raw.source, 65536)
    for _ in range(30):
        raw.send(dice.randbytes(4000))
    raw.reader = FrameReader()
    assert guest.process.poll() is None
    guest.run(lambda link: shell(link, "true"))


def test_answers_nobody_reads_stop_the_reading_of_requests(guest: Guest, raw: Raw) -> None:
    fcntl.fcntl(raw.source, 1031, 4096)
    os.set_blocking(raw.to, False)
    sent = 0
    for _ in range(2_000_000):
        try:
            sent += os.write(raw.to, encode_frame(Type.PING, 1) * 100) // 8
        except BlockingIOError:
            if not select.select([], [raw.to], [], 0.5)[1]:
                break
    assert guest.resident() < 40 << 20
    for _ in range(sent):
        assert raw.next()[:3] == (Type.PONG, 0, 1)
    assert sent > 1000


def test_between_quiet_and_go_nothing_is_sent_that_was_not_asked(raw: Raw) -> None:
    fields = [(Tag.ARG, b"sh"), (Tag.ARG, b"-c"), (Tag.ARG, b"while :; do echo x; done"), (Tag.ENV, b"PATH=/bin")]
    fields += [(Tag.FOLLOWER, 2), (Tag.CREDIT, 1 << 40)]  # type: ignore[list-item]
    raw.send(encode_frame(Type.SPAWN, 1, encode_fields(fields)))
    assert raw.next()[0] == Type.STARTED
    raw.send(encode_frame(Type.QUIESCE, 0))
    while raw.next()[0] != Type.QUIET:
        pass
    assert raw.silent(0.3)
    raw.send(encode_frame(Type.SIGNAL, 1, encode_fields([(Tag.SIGNO, 9)])))
    assert raw.silent(0.3)
    raw.send(encode_frame(Type.PING, 3))
    assert raw.next()[:3] == (Type.PONG, 0, 3)
    raw.send(encode_frame(Type.GO, 0))
    kinds = {raw.next()[0] for _ in range(50)}
    assert kinds == {Type.OUTPUT, Type.ERROR}
    raw.send(encode_frame(Type.SIGNAL, 1, encode_fields([(Tag.SIGNO, 9)])))


def test_an_environment_without_a_path_uses_the_usual_one(guest: Guest) -> None:
    assert ENV
    done = guest.run(lambda link: shell(link, "command -v ls", env={}))
    assert b"/ls" in done.out
