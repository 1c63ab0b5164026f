"""Rows 10, 12, 17 and 23: killed and slow processes, locks, hooks, signing, a snapshot that fails.

Does not cover: kill -9 between any two writes of a restore (see the fault tests).
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import gitstate, tree
from tests.support.cli import PATIENCE, Project, kill_when, make_executable, wait_for
from tests.support.content import damage, make_dirty
from tests.support.slowgit import SCANNING, SlowGit

row = pytest.mark.row


@pytest.fixture
def slow(repo: Project) -> SlowGit:
    return SlowGit(repo.home)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def leftovers(project: Project) -> list[str]:
    """Temporary packs, temporary files and lock files of git in takeback's data, TMPDIR and the project."""
    return [
        os.path.join(directory, name)
        for top in (project.home.data, project.home.temp, project.root)
        for directory, _, names in os.walk(top)
        for name in names
        if name.startswith(("tmp_pack", "tmp_idx", "tmp_obj", ".takeback")) or name.endswith(".lock")
    ]


# Row 10: a slow repository, a snapshot that is ended.


@row(10)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["TERM", "INT", "HUP"])
@pytest.mark.parametrize("command", ["checkpoint", "run"])
def test_ending_a_slow_checkpoint_terminates_git_gently_and_strands_no_lock(
    repo: Project, slow: SlowGit, sign: signal.Signals, command: str
) -> None:
    repo.checkpoint()
    repo.write("src/app.py", "changed\n")
    git = repo.git_raw()
    slow.hold(*SCANNING)
    process = repo.start(command, *(["--", "touch ran"] if command == "run" else []), env=slow.env)
    assert kill_when(process, lambda: bool(slow.log("held")), sign)
    process.wait(PATIENCE)
    held = {int(words[0]): words[1] for words in slow.log("held")}
    running = [held[pid] for pid in held if alive(pid)]
    slow.free()
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert running == [], "a git was left running"
    assert {int(words[0]) for words in slow.log("term")} == set(held), "a git was not ended by SIGTERM"
    assert gitstate.raw_difference(git, repo.git_raw()) == []
    assert not repo.exists("ran")
    repo.git("commit", "-q", "-am", "git still works")
    repo.checkpoint()
    assert leftovers(repo) == []


@row(10)
def test_a_checkpoint_never_takes_the_users_index_lock(repo: Project) -> None:
    make_dirty(repo)
    repo.write(".git/index.lock", "held by somebody's git\n")
    git = repo.git_raw()
    kept = repo.checkpoint()
    assert repo.git_raw() == git
    files = repo.tree()
    repo.write("src/app.py", "x\n")
    repo.tb("restore", kept)
    assert tree.difference(files, repo.tree()) == []
    assert repo.read(".git/index.lock") == b"held by somebody's git\n"


@row(10)
def test_a_restore_that_must_change_a_locked_index_refuses_before_it_writes(repo: Project) -> None:
    kept = repo.checkpoint()
    repo.sh("echo x > src/app.py; git add src")
    lock = repo.write(".git/index.lock", "")
    then = repo.moment()
    refused = repo.tb("restore", kept, check=False)
    assert refused.code == 1 and refused.error == "index-locked"
    assert then.changes() == []
    os.unlink(lock)
    repo.tb("restore", kept)
    assert repo.git("diff", "--cached") == b""


