from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.errors import Damaged, StoreReadOnly, UsageError
from takeback.model import Checkpoint, Event, EventKind, Kind
from takeback.timeline import codec, decode, decode_checkpoint, encode, encode_checkpoint

# Every code point, lone surrogates too: a file name, a heredoc or an escape in a tool call can hold them.
any_text = st.text(st.characters(exclude_categories=()))
any_data = st.dictionaries(
    any_text,
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | any_text
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
        max_leaves=8,
    ),
    max_size=4,
)
events = st.builds(
    Event,
    seq=st.integers(0),
    id=any_text,
    kind=st.sampled_from(EventKind),
    at_ns=st.integers(),
    worktree=any_text,
    session=st.none() | any_text,
    task=st.none() | any_text,
    before=st.none() | any_text,
    after=st.none() | any_text,
    targets=st.lists(any_text).map(tuple),
    text=any_text,
    data=any_data,
)
checkpoints = st.builds(
    Checkpoint,
    id=any_text,
    commit=any_text,
    kind=st.sampled_from(Kind),
    at_ns=st.integers(),
    worktree=any_text,
    root=st.binary(),
    text=any_text,
    session=st.none() | any_text,
    task=st.none() | any_text,
    files=st.integers(0),
    only=st.lists(st.binary()).map(tuple),
)

PLAIN = Event(seq=1, id="s1", kind=EventKind.STEP, at_ns=5)


@given(events)
@settings(deadline=None)
def test_any_event_comes_back_as_it_was(event: Event) -> None:
    raw = encode(event)
    assert decode(raw) == event
    assert b"\n" not in raw


@given(checkpoints)
@settings(deadline=None)
def test_any_checkpoint_comes_back_as_it_was(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


@given(events)
@settings(deadline=None)
def test_other_readers_of_json_can_read_it(event: Event) -> None:
    text = encode(event).decode("utf-8", "strict")
    text.encode("utf-8", "strict")
    assert json.loads(text)["schema"] == codec.SCHEMA


def test_an_event_is_written_as_the_format_page_says() -> None:
    data = {"named": [b"a b", b"\xff"], "n": {"$x": 1}, "k": {"\udcff": 1, "b": 2}}
    event = replace(PLAIN, session="A", targets=("s1",), text="rm \udcff", data=data)
    assert json.loads(encode(event)) == {
        "schema": 1,
        "seq": 1,
        "id": "s1",
        "kind": "step",
        "at_ns": 5,
        "session": "A",
        "targets": ["s1"],
        "text": {"$text64": "cm0g7bO/"},
        "data": {
            "named": [{"$bytes": "a b"}, {"$bytes64": "/w=="}],
            "n": {"$pairs": [["$x", 1]]},
            "k": {"$pairs": [[{"$text64": "7bO/"}, 1], ["b", 2]]},
        },
    }


def test_tuples_in_data_come_back_as_lists() -> None:
    assert decode(encode(replace(PLAIN, data={"named": (b"a",)}))).data == {"named": [b"a"]}


def test_keys_of_a_later_version_are_dropped() -> None:
    assert decode(b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"mood":{"$new":1}}') == PLAIN


def test_a_newer_schema_or_kind_is_called_newer_and_not_damaged() -> None:
    with pytest.raises(StoreReadOnly, match="format 2, this one knows 1"):
        decode(b'{"schema":2}')
    with pytest.raises(StoreReadOnly, match="format 1 with 'approval'"):
        decode(b'{"schema":1,"seq":1,"id":"h3","kind":"approval","at_ns":5}')
    checkpoint = Checkpoint("c1", "f00", Kind.STATE, 5, "here", b"/p")
    with pytest.raises(StoreReadOnly):
        decode_checkpoint(encode_checkpoint(checkpoint).replace(b'"state"', b'"memory"'))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{",
        b'{"seq":1}',
        b'{"schema":0,"seq":1,"id":"s1","kind":"step","at_ns":5}',
        b'{"schema":true,"seq":1,"id":"s1","kind":"step","at_ns":5}',
        b'{"schema":1,"seq":"1","id":"s1","kind":"step","at_ns":5}',
        b'{"schema":1,"seq":1.5,"id":"s1","kind":"step","at_ns":5}',
        b'{"schema":1,"seq":NaN,"id":"s1","kind":"step","at_ns":5}',
        b'{"schema":1,"seq":1,"id":null,"kind":"step","at_ns":5}',
        b'{"schema":1,"seq":1,"id":"s1","kind":["step"],"at_ns":5}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"session":7}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"targets":"s1"}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"targets":[1]}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":[1]}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":{"a":{"$new":1}}}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":{"a":{"$bytes64":"!"}}}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":{"a":{"$text64":"/w=="}}}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":{"a":{"$pairs":[1]}}}',
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":{"a":{"$pairs":[[1,2]]}}}',
        b'{"schema":1,"seq":' + b"9" * 5000 + b',"id":"s1","kind":"step","at_ns":5}',
        b'{"schema":1,"data":' + b"[" * 100_000,
        b'{"schema":1,"seq":1,"id":"s1","kind":"step","at_ns":5,"data":{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
def test_what_is_no_event_is_damaged(raw: bytes) -> None:
    with pytest.raises(Damaged) as caught:
        decode(raw)
    assert "takeback doctor --rebuild" in caught.value.hint_text


@given(st.binary(max_size=40), st.integers(0, 200))
@settings(deadline=None)
def test_a_damaged_event_is_never_another_error(noise: bytes, at: int) -> None:
    raw = bytearray(encode(replace(PLAIN, session="A", data={"named": [b"\xff", b"a"], "x": {"$y": "\ud800"}})))
    raw[at : at + len(noise)] = noise
    try:
        decode(bytes(raw))
    except (Damaged, StoreReadOnly):
        pass


@pytest.mark.parametrize("field, value", [("root", '"x"'), ("only", '["x"]'), ("only", "7"), ("files", "null")])
def test_what_is_no_checkpoint_is_damaged(field: str, value: str) -> None:
    doc = json.loads(encode_checkpoint(Checkpoint("c1", "f00", Kind.STATE, 5, "here", b"/p")))
    doc[field] = json.loads(value)
    with pytest.raises(Damaged, match="a checkpoint of the timeline is damaged"):
        decode_checkpoint(json.dumps(doc).encode())


def test_more_than_the_cap_is_neither_written_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = encode(replace(PLAIN, text="x" * 200))
    monkeypatch.setattr(codec, "MAX_BYTES", 150)
    with pytest.raises(UsageError, match=r"event s1 takes \d+ bytes, over the cap of 150"):
        encode(replace(PLAIN, text="x" * 200))
    with pytest.raises(Damaged, match="over the cap of 150"):
        decode(raw)


@pytest.mark.parametrize("value", [{1}, object(), {1: 2}])
def test_data_that_is_not_plain_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode(replace(PLAIN, data={"a": value}))
