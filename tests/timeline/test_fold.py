from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.model import Event, EventKind
from takeback.timeline import Scope, fold
from tests.timeline.story import HERE, Story, names


def test_a_step_is_open_until_its_end_and_then_live() -> None:
    story = Story()
    step = story.begin("A", before="c90", text="make", data={"pid": 7, "named": [b"x", "a/\udcff"]})
    assert story.status(step) == "open"
    assert names(story.timeline.open_steps(HERE)) == [step]
    story.end(step, after="c91", data={"exit": 3, "tail": "oh"})
    done = story.done(step)
    assert (done.status, done.before, done.after, done.exit, done.text) == ("live", "c90", "c91", 3, "make")
    assert done.data["tail"] == "oh" and done.data["pid"] == 7
    assert done.named == (b"x", b"a/\xff")
    assert done.ended_ns is not None and done.ended_ns > done.started_ns
    assert story.timeline.open_steps(HERE) == ()


def test_a_step_nobody_owns_is_closed_by_the_next_before_of_its_session() -> None:
    story = Story()
    first = story.begin("A")
    second = story.begin("A", before="c70")
    assert (story.done(first).status, story.done(first).after) == ("live", "c70")
    assert story.status(second) == "open"
    assert story.timeline.overlapping(story.done(first)) == ()


@pytest.mark.parametrize("session, worktree", [("B", HERE), (None, HERE), ("A", "there")])
def test_an_event_of_another_session_or_worktree_closes_nothing(session: str | None, worktree: str) -> None:
    story = Story()
    step = story.begin("A")
    story.begin(session, worktree=worktree)
    assert story.status(step) == "open"


def test_an_event_without_a_before_closes_nothing() -> None:
    story = Story()
    step = story.begin("A")
    story.prompt("A")
    assert story.status(step) == "open"
    story.tell(EventKind.PROMPT, session="A", before="c70")
    assert story.done(step).after == "c70"


def test_a_step_with_an_owner_is_closed_only_by_its_own_end() -> None:
    story = Story()
    step = story.begin("A", data={"pid": 7})
    story.step("A")
    story.restore("A")
    assert story.status(step) == "open"
    story.end(step, after="c70")
    assert story.done(step).after == "c70"


def test_a_late_end_is_better_than_the_next_before() -> None:
    story = Story()
    first = story.begin("A")
    second = story.begin("A")
    story.end(second)
    story.end(first, after="c70")
    assert story.done(first).after == "c70"
    assert names(story.timeline.overlapping(story.done(first))) == [second]


def test_the_first_end_counts() -> None:
    story = Story()
    step = story.step("A")
    after = story.done(step).after
    story.end(step, after="c70", data={"exit": 9})
    assert (story.done(step).after, story.done(step).exit) == (after, None)


def test_an_end_that_comes_after_the_undo_gives_the_exit_code_but_no_other_after() -> None:
    story = Story()
    first = story.begin("A")
    story.begin("A", before="c70")
    story.record_undo(first)
    story.end(first, after="c71", data={"exit": 1})
    done = story.done(first)
    assert (done.after, done.exit, done.status) == ("c70", 1, "undone")


def test_an_end_without_a_state_is_given_one_by_the_next_event() -> None:
    story = Story()
    step = story.begin("A", data={"pid": 7})
    story.end(step, after=None, data={"exit": 0})
    ended_ns = story.done(step).ended_ns
    assert story.status(step) == "open" and story.done(step).exit == 0
    story.begin("A", before="c70")
    assert (story.done(step).after, story.done(step).ended_ns) == ("c70", ended_ns)


def test_an_end_without_a_state_withdraws_the_state_it_had_seemed_to_have() -> None:
    story = Story()
    first = story.begin("A")
    story.begin("A", before="c70")
    story.end(first, after=None)
    assert story.done(first).after is None
    assert first in names(story.timeline.open_steps(HERE))
    story.begin("A", before="c71")
    assert story.done(first).after == "c71"


def test_a_restore_is_done_at_once() -> None:
    story = Story()
    restore = story.restore("A", before="c70", after="c71")
    done = story.done(restore)
    assert (done.status, done.before, done.after, done.kind) == ("live", "c70", "c71", EventKind.RESTORE)


def test_a_partial_undo_takes_its_target_back_like_any_other() -> None:
    story = Story()
    step = story.step()
    undo = story.record_undo(step, data={"partial": True})
    assert (story.status(step), story.done(step).undone_by) == ("undone", undo)


def test_undos_and_redos_are_known_but_are_not_done() -> None:
    story = Story()
    undo = story.record_undo(story.step())
    assert story.timeline.done(undo) is None
    reversal = story.timeline.reversal(undo)
    assert reversal is not None and reversal.kind is EventKind.UNDO
    assert story.timeline.reversal("s2") is None


def test_ends_and_undos_of_unknown_steps_change_nothing() -> None:
    story = Story()
    step = story.step()
    story.tell(EventKind.STEP_END, targets=("s99",), after="c9")
    story.record_undo("s99", "c1")
    story.tell(EventKind.REDO, "y50", targets=("s99", "u50"))
    assert story.status(step) == "live"