@row(10)
def test_a_step_past_its_timeout_gets_sigterm_first_and_is_recorded(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb(
        "run",
        "--no-rollback",
        "--timeout",
        "1",
        "--",
        "trap 'echo asked >> README.md; exit 3' TERM; echo x > x; while :; do sleep 0.05; done",
        check=False,
    )
    assert done.code == 124
    assert repo.read("README.md").endswith(b"asked\n")
    repo.tb("undo")
    assert then.changes() == []


# Row 12: kill -9 with a repository inside.


@row(12)
@pytest.mark.parametrize("word", [*SCANNING, "commit-tree", "update-ref", "index-pack", "pack-objects", "hash-object"])
def test_kill_9_in_a_checkpoint_leaves_every_git_directory_as_it_was(repo: Project, slow: SlowGit, word: str) -> None:
    inner = repo.home.project(repo.at("src/inner"))
    inner.write("inside.txt", "i\n")
    inner.git("init", "-q")
    inner.git("add", "-A")
    inner.git("commit", "-q", "-m", "inside")
    inner.write("inside.txt", "dirty\n")
    make_dirty(repo)
    files, git, inner_git = repo.tree(), repo.git_raw(), inner.git_raw()
    slow.hold(word)
    process = repo.start("checkpoint", env=slow.env)
    killed = kill_when(process, lambda: bool(slow.log("held")))
    process.wait(PATIENCE)
    assert killed or process.returncode == 0  # 0: a checkpoint does not use this git command
    slow.free()
    process.communicate()
    for pid in {int(words[0]) for words in slow.log("held")}:
        wait_for(lambda pid=pid: not alive(pid))
    assert tree.difference(files, repo.tree()) == []
    assert (repo.git_raw(), inner.git_raw()) == (git, inner_git)
    kept = repo.checkpoint()
    then, inner_then = repo.moment(), inner.moment()
    damage(repo)
    inner.write("inside.txt", "ruined\n")
    repo.tb("restore", kept)
    assert then.changes() + inner_then.changes() == []


@row(12)
@pytest.mark.parametrize("milliseconds", [5, 40, 90, 150, 220, 300])
def test_kill_9_at_any_time_leaves_project_and_store_usable(repo: Project, milliseconds: int) -> None:
    for number in range(400):
        repo.write(f"many/{number % 13}/{number}", f"{number}\n")
    first = repo.checkpoint()
    first_then = repo.moment()
    repo.sh("for f in many/*/*; do echo more >> $f; done; rm -r keys")
    files, git = repo.tree(), repo.git_raw()
    process = repo.start("checkpoint")
    try:
        process.wait(milliseconds / 1000)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate(timeout=PATIENCE)
    assert tree.difference(files, repo.tree()) == []
    assert repo.git_raw() == git
    second = repo.checkpoint()
    second_then = repo.moment()
    repo.tb("restore", first, "--yes")
    assert first_then.changes() == []
    repo.tb("restore", second, "--yes")
    assert second_then.changes() == []


# Row 17: locks of the dead and of the slow.


@row(17)
def test_a_lock_left_by_a_killed_process_is_no_obstacle(repo: Project, slow: SlowGit) -> None:
    slow.hold(*SCANNING)
    process = repo.start("checkpoint", env=slow.env)
    assert kill_when(process, lambda: bool(slow.log("held")))
    process.wait(PATIENCE)
    # The held children live on, as children of a killed process do; they must not count as owners.
    repo.checkpoint()
    slow.free()
    process.communicate()


@row(17)
def test_a_slow_process_that_is_alive_keeps_its_lock_however_old_it_looks(repo: Project, slow: SlowGit) -> None:
    repo.home.set("lock_wait = 1")
    slow.hold(*SCANNING)
    process = repo.start("checkpoint", "--json", env=slow.env)
    wait_for(lambda: bool(slow.log("held")))
    for directory, names, files in os.walk(repo.home.data):
        for name in [*names, *files]:
            os.utime(os.path.join(directory, name), (1, 1), follow_symlinks=False)
    refused = repo.tb("checkpoint", check=False)
    assert refused.code == 1 and refused.error == "busy"
    assert str(process.pid) in refused.text
    slow.free()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    repo.checkpoint()


@row(17)
def test_a_lock_file_with_the_pid_of_a_stranger_is_not_believed(repo: Project) -> None:
    repo.checkpoint()
    locks = [Path(directory) / "lock" for directory, _, names in os.walk(repo.home.data) if "lock" in names]
    assert locks
    for lock in locks:
        lock.write_text('{"pid": 1, "start": 1, "what": "somebody long dead"}')
    repo.write("src/app.py", "x\n")
    assert repo.tb("checkpoint")["new"] is True


@row(17)
def test_two_checkpoints_at_once_both_succeed(repo: Project) -> None:
    make_dirty(repo)
    git = repo.git_raw()
    both = [repo.start("checkpoint", "--json") for _ in range(2)]
    ended = [process.communicate(timeout=PATIENCE) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    assert repo.git_raw() == git


# Row 23: signing, identity, hooks, failing snapshots.

HOOKS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "post-index-change",
    "reference-transaction",
    "push-to-checkout",
    "fsmonitor-watchman",
)


def hostile_config(project: Project, mark: Path) -> None:
    """Signing with a program that must not run, no identity, failing hooks, a pager, an fsmonitor, aliases."""
    trap = project.home.path / "trap"
    make_executable(trap, f"#!/bin/sh\necho \"$0 $*\" >> '{mark}'\nexit 1\n")
    hooks = project.home.path / "hooks"
    hooks.mkdir()
    for name in HOOKS:
        make_executable(hooks / name, f"#!/bin/sh\necho '{name}' >> '{mark}'\nexit 1\n")
        make_executable(
            os.fsdecode(project.at(f".git/hooks/{name}")), f"#!/bin/sh\necho '{name}' >> '{mark}'\nexit 1\n"
        )
    settings = {
        "commit.gpgSign": "true",
        "tag.gpgSign": "true",
        "gpg.program": str(trap),
        "core.hooksPath": str(hooks),
        "core.fsmonitor": str(trap),
        "core.pager": str(trap),
        "core.editor": str(trap),
        "core.sshCommand": str(trap),
        "core.askPass": str(trap),
        "credential.helper": str(trap),
        "diff.external": str(trap),
        "interactive.diffFilter": str(trap),
        "alias.status": f"!{trap}",
        "alias.ls-files": f"!{trap}",
        "gc.auto": "1",
        "maintenance.auto": "true",
        "user.useConfigOnly": "true",
        "init.templateDir": str(hooks),
        "status.submoduleSummary": "true",
        "index.recordEndOfIndexEntries": "false",
        "color.ui": "always",
    }
    (project.home.path / ".gitconfig").write_text("")
    for key, value in settings.items():
        project.home.call(project.root, "git", "config", "--global", key, value)
    # Local ones too: what a cloned project brings along.
    for key in ("core.fsmonitor", "core.hooksPath", "gpg.program", "commit.gpgSign"):
        project.home.call(project.root, "git", "config", "--local", key, settings[key])


@row(23)
def test_signing_hooks_and_a_missing_identity_neither_run_nor_stop_a_checkpoint(repo: Project, tmp_path: Path) -> None:
    make_dirty(repo)
    mark = tmp_path / "ran"
    hostile_config(repo, mark)
    files, git = repo.tree(), repo.git_raw()
    made = repo.tb("checkpoint")
    assert made["new"] is True and made["files"] > 10
    assert not mark.exists(), mark.read_text()
    assert repo.git_raw() == git
    damage(repo)
    repo.tb("restore", made["id"])
    assert tree.difference(files, repo.tree()) == []
    step = repo.step("rm -r src keys")
    repo.tb("undo", step)
    assert tree.difference(files, repo.tree()) == []
    assert not mark.exists(), mark.read_text()


@row(23)
@pytest.mark.parametrize("command", ["restore", "undo", "run"])
@pytest.mark.parametrize("word", [*SCANNING, "commit-tree", "index-pack", "update-ref", "cat-file"])
def test_when_the_snapshot_fails_nothing_that_would_follow_is_done(
    repo: Project, slow: SlowGit, command: str, word: str
) -> None:
    repo.write("loose.txt", "l\n")
    kept = repo.checkpoint()
    repo.step("echo x >> README.md; rm loose.txt; echo n > new.txt")
    repo.write("by-hand.txt", "by hand\n")
    repo.write("src/app.py", "by hand\n")
    then = repo.moment()
    slow.fail(word)
    arguments = {"restore": [kept], "undo": [], "run": ["--", "touch ran"]}[command]
    done = repo.tb(command, *arguments, env=slow.env, check=False)
    slow.free()
    if done.code == 0:
        assert not any(word in words for words in slow.log("start")), f"git {word} failed and nobody noticed"
        return
    assert done.code == 1 and done.error, done.text
    assert then.changes() == []
    assert not repo.exists("ran")
    repo.tb("restore", kept)
    assert repo.read("loose.txt") == b"l\n"


@row(23)
def test_without_git_there_is_a_clear_error_and_nothing_is_done(repo: Project, tmp_path: Path) -> None:
    nowhere = tmp_path / "empty-path"
    nowhere.mkdir()
    then = repo.moment()
    for arguments in (["checkpoint"], ["run", "--", "touch ran"], ["undo"]):
        done = repo.tb(*arguments, env={"PATH": str(nowhere)}, check=False)
        assert done.code == 1 and done.error == "git-missing", done.text
    assert then.changes() == []
