from __future__ import annotations

import pytest

from takeback.errors import NothingToDo, UnknownId, UsageError
from takeback.model import EventKind
from takeback.timeline import Scope, redo_line
from tests.timeline.story import HERE, Story, names


def test_undo_undo_goes_back_two_and_redo_redo_walks_forward_in_order() -> None:
    story = Story()
    steps = [story.step() for _ in range(3)]
    assert story.undo() == [steps[2]]
    assert story.undo() == [steps[1]]
    assert story.redo() == [steps[1]]
    assert story.redo() == [steps[2]]
    assert [story.status(step) for step in steps] == ["live"] * 3


def test_a_restore_is_taken_back_like_a_step() -> None:
    story = Story()
    step = story.step()
    restore = story.restore()
    assert story.undo() == [restore]
    assert story.undo() == [step]
    assert story.redo() == [step]
    assert story.redo() == [restore]


def test_a_session_takes_back_only_its_own() -> None:
    story = Story()
    mine, other = story.step("A"), story.step("B")
    assert story.undo(session="A") == [mine]
    assert story.status(other) == "live"
    with pytest.raises(NothingToDo, match="every step in this worktree of session 'A' is already taken back"):
        story.undo(session="A")
    with pytest.raises(NothingToDo, match="no step in this worktree of session 'B' is taken back"):
        story.redo(session="B")
    assert story.redo(session="A") == [mine]


def test_a_task_takes_back_only_its_own() -> None:
    story = Story()
    mine = story.step("A", task="t:one")
    story.step("A", task="t:two")
    assert story.undo(task="t:one") == [mine]
    assert story.redo(task="t:one") == [mine]


def test_another_worktree_is_left_alone() -> None:
    story = Story()
    here = story.step()
    story.step(worktree="there")
    assert story.undo() == [here]
    with pytest.raises(UsageError, match="another worktree"):
        story.undo(here, worktree="there")
    with pytest.raises(UsageError, match="another worktree"):
        story.redo(here, worktree="there")


def test_a_new_step_ends_the_redo_line_of_its_own_session_only() -> None:
    story = Story()
    story.step("A")
    b1, a2 = story.step("B"), story.step("A")
    story.undo(a2)
    story.undo(b1)
    story.step("B")
    assert names(redo_line(story.timeline, Scope(HERE))) == [a2]
    with pytest.raises(NothingToDo, match="was begun after") as caught:
        story.redo(session="B")
    assert f"takeback redo {b1}" in caught.value.hint_text
    assert story.redo() == [a2]
    assert story.redo(b1) == [b1]


def test_a_new_step_in_another_worktree_ends_no_line_here() -> None:
    story = Story()
    step = story.step("A")
    story.undo()
    story.step("A", worktree="there")
    assert story.redo() == [step]


def test_restores_and_prompts_end_no_redo_line() -> None:
    story = Story()
    step = story.step("A")
    story.undo()
    story.restore("A")
    story.prompt("A")
    assert story.redo() == [step]


def test_what_is_undone_after_the_new_step_is_on_the_line_again() -> None:
    story = Story()
    old = story.step()
    story.undo()
    new = story.step()
    story.undo()
    assert story.redo() == [new]
    assert story.redo(old) == [old]


def test_one_redo_applies_again_all_of_one_undo_oldest_first() -> None:
    story = Story()
    story.prompt()
    steps = [story.step() for _ in range(3)]
    assert story.undo(prompt=True) == steps[::-1]
    assert story.redo() == steps


def test_a_redo_of_a_session_takes_its_part_of_one_undo_and_leaves_the_rest() -> None:
    story = Story()
    story.prompt()
    mine, other = story.step("A"), story.step("B")
    assert story.undo(prompt=True) == [other, mine]
    assert story.redo(session="A") == [mine]
    assert story.redo() == [other]


def test_prompt_goes_back_to_the_newest_mark_with_something_live_after_it() -> None:
    story = Story()
    before = story.step()
    story.prompt()
    first, second = story.step(), story.restore()
    story.prompt()
    third = story.step()
    story.prompt()
    assert story.undo(prompt=True) == [third]
    assert story.undo(prompt=True) == [second, first]
    with pytest.raises(NothingToDo, match="since the oldest prompt"):
        story.undo(prompt=True)
    assert story.status(before) == "live"


def test_prompt_of_a_session_counts_only_its_own_marks() -> None:
    story = Story()
    story.prompt("A")
    first = story.step("A")
    story.prompt("B")
    other, second = story.step("B"), story.step("A")
    assert story.undo(prompt=True, session="A") == [second, first]
    assert story.undo(prompt=True) == [other]


def test_prompt_without_any_mark_is_a_sentence() -> None:
    story = Story()
    story.step()
    with pytest.raises(NothingToDo, match="no prompt was recorded in this worktree"):
        story.undo(prompt=True)


def test_prompt_and_a_step_cannot_both_be_meant() -> None:
    story = Story()
    step = story.step()
    with pytest.raises(UsageError, match="two different requests"):
        story.undo(step, prompt=True)


