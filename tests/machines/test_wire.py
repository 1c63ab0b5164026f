"""Frames between keeper and client: whole whatever way they arrive, errors as they were raised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import CommandError, Damaged, NameTaken, TakebackError
from takeback.machines import wire
from takeback.machines.wire import Type

FRAMES = st.lists(st.tuples(st.sampled_from([Type.HELLO, Type.DATA, Type.EOF, Type.STDOUT]), st.binary(max_size=300)))


@given(FRAMES, st.integers(1, 50))
def test_frames_come_whole_out_of_any_pieces(frames: list[wire.Frame], size: int) -> None:
    stream = b"".join(wire.pack(*frame) for frame in frames)
    parser = wire.Parser()
    found = [frame for at in range(0, len(stream), size) for frame in parser.feed(stream[at : at + size])]
    assert found == frames


def test_what_can_be_no_frame_is_refused_before_it_is_held() -> None:
    for header in (b"\x00\x00\x00\x00\x07", b"\xff\xff\xff\xff\x01", b"\x00\x00\x20\x00\x02"):
        with pytest.raises(Damaged):
            wire.Parser().feed(header)


def test_text_that_is_not_unicode_arrives_as_it_was() -> None:
    (frame,) = wire.Parser().feed(wire.pack_json({"path": b"\xff\xfe".decode("utf-8", "surrogateescape")}))
    assert wire.unpack_json(frame[1])["path"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_an_error_arrives_as_it_was_raised() -> None:
    (frame,) = wire.Parser().feed(wire.pack_error(NameTaken(name="a", sandboxId="b")))
    error = wire.unpack_error(wire.unpack_json(frame[1])["error"])
    assert type(error) is NameTaken and error.fields == {"name": "a", "sandboxId": "b"}


def test_an_error_of_a_newer_keeper_is_still_one() -> None:
    error = wire.unpack_error({"kind": "of-tomorrow", "fields": {}, "message": "what happened"})
    assert type(error) is TakebackError and str(error) == "what happened"
    damaged = wire.unpack_error({"kind": CommandError.kind, "fields": {}, "message": "said"})
    assert str(damaged) == "said"


def test_output_carries_its_offset() -> None:
    ((kind, payload),) = wire.Parser().feed(wire.pack_output(True, 1 << 40, b"data"))
    assert kind == Type.STDERR and wire.unpack_output(payload) == (1 << 40, b"data")
