"""What people read names everything they must know, and caps only what they can ask for."""

from __future__ import annotations

from dataclasses import replace

from takeback import model
from takeback.cli import draw
from takeback.cli.draw import SHOWN
from tests.cli.test_documents import restore_result


def preview(**more: object) -> str:
    return "\n".join(draw.preview(restore_result(**more), doing="Undo", verbose=False))


def test_a_preview_has_age_text_paths_and_counts() -> None:
    actions = (model.Action(b"a.txt", "write", size=2048), model.Action(b"new.txt", "delete"))
    said = preview(title="rm -rf build", age_s=125.0, restored=actions)
    assert said.splitlines() == [
        "Undo s7 (2 min ago): rm -rf build",
        "  write   a.txt",
        "  delete  new.txt",
        "  1 written, 1 deleted (2.0 KiB)",
    ]


def test_a_preview_of_nothing_says_so() -> None:
    assert "nothing to change" in preview()


def test_long_lists_are_capped_until_asked_for() -> None:
    result = restore_result(restored=tuple(model.Action(b"%d.txt" % n, "write") for n in range(SHOWN + 5)))
    short = "\n".join(draw.preview(result, doing="Undo", verbose=False))
    assert "... and 5 more" in short
    assert "24.txt" in "\n".join(draw.preview(result, doing="Undo", verbose=True))


def test_conflicts_are_never_capped() -> None:
    said = preview(conflicts=tuple(model.NotCovered(b"%d.txt" % n, "changed since") for n in range(SHOWN + 30)))
    assert all(f"{n}.txt: changed since" in said for n in range(SHOWN + 30))


def test_what_stays_as_it_is_is_named() -> None:
    said = preview(
        shared=(b"both.txt",),
        not_covered=(model.NotCovered(b"node_modules", "over the budget", "npm ci"),),
        not_undone=("commit 1234567 was pushed",),
        notes=("mtimes are new, so that make builds again",),
        exact=False,
    )
    for text in (
        "both.txt",
        "node_modules: over the budget; make it again with: npm ci",
        "1234567",
        "mtimes",
        "Not exact",
    ):
        assert text in said


def test_a_step_text_cannot_draw_on_the_terminal() -> None:
    said = preview(title="\x1b[2J", notes=("\x1b[2J",), shared=(b"\x1b[2J",))
    assert "\x1b[2J" not in said
    assert said.count("\\x1b[2J") == 3


def test_the_way_back_is_the_last_word() -> None:
    result = restore_result(checkpoint="c14", undo_with="takeback undo u9")
    assert draw.outcome(result)[-1] == "Take this back with: takeback undo u9"
    assert draw.outcome(restore_result(dry_run=True, undo_with="x")) == ["Nothing was written (--dry-run)."]


def test_changes_are_one_line_each_and_a_total() -> None:
    items = [
        model.Change(b"a.txt", model.ChangeKind.MODIFIED, "files", added_lines=3, deleted_lines=1),
        model.Change(b".env", model.ChangeKind.ADDED, "state"),
        model.Change(b"run.sh", model.ChangeKind.MODE, "files"),
    ]
    assert draw.changes(items, verbose=False) == ["M a.txt  +3 -1", "A .env  (state)", "m run.sh", "3 paths, +3 -1"]
    assert draw.changes([], verbose=False) == ["no difference"]


def test_an_event_without_a_text_says_what_it_did_to_which() -> None:
    event = model.Event(9, "u9", model.EventKind.UNDO, 0, targets=("s7",))
    assert draw.event_text(event) == "undo s7"
    assert draw.event_text(replace(event, text="make")) == "undo s7: make"


def test_one_event_is_told_without_empty_lines() -> None:
    event = model.Event(7, "s7", model.EventKind.STEP, 0, before="c1", after="c2", text="make", data={"exit": 0})
    said = draw.event_lines(event, now_ns=60_000_000_000)
    assert said[0] == "step s7"
    assert [line.split()[0] for line in said[1:]] == ["when", "text", "before", "after", "exit"]
    assert "(1 min ago)" in said[1]
