"""Frames, messages and fields: whatever is encoded is decoded to the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.machines.channel.frames import (
    FRAME_MAX,
    MESSAGE_MAX,
    PAYLOAD_MAX,
    AttachFinder,
    Fields,
    Flag,
    FrameReader,
    Malformed,
    Type,
    encode_fields,
    encode_frame,
    encode_message,
)

FRAMES = st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 2**32 - 1), st.binary(max_size=PAYLOAD_MAX))


@given(frames=st.lists(FRAMES, max_size=8), cuts=st.lists(st.integers(1, 5000)))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    frames: list[tuple[int, int, int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(encode_frame(kind, ident, payload, flags) for kind, flags, ident, payload in frames)
    reader = FrameReader()
    found = []
    for cut in cuts:
        found += list(reader.feed(stream[:cut]))
        stream = stream[cut:]
    found += list(reader.feed(stream))
    assert found == frames


@given(body=st.binary(max_size=20_000))
def test_a_message_is_cut_into_frames_of_at_most_4096_bytes(body: bytes) -> None:
    frames = encode_message(Type.SPAWN, 5, body)
    assert all(len(frame) <= FRAME_MAX for frame in frames)
    read = list(FrameReader().feed(b"".join(frames)))
    assert b"".join(payload for _, _, _, payload in read) == body
    assert [bool(flags & Flag.MORE) for _, flags, _, _ in read] == [True] * (len(read) - 1) + [False]


@given(st.lists(st.tuples(st.integers(1, 255), st.integers(0, 2**64 - 1) | st.binary(max_size=300))))
def test_fields_come_out_as_they_went_in(fields: list[tuple[int, int | bytes]]) -> None:
    read = Fields(encode_fields(fields))
    for tag in {tag for tag, _ in fields}:
        values = [value.to_bytes(8, "little") if isinstance(value, int) else value for at, value in fields if at == tag]
        assert read.all(tag) == values and tag in read and read.data(tag) == values[0]
    for tag, value in fields:
        if isinstance(value, int) and read.all(tag)[0] == value.to_bytes(8, "little"):
            assert read.number(tag) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_malformed(body: bytes) -> None:
    try:
        Fields(body)
    except Malformed:
        pass


def test_what_is_too_long_is_malformed() -> None:
    with pytest.raises(Malformed):
        encode_frame(1, 1, b"x" * (PAYLOAD_MAX + 1))
    with pytest.raises(Malformed):
        encode_message(1, 1, b"x" * (MESSAGE_MAX + 1))
    with pytest.raises(Malformed):
        list(FrameReader().feed(b"\x01\x00\xff\xff\0\0\0\0"))
    with pytest.raises(Malformed):
        Fields(encode_fields([(1, b"abc")])).number(1)


@given(before=st.binary(max_size=300), size=st.integers(1, 50))
def test_the_answer_to_attach_is_found_in_what_others_left(before: bytes, size: int) -> None:
    nonce = b"0123456789abcdef"
    answer = encode_frame(Type.ATTACHED, 0, nonce + encode_fields([(25, 1)])) + encode_frame(Type.QUIET, 0)
    old = encode_frame(Type.ATTACHED, 0, b"x" * 16) + encode_frame(Type.OUTPUT, 3, nonce)[:-9]
    finder = AttachFinder(nonce)
    stream = before + old + answer
    for at in range(0, len(stream), size):
        found = finder.feed(stream[at : at + size])
        if found is not None:
            rest = found + stream[at + size :]
            break
    assert rest == answer