def test_a_named_step_is_taken_back_out_of_order() -> None:
    story = Story()
    first, second = story.step(), story.step()
    assert story.undo(first) == [first]
    assert story.undo() == [second]
    assert story.redo(first) == [first]
    assert story.redo() == [second]


def test_a_named_step_already_there_is_a_sentence_with_the_other_way() -> None:
    story = Story()
    step = story.step()
    with pytest.raises(NothingToDo, match=f"{step} is not taken back") as caught:
        story.redo(step)
    assert caught.value.hint_text == f"`takeback undo {step}` takes it back"
    story.undo()
    with pytest.raises(NothingToDo, match=f"{step} is already taken back") as caught:
        story.undo(step)
    assert caught.value.hint_text == f"`takeback redo {step}` applies it again"


def test_a_named_step_of_another_session_is_refused() -> None:
    story = Story()
    step = story.step("A")
    with pytest.raises(UsageError, match=f"{step} is not of session 'B'"):
        story.undo(step, session="B")


def test_naming_an_undo_or_redo_or_checkpoint_says_which_command_is_meant() -> None:
    story = Story()
    step = story.step()
    undo = story.record_undo(step)
    with pytest.raises(UsageError, match=f"{undo} is an undo: `takeback redo {step}`"):
        story.undo(undo)
    redo = story.tell(EventKind.REDO, "y50", targets=(step,))
    with pytest.raises(UsageError, match=f"{redo} is a redo: `takeback undo {step}`"):
        story.redo(redo)
    with pytest.raises(UsageError, match="takeback restore c12"):
        story.undo("c12")


@pytest.mark.parametrize("wrong, nearest", [("s6", "s5"), ("s900", "s8"), ("r1", "r9"), ("x", "r9"), ("6", "s5")])
def test_an_unknown_id_names_the_nearest(wrong: str, nearest: str) -> None:
    story = Story()
    for id in ("s2", "s5", "s8"):
        story.tell(EventKind.STEP, id)
    story.tell(EventKind.RESTORE, "r9")
    with pytest.raises(UnknownId) as caught:
        story.undo(wrong)
    assert f"is {nearest};" in caught.value.hint_text


def test_an_open_step_is_passed_over_and_named() -> None:
    story = Story()
    done = story.step("A")
    running = story.begin("A", data={"pid": 1}, text="npm run dev")
    choice = story.choice()
    assert (names(choice.targets), names(choice.running)) == ([done], [running])
    story.undo()
    with pytest.raises(NothingToDo, match=rf"{running} \(npm run dev\) is still running, and nothing older"):
        story.undo()
    with pytest.raises(NothingToDo, match="is still running"):
        story.undo(running)
    story.end(running)
    assert story.undo() == [running]


def test_prompt_passes_over_an_open_step() -> None:
    story = Story()
    story.prompt()
    done = story.step()
    running = story.begin(data={"pid": 1})
    choice = story.choice(prompt=True)
    assert (names(choice.targets), names(choice.running)) == ([done], [running])
    story.undo()
    with pytest.raises(NothingToDo, match="is still running"):
        story.undo(prompt=True)


def test_only_without_any_step_undo_means_back_to_the_last_checkpoint() -> None:
    story = Story()
    story.checkpoint()
    last = story.checkpoint()
    story.step(worktree="there")
    assert story.choice().back_to == last
    with pytest.raises(NothingToDo):
        story.choice(session="A")
    with pytest.raises(NothingToDo):
        story.choice(task="t:x")
    with pytest.raises(NothingToDo):
        story.choice(prompt=True)
    with pytest.raises(UnknownId):
        story.choice("s1")
    story.step()
    assert story.choice().back_to is None
    story.undo()
    with pytest.raises(NothingToDo, match="every step in this worktree is already taken back"):
        story.undo()


def test_the_way_back_to_a_checkpoint_is_a_restore_that_undo_takes_back() -> None:
    story = Story()
    last = story.checkpoint()
    assert story.choice().back_to == last
    restore = story.restore(targets=(last,))
    assert story.undo() == [restore]


def test_an_empty_timeline_has_sentences_too() -> None:
    story = Story()
    with pytest.raises(NothingToDo, match="no step was recorded in this worktree") as caught:
        story.undo()
    assert "takeback run" in caught.value.hint_text
    with pytest.raises(NothingToDo, match="no step in this worktree is taken back"):
        story.redo()
    with pytest.raises(UnknownId) as unknown:
        story.redo("s1")
    assert unknown.value.hint_text == "no step was recorded in this worktree yet"


def test_an_unknown_session_is_told_which_there_are() -> None:
    story = Story()
    story.step("A")
    story.step()
    with pytest.raises(NothingToDo) as caught:
        story.undo(session="a")
    assert caught.value.hint_text == "sessions with steps here: A"
    with pytest.raises(NothingToDo) as caught:
        story.undo(task="t:x")
    assert caught.value.hint_text == "`takeback log` lists the steps of this worktree"