def test_a_second_step_of_the_same_id_changes_nothing() -> None:
    story = Story()
    step = story.step(before="c70")
    story.tell(EventKind.STEP, step, before="c71")
    assert story.done(step).before == "c70"


def test_steps_that_touch_in_time_overlap_and_others_do_not() -> None:
    story = Story()
    early = story.step("A")
    long = story.begin("A", data={"pid": 1})
    inner = story.step("B")
    undo = story.record_undo(early)
    restore = story.restore("B")
    elsewhere = story.step("B", worktree="there")
    story.end(long)
    late = story.step("B")
    timeline = story.timeline
    assert names(timeline.overlapping(story.done(long))) == [inner, undo, restore]
    assert names(timeline.overlapping(story.done(inner))) == [long]
    for alone in (early, elsewhere, late):
        assert timeline.overlapping(story.done(alone)) == ()


def test_a_step_still_open_overlaps_all_that_came_since() -> None:
    story = Story()
    running = story.begin("A", data={"pid": 1})
    later = story.step("B")
    assert names(story.timeline.overlapping(story.done(later))) == [running]
    assert names(story.timeline.overlapping(story.done(running))) == [later]


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 5), st.sampled_from(["own", "hook", "restore"]))))
@settings(deadline=None)
def test_overlapping_agrees_with_comparing_every_pair(plan: list[tuple[str, int, str]]) -> None:
    story = Story()
    running: list[str] = []
    for session, at, what in plan:
        if what == "restore":
            story.restore(session)
        elif at < len(running):
            story.end(running.pop(at))
        else:
            running.append(story.begin(session, data={"pid": 1} if what == "own" else {}))
    dones = list(story.timeline.newest(Scope(HERE)))
    for one in dones:
        end = one.end_seq or 10**9
        others = {two.id for two in dones if two.start_seq <= end and (two.end_seq or 10**9) >= one.start_seq}
        assert set(names(story.timeline.overlapping(one))) == others - {one.id}


def test_appending_leaves_the_shorter_timeline_as_it_was() -> None:
    story = Story()
    step = story.begin("A")
    before = story.timeline
    story.end(step)
    story.undo()
    story.step("B")
    story.prompt()
    assert before.done(step).status == "open"  # type: ignore[union-attr]
    assert names(before.open_steps(HERE)) == [step]
    assert before.sessions(HERE) == ("A",)
    assert list(before.marks(Scope(HERE))) == []
    assert len(list(before.newest(Scope(HERE)))) == 1


def test_an_open_step_that_is_taken_back_is_not_open_until_it_is_applied_again() -> None:
    story = Story()
    step = story.begin("A")
    story.record_undo(step, session="B")
    assert story.timeline.open_steps(HERE) == ()
    story.step("A", before="c70")
    assert story.done(step).after is None
    story.tell(EventKind.REDO, "y50", targets=(step,))
    assert (story.status(step), names(story.timeline.open_steps(HERE))) == ("open", [step])


def test_two_timelines_can_grow_from_one() -> None:
    story = Story()
    step = story.begin("A", before="c1")
    undone = story.step("B")
    story.undo()
    story.prompt("B")
    stem, seq = story.timeline, len(story.events) + 1
    bare = stem.append(Event(seq, "s70", EventKind.STEP, 0, HERE, "A"))
    one = stem.append(Event(seq, "s80", EventKind.STEP, 0, HERE, "A", before="c80"))
    two = stem.append(Event(seq, "s90", EventKind.STEP, 0, HERE, "A", before="c90"))
    assert [line.done(step).after for line in (one, two)] == ["c80", "c90"]  # type: ignore[union-attr]
    marked = stem.append(Event(seq, "", EventKind.PROMPT, 0, HERE, "A"))
    saved = stem.append(Event(seq, "c99", EventKind.CHECKPOINT, 0, HERE))
    redone = stem.append(Event(seq, "y1", EventKind.REDO, 0, HERE, targets=(undone,)))
    assert [len(list(line.marks(Scope(HERE)))) for line in (stem, marked, saved)] == [1, 2, 1]
    assert names(bare.open_steps(HERE)) == [step, "s70"]
    assert [line.last_checkpoint(HERE) for line in (stem, saved, marked)] == [None, "c99", None]
    assert [names(line.undone(Scope(HERE))) for line in (stem, redone)] == [[undone], []]


def test_appending_one_by_one_and_folding_all_agree() -> None:
    story = Story()
    first = story.step("A")
    story.step("B")
    story.undo()
    folded = fold(story.events)
    assert folded.done(first) == story.timeline.done(first)
    assert list(folded.newest(Scope(HERE))) == list(story.timeline.newest(Scope(HERE)))
    assert folded.undone(Scope(HERE)) == story.timeline.undone(Scope(HERE))


def test_events_out_of_order_are_refused() -> None:
    story = Story()
    with pytest.raises(ValueError, match="event 1 after event 1"):
        story.timeline.append(Event(seq=1, id="s1", kind=EventKind.STEP, at_ns=0))


def test_a_checkpoint_of_takebacks_own_is_not_the_last_checkpoint() -> None:
    story = Story()
    asked = story.checkpoint()
    story.checkpoint(data={"own": True})
    assert story.timeline.last_checkpoint(HERE) == asked
    assert story.timeline.last_checkpoint("there") is None
