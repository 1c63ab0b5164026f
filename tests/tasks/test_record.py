"""The record of a task: whole lines only, torn ones never were, damage is named; and the settings of tasks."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from takeback import config
from takeback.errors import BadSetting, Damaged, TaskExists, UnknownId
from takeback.tasks.model import TaskOutcome, Wish
from takeback.tasks.record import Folder, Tasks
from takeback.tasks.settings import TaskSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "settings.md"


def begun(tasks: Tasks, id: str, at: int = 1) -> Folder:
    folder = tasks.make(id)
    wish = Wish(id, "do it", ("true",), "command", ("sh",))
    more = {"base": "b" * 40, "branch": f"takeback/{id}", "branch_tip": "", "worktree": b"/w\xff"}
    folder.append("made", at_ns=at, wish=wish, root=b"/r\xff", **more)
    return folder


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path / "tasks")
    folder = begun(tasks, "x")
    folder.append("ready", at_ns=2, before="c1", red=["make"], state={".env": "1"}, notes=[])
    folder.append("attempt", at_ns=3, n=1, session="s", start_tree="t")
    folder.append("saved", at_ns=4, n=1, checkpoint="c2", ref="refs/checkpoints/c2", commits=["a"])
    task = tasks.get("t:x")
    assert (task.root, task.worktree, task.wish.argv) == (b"/r\xff", b"/w\xff", ("sh",))
    assert (task.before, task.red, task.ready, task.outcome) == ("c1", ("make",), True, TaskOutcome.RUNNING)
    assert (task.attempts[0].checkpoint, task.attempts[0].commits, task.attempts[0].judged) == ("c2", ("a",), False)
    assert tasks.checkpoints() == {"c1", "c2"}
    assert tasks.checkpoint_of("t:x/1") == tasks.checkpoint_of("t:x") == "c2"
    with pytest.raises(UnknownId):
        tasks.checkpoint_of("t:x/2")


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_torn_last_line_was_never_there_and_the_next_replaces_it(tmp_path: Path, cut: int) -> None:
    tasks = Tasks(tmp_path)
    folder = begun(tasks, "x")
    whole = folder.record.read_bytes()
    folder.append("cleared", at_ns=2)
    folder.record.write_bytes(folder.record.read_bytes()[:-cut])
    assert [one["event"] for one in folder.events()] == ["made"]
    folder.append("ended", at_ns=3, outcome="failed", reason="r")
    assert folder.record.read_bytes().startswith(whole)
    assert [one["event"] for one in folder.events()] == ["made", "ended"]


def test_a_damaged_line_is_named_and_hides_no_other_task(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path)
    begun(tasks, "good", 2)
    folder = begun(tasks, "bad")
    folder.append("cleared", at_ns=2)
    raw = bytearray(folder.record.read_bytes())
    raw[20] ^= 1
    folder.record.write_bytes(raw)
    with pytest.raises(Damaged, match="line 1"):
        tasks.get("bad")
    assert [task.id for task in tasks.tasks()] == ["good"]


def test_what_a_newer_takeback_wrote_is_skipped(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path)
    folder = begun(tasks, "x")
    folder.append("polished", at_ns=2, how="well")
    folder.append("ready", at_ns=3, before="c1", red=[], state={}, later=1)
    assert tasks.get("x").before == "c1"


def test_a_folder_without_a_line_is_no_task_and_its_name_is_free(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path)
    tasks.make("x")
    assert tasks.all() == []
    begun(tasks, "x")
    with pytest.raises(TaskExists):
        tasks.make("x")
    with pytest.raises(UnknownId, match="y"):
        tasks.get("y")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("setupp = 'x'", "did you mean `setup`"),
        ("setup = 1", "must be a command"),
        ("share = 'x'", "a list of texts"),
        ("share = ['../x']", "directories in the project"),
        ("clone = ['/x']", "directories in the project"),
        ("allow = ['all']", "a list of flags"),
        ("check_timeout = 0", "seconds above 0"),
        ("limit_wait = true", "seconds"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / ".takeback.toml").write_text(f"[checkpoint]\nkeep = 5\n[task]\n{line}\n")
    with pytest.raises(BadSetting) as caught:
        config.load({"HOME": str(tmp_path)}, bytes(tmp_path))
    assert says in f"{caught.value} {caught.value.hint_text}"
    assert caught.value.fields["line"] == 4


def test_the_projects_settings_win_over_the_users(tmp_path: Path) -> None:
    (tmp_path / ".config" / "takeback").mkdir(parents=True)
    (tmp_path / ".config" / "takeback" / "config.toml").write_text("[task]\nsetup = 'mine'\ncheck_timeout = 5\n")
    (tmp_path / ".takeback.toml").write_text("[task]\nsetup = 'theirs'\nallow = ['outside']\n")
    task = config.load({"HOME": str(tmp_path)}, bytes(tmp_path)).task
    assert (task.setup, task.check_timeout, task.allow) == ("theirs", 5.0, ("outside",))


def test_the_page_of_settings_names_every_key_of_tasks() -> None:
    section = PAGE.read_text("utf-8").partition("`[task]`")[2]
    assert {field.name for field in fields(TaskSettings) if f"\n| {field.name} |" not in section} == set()
