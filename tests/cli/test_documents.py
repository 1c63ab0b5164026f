"""JSON documents have the fields the reference names, and hold any path exactly."""

from __future__ import annotations

import base64
import json
import os

from hypothesis import given
from hypothesis import strategies as st

from takeback import documents, model


def restore_result(**more: object) -> model.RestoreResult:
    fields: dict[str, object] = {"id": "u9", "dry_run": False, "targets": ("s7",), "title": "rm", "age_s": 3.0, **more}
    return model.RestoreResult(**fields)  # type: ignore[arg-type]


def test_a_document_begins_with_its_schema() -> None:
    assert next(iter(documents.document(a=1).items())) == ("schema", 1)


def test_undo_redo_and_restore_have_exactly_these_fields() -> None:
    assert list(documents.restore(restore_result())) == [
        "schema", "id", "dry_run", "targets", "restored", "deleted", "conflicts", "shared", "not_covered", "not_undone",
        "notes", "exact", "checkpoint", "undo_with",
    ]  # fmt: skip


def test_what_is_deleted_is_told_apart_from_what_is_put_back() -> None:
    actions = (model.Action(b"a", "write"), model.Action(b"b", "delete"), model.Action(b"c", "rmdir"))
    document = documents.restore(restore_result(restored=actions))
    assert [action["path"] for action in document["restored"]] == ["a"]
    assert [action["path"] for action in document["deleted"]] == ["b", "c"]


def test_a_checkpoint_has_exactly_these_fields() -> None:
    result = model.CheckpointResult("c1", model.Kind.STATE, "refs/checkpoints/c1", "ab" * 20, True, 3, (), 1.23456)
    document = documents.checkpoint(result)
    assert list(document) == ["schema", "id", "kind", "ref", "tree", "new", "files", "not_covered", "ms"]
    assert (document["kind"], document["ms"]) == ("state", 1.235)


def test_paths_everywhere_are_objects() -> None:
    result = restore_result(
        restored=(model.Action(b"a.txt", "write", size=3),),
        conflicts=(model.NotCovered(b"b.txt", "changed since"),),
        shared=(b"caf\xe9",),
    )
    document = documents.restore(result)
    assert document["restored"] == [{"path": "a.txt", "verb": "write", "where": "files", "size": 3}]
    assert document["conflicts"] == [{"path": "b.txt", "why": "changed since", "rebuild": ""}]
    assert document["shared"] == [{"path": "caf\N{REPLACEMENT CHARACTER}", "path_b64": "Y2Fm6Q=="}]


@given(st.binary(max_size=40))
def test_any_path_comes_back_from_json_exactly(path: bytes) -> None:
    read = json.loads(json.dumps(documents.named_bytes("path", path)))
    exact = base64.b64decode(read["path_b64"]) if "path_b64" in read else read["path"].encode()
    assert exact == path


def test_a_text_that_was_not_utf_8_is_still_valid_json() -> None:
    assert documents.plain(os.fsdecode(b"caf\xe9")) == "caf\N{REPLACEMENT CHARACTER}"


def test_an_event_names_its_moment_twice() -> None:
    event = model.Event(7, "s7", model.EventKind.STEP, 1_700_000_000_123_456_789, data={"exit": 1, "named": [b"a"]})
    found = documents.plain(event)
    assert (found["at"], found["at_ns"]) == ("2023-11-14T22:13:20.123Z", 1_700_000_000_123_456_789)
    assert found["data"] == {"exit": 1, "named": [{"path": "a"}]}
    assert found["kind"] == "step"


def test_a_root_that_is_not_utf_8_is_given_twice() -> None:
    checkpoint = model.Checkpoint("c1", "0" * 40, model.Kind.FILES, 0, "w", b"/srv/caf\xe9")
    assert documents.plain(checkpoint)["root_b64"] == base64.b64encode(b"/srv/caf\xe9").decode()
