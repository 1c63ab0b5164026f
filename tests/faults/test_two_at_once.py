"""Several takebacks at work at the same time: on one worktree, on linked worktrees, and one that will not end.

Does not cover: several machines on one network filesystem.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.support.cli import Project, wait_for
from tests.support.slowgit import SCANNING, SlowGit

from .killing import doctor_says, leftovers


def _end(process: subprocess.Popen[bytes]) -> dict[str, object]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, (process.args, out, err)
    answer = json.loads(out.strip().rsplit(b"\n", 1)[-1])
    assert isinstance(answer, dict)
    return answer


def test_checkpoints_at_the_same_time_all_hold_the_whole_tree(repo: Project) -> None:
    repo.checkpoint()
    repo.write("src/app.py", "before both\n")
    was = repo.moment()
    running = [repo.start("checkpoint", "--json", "-m", str(number)) for number in range(4)]
    ids = {str(_end(one)["id"]) for one in running}
    for id in ids:
        repo.write("src/app.py", "wrecked\n")
        repo.tb("restore", id, "--yes")
        assert was.changes() == []
    assert doctor_says(repo) == []


def test_first_checkpoints_at_the_same_time_make_one_store(repo: Project) -> None:
    was = repo.moment()
    running = [repo.start("checkpoint", "--json") for _ in range(4)]
    ids = {str(_end(one)["id"]) for one in running}
    repo.write("src/app.py", "wrecked\n")
    repo.tb("restore", sorted(ids)[0], "--yes")
    assert was.changes() == []
    assert doctor_says(repo) == []


def test_an_undo_and_a_checkpoint_at_the_same_time_come_one_after_the_other(repo: Project) -> None:
    repo.checkpoint()
    was = repo.moment()
    repo.step("echo wrecked > src/app.py; rm src/lib/util.py; echo T=2 > .env")
    wrecked = repo.moment()
    undo, checkpoint = repo.start("undo", "--json"), repo.start("checkpoint", "--json", "-m", "beside it")
    _end(undo)
    id = str(_end(checkpoint)["id"])
    assert was.changes() == []
    assert leftovers(repo) == []
    repo.write("src/app.py", "again\n")
    repo.tb("restore", id, "--yes")
    assert not was.changes() or not wrecked.changes()
    assert doctor_says(repo) == []


def test_two_undos_at_the_same_time_take_back_two_steps(repo: Project) -> None:
    repo.checkpoint()
    was = repo.moment()
    repo.step("echo one > src/app.py")
    repo.step("echo two > src/lib/util.py")
    for one in [repo.start("undo", "--json"), repo.start("undo", "--json")]:
        _end(one)
    assert was.changes() == []
    assert doctor_says(repo) == []


def test_steps_that_overlap_own_the_paths_they_name(repo: Project) -> None:
    repo.write("one.txt", "one\n")
    repo.write("two.txt", "two\n")
    repo.checkpoint()
    go = repo.home.path / "go"
    scripts = {}
    for name in ("one", "two"):
        script = repo.home.path / f"{name}.sh"
        script.write_text(
            f'touch "{go}.{name}"; while [ ! -e "{go}" ]; do sleep 0.02; done; '
            f'echo by {name} > "$1"; echo x > shared-{name}\n'
        )
        scripts[name] = script
    running = {
        name: repo.start("run", "--json", "--session", name, "--", "sh", str(script), f"{name}.txt")
        for name, script in scripts.items()
    }
    wait_for(lambda: all(Path(f"{go}.{name}").exists() for name in scripts))
    go.touch()
    steps = {name: str(_end(one)["id"]) for name, one in running.items()}
    assert repo.read("one.txt") == b"by one\n" and repo.read("two.txt") == b"by two\n"
    result = repo.tb("undo", steps["one"])
    assert repo.read("one.txt") == b"one\n"
    assert repo.read("two.txt") == b"by two\n"
    assert {b"shared-one", b"shared-two"} <= result.paths("shared") | {b"shared-one", b"shared-two"}
    assert repo.exists("shared-one") and repo.exists("shared-two")
    repo.tb("undo", "--session", "two")
    assert repo.read("two.txt") == b"two\n"
    assert doctor_says(repo) == []


def test_linked_worktrees_share_a_store_and_lose_nothing(repo: Project, tmp_path: Path) -> None:
    trees = [repo]
    for number in range(3):
        repo.git("worktree", "add", "-q", "-b", f"w{number}", str(tmp_path / f"w{number}"))
        trees.append(repo.home.project(tmp_path / f"w{number}"))
    ids: list[tuple[Project, str, bytes]] = []
    for turn in range(3):
        running = []
        for number, tree in enumerate(trees):
            text = f"tree {number} turn {turn}\n".encode()
            tree.write("src/app.py", text)
            tree.write(f"own-{number}.txt", text)
            running.append((tree, tree.start("checkpoint", "--json"), text))
        ids += [(tree, str(_end(process)["id"]), text) for tree, process, text in running]
    names = [id for _, id, _ in ids]
    assert len(set(names)) == len(names)
    assert len(list((repo.home.data / "projects").iterdir())) == 1
    for tree, id, text in ids:
        tree.tb("restore", id, "--yes")
        assert tree.read("src/app.py") == text
        assert tree.read(f"own-{trees.index(tree)}.txt") == text
    for tree in trees:
        assert doctor_says(tree) == []
    roots = json.loads(next((repo.home.data / "projects").glob("*/project.json")).read_text())["roots"]
    assert set(roots) == {tree.root for tree in trees}


def test_first_checkpoints_of_several_worktrees_at_the_same_time_know_all_roots(repo: Project, tmp_path: Path) -> None:
    trees = [repo]
    for number in range(3):
        repo.git("worktree", "add", "-q", "-b", f"w{number}", str(tmp_path / f"w{number}"))
        trees.append(repo.home.project(tmp_path / f"w{number}"))
    ids = [str(_end(process)["id"]) for process in [tree.start("checkpoint", "--json") for tree in trees]]
    assert len(set(ids)) == len(ids)
    roots = json.loads(next((repo.home.data / "projects").glob("*/project.json")).read_text())["roots"]
    assert set(roots) == {tree.root for tree in trees}


def _settings(repo: Project, text: str) -> None:
    repo.home.settings.parent.mkdir(parents=True, exist_ok=True)
    repo.home.settings.write_text(text)


def test_a_slow_owner_of_the_lock_is_named(repo: Project) -> None:
    repo.checkpoint()
    repo.write("src/app.py", "changed\n")
    _settings(repo, "[checkpoint]\nlock_wait = 0.2\n")
    slow = SlowGit(repo.home)
    slow.hold(*SCANNING)
    owner = repo.start("checkpoint", "--json", env=slow.env)
    try:
        wait_for(lambda: bool(slow.log("held")))
        result = repo.tb("undo", check=False)
        assert result.error == "busy", result.text
        assert f"process {owner.pid}" in result.text and "checkpoint" in result.text
        assert any(f"process {owner.pid}" in one for one in doctor_says(repo))
    finally:
        slow.free()
        _end(owner)
    repo.checkpoint()
    assert doctor_says(repo) == []


def test_the_lock_of_a_dead_owner_is_free_at_once(repo: Project) -> None:
    repo.checkpoint()
    repo.write("src/app.py", "changed\n")
    _settings(repo, "[checkpoint]\nlock_wait = 0\n")
    slow = SlowGit(repo.home)
    slow.hold(*SCANNING)
    owner = repo.start("checkpoint", "--json", env=slow.env)
    try:
        wait_for(lambda: bool(slow.log("held")))
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        was = repo.moment()
        id = repo.checkpoint()
    finally:
        slow.free()
        owner.communicate()
    repo.write("src/app.py", "wrecked\n")
    repo.tb("restore", id, "--yes")
    assert was.changes() == []
    assert doctor_says(repo) == []


def test_a_step_that_is_killed_can_be_taken_back(repo: Project) -> None:
    repo.checkpoint()
    was = repo.moment()
    ready = repo.home.path / "ready"
    stop = repo.home.path / "stop"
    script = f"echo wrecked > src/app.py; touch {ready}; while [ ! -e {stop} ]; do sleep 0.05; done"
    step = repo.start("run", "--json", "--", script)
    try:
        wait_for(ready.exists)
        os.kill(step.pid, signal.SIGKILL)
        step.wait()
    finally:
        stop.touch()
        step.communicate()
    repo.tb("undo")
    assert was.changes() == []
    assert doctor_says(repo) == []
