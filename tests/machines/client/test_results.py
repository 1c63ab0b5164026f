"""Output as text: cut only between characters, and offsets that lead on."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from takeback.machines.client.results import Collected, CommandResult, Texts, camel, event, snake, whole

END = {"exitCode": 0, "timedOut": False, "durationMs": 1, "processId": "p00000001"}


@given(st.text(max_size=40), st.integers(1, 7))
def test_text_arrives_as_it_was_in_whatever_pieces(text: str, size: int) -> None:
    raw = text.encode()
    texts = Texts()
    cursor = 0
    shown = ""
    for at in range(0, len(raw), size):
        for item in texts.feed(False, at, raw[at : at + size]):
            assert "base64" not in item and item["offset"] == cursor
            cursor += len(item["data"].encode())
            shown += item["data"]
    assert list(texts.finish()) == [] and shown == text


@given(st.binary(max_size=60), st.integers(1, 9))
def test_bytes_arrive_as_they_were_in_whatever_pieces(raw: bytes, size: int) -> None:
    texts = Texts()
    items = [item for at in range(0, len(raw), size) for item in texts.feed(False, at, raw[at : at + size])]
    items += texts.finish()
    assert b"".join(base64.b64decode(i["base64"]) if "base64" in i else i["data"].encode() for i in items) == raw


def test_both_streams_keep_their_own_halves() -> None:
    texts = Texts()
    items = [*texts.feed(False, 0, b"a\xe2"), *texts.feed(True, 2, b"b\xc3"), *texts.feed(False, 4, b"\x82\xac")]
    items += texts.feed(True, 6, b"\xa4")
    assert [(item["type"], item["data"]) for item in items] == [
        ("stdout", "a"),
        ("stderr", "b"),
        ("stdout", "€"),
        ("stderr", "ä"),
    ]
    assert items[-1]["offset"] + len("ä".encode()) == 7


def test_where_a_character_is_not_whole_yet() -> None:
    cases = {b"": 0, b"a": 1, b"a\xe2": 1, b"a\xe2\x82": 1, b"\xe2\x82\xac": 3, b"\xf0\x9f\x98": 0, b"\xff": 1}
    assert {raw: whole(raw) for raw in cases} == cases


def test_a_cut_result_has_only_whole_characters() -> None:
    collected = Collected(4)
    collected.add(False, "€€".encode())
    assert collected.result(END).stdout == "€" and collected.result(END).stdout_truncated
    assert not collected.result(END).stderr_truncated
    collected.lost()
    assert collected.result(END).stderr_truncated


def test_names_have_both_spellings() -> None:
    assert event("exit", {"exitCode": 3})["exit_code"] == 3
    assert (camel("memory_mib"), camel("exit_code"), snake("stdoutTruncated")) == (
        "memoryMiB",
        "exitCode",
        "stdout_truncated",
    )
    assert CommandResult(exit_code=None, timed_out=True).to_dict() == {
        "exitCode": None, "stdout": "", "stderr": "", "timedOut": True, "stdoutTruncated": False,
        "stderrTruncated": False, "durationMs": 0, "processId": "", "replayed": False,
    }  # fmt: skip
