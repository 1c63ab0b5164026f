"""Rows 1-7, 14 and 15: what the undone step did not make stays; what a restore removes can be had back.

Does not cover: git's own state (see test_rows_git).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import tree
from tests.support.cli import Project, wait_for
from tests.support.content import make_dirty

row = pytest.mark.row


# Row 1: an uncommitted ignore rule.


@row(1)
@pytest.mark.parametrize("kind", [(), ("--no-state",)], ids=["state", "files"])
@pytest.mark.parametrize("rules", [".gitignore", ".git/info/exclude", "src/.gitignore"])
def test_what_an_uncommitted_ignore_rule_covers_is_untouched_by_a_restore(
    repo: Project, kind: tuple[str, ...], rules: str
) -> None:
    folder = "src/data" if rules.startswith("src/") else "data2"
    old = repo.read(rules) if repo.exists(rules) else b""
    repo.write(rules, old + b"data/\ndata2/\n")
    repo.write(f"{folder}/big.csv", b"1,2,3\n" * 1000)
    repo.write("one-untracked.txt", "u\n")
    kept = repo.checkpoint(*kind)
    then = repo.moment()
    repo.write("README.md", "edited\n")
    repo.write("one-untracked.txt", "edited\n")
    repo.tb("restore", kept)
    assert then.changes() == []


@row(1)
@pytest.mark.parametrize("kind", [(), ("--no-state",)], ids=["state", "files"])
def test_a_restore_over_a_step_that_threw_the_rule_away_keeps_what_was_ignored(
    repo: Project, kind: tuple[str, ...]
) -> None:
    repo.write(".gitignore", repo.read(".gitignore") + b"data2/\n")
    repo.write("data2/big.csv", b"1,2,3\n" * 1000)
    kept = repo.checkpoint(*kind)
    then = repo.moment()
    repo.sh("git checkout -q -- .gitignore && echo edited > README.md")
    repo.tb("restore", kept)
    assert then.changes() == []


@row(1)
def test_files_made_under_a_rule_newer_than_the_checkpoint_can_always_be_had_back(repo: Project) -> None:
    kept = repo.checkpoint("--no-state")
    repo.write(".gitignore", repo.read(".gitignore") + b"data2/\n")
    repo.write("data2/big.csv", b"1,2,3\n" * 1000)
    before = tree.node(repo.at("data2/big.csv"))
    done = repo.tb("restore", kept)
    if not repo.exists("data2/big.csv"):
        assert b"data2/big.csv" in done.paths("deleted")
    repo.take_back(done)
    assert tree.node(repo.at("data2/big.csv")) == before


# Row 2: another process's files.


@row(2)
def test_undo_leaves_alone_what_another_process_wrote_after_the_step(repo: Project) -> None:
    step = repo.step("echo x >> README.md")
    repo.write("out/x", os.urandom(1 << 20))
    repo.write("src/more.py", "by hand\n")
    there = tree.fingerprint(repo.at("out")), tree.node(repo.at("src/more.py"))
    done = repo.tb("undo", step)
    assert (tree.fingerprint(repo.at("out")), tree.node(repo.at("src/more.py"))) == there
    assert done["deleted"] == []


@row(2)
def test_every_file_that_a_restore_deletes_is_in_its_own_checkpoint(repo: Project) -> None:
    kept = repo.checkpoint()
    repo.write("out/x", os.urandom(8 << 20))
    repo.write("out/deep/y", "y\n", mode=0o600)
    os.makedirs(repo.at("out/hollow"))
    then = repo.moment()
    done = repo.tb("restore", kept)
    assert {b"out/x", b"out/deep/y"} <= done.paths("deleted")
    assert not repo.exists("out")
    repo.take_back(done)
    assert then.changes() == []


@row(2)
def test_what_a_restore_deleted_can_be_taken_from_its_checkpoint_alone(repo: Project, tmp_path: Path) -> None:
    kept = repo.checkpoint()
    repo.write("out/x", b"precious")
    done = repo.tb("restore", kept)
    repo.tb("restore", done["checkpoint"], "--to", str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / "out" / "x").read_bytes() == b"precious"


# Row 3: two sessions in one tree.


@row(3)
@pytest.mark.parametrize("idle", ["true", "cat README.md", "git status", "ls -la src"])
def test_undo_of_a_session_that_changed_nothing_says_so_and_leaves_the_other_sessions_work(
    repo: Project, idle: str
) -> None:
    repo.step("echo A > a.txt; echo A >> README.md", "--session", "A")
    repo.step(idle, "--session", "B")
    then = repo.moment()
    said = repo.tb("undo", "--session", "B", "--dry-run", as_json=False)
    assert re.search(r"nothing|no change|changed no", said.text, re.I), said.text
    done = repo.tb("undo", "--session", "B")
    assert done["restored"] == [] and done["deleted"] == []
    assert then.changes() == []


@row(3)
def test_undo_of_an_idle_session_leaves_what_another_wrote_while_it_ran(repo: Project) -> None:
    gate = repo.home.path / "gate"
    slow = repo.start("run", "--json", "--session", "B", "--", f"touch {gate}.in; while [ ! -e {gate} ]; do :; done")
    wait_for((repo.home.path / "gate.in").exists)
    repo.step("echo A > a.txt; echo A >> README.md", "--session", "A")
    gate.touch()
    out, err = slow.communicate(timeout=300)
    assert slow.returncode == 0, (out, err)
    then = repo.moment()
    done = repo.tb("undo", "--session", "B")
    assert done["restored"] == [] and done["deleted"] == []
    assert then.changes() == []


@row(3)
def test_undo_of_one_session_leaves_the_other_sessions_file(repo: Project) -> None:
    repo.step("echo A > a.txt", "--session", "A")
    repo.step("echo B > b.txt", "--session", "B")
    repo.step("echo A >> README.md", "--session", "A")
    repo.tb("undo", "--session", "B")
    assert not repo.exists("b.txt")
    assert repo.read("a.txt") == b"A\n" and repo.read("README.md").endswith(b"A\n")


# Row 4: a step that changes nothing.


@row(4)
@pytest.mark.parametrize("idle", ["true", "false", "grep -r line src | head -1", "cp README.md /dev/null"])
def test_undo_of_a_step_that_changed_nothing_leaves_a_dirty_tree_byte_identical(repo: Project, idle: str) -> None:
    make_dirty(repo)
    files, git = repo.tree(), repo.git_raw()
    step = repo.step(idle, check=False)
    done = repo.tb("undo", step)
    assert done["restored"] == [] and done["deleted"] == []
    assert tree.difference(files, repo.tree()) == []
    assert git == repo.git_raw()


# Row 5: a file that the step looked for and did not find.


@row(5)
@pytest.mark.parametrize("script", ["cat f", "test -e f", "rm -f f", ": < f", "[ -f f ] && cat f"])
def test_a_file_made_by_the_user_after_a_step_missed_it_survives_the_undo(repo: Project, script: str) -> None:
    step = repo.step(script, check=False)
    repo.write("f", "made by the user\n", mode=0o640)
    made = tree.node(repo.at("f"))
    repo.tb("undo", step)
    assert tree.node(repo.at("f")) == made


@row(5)
def test_a_file_made_by_the_user_survives_the_undo_of_a_step_that_also_changed_others(repo: Project) -> None:
    step = repo.step("cat f; echo z > z; echo z >> README.md", check=False)
    repo.write("f", "made by the user\n")
    then = tree.node(repo.at("f"))
    repo.tb("undo", step)
    assert tree.node(repo.at("f")) == then and not repo.exists("z")


# Row 6: changes made through the shell.

SHELL_DAMAGE = {
    "rm": "rm README.md",
    "rm -rf": "rm -rf src keys very",
    "sed -i": "sed -i s/line_1/LINE/ src/app.py",
    "a script": "printf '#!/bin/sh\\nrm -r docs; echo > data/blob.bin\\n' > $TMPDIR/s; sh $TMPDIR/s; rm $TMPDIR/s",
    "python": 'python3 -c \'import shutil, os; shutil.rmtree("src/lib"); os.symlink("..", "src/lib")\'',
    "mv": "mv src moved; mv README.md docs/",
    "redirect": ": > src/app.py; echo more >> keys/id",
    "truncate": "truncate -s 3 data/blob.bin",
    "dd": "dd if=/dev/zero of=data/blob.bin bs=1 seek=5 count=9 conv=notrunc 2>/dev/null",
    "chmod": "chmod -R go= . ; chmod 4755 bin/run.sh",
    "ln -sf": "ln -sfn data link-to-directory; ln -sf keys/id README.md",
    "tar": "tar cf $TMPDIR/t src && rm -r src && tar xf $TMPDIR/t -C data && rm $TMPDIR/t",
    "find -delete": "find src docs -type f -delete",
    "xargs": "ls | grep -v '^src' | xargs rm -rf",
    "everything but .git": "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +",
    "same size, same mtime": "touch -r README.md k; tr a-z A-Z < README.md > t; cat t > README.md;"
    " touch -r k README.md; rm k t",
    "rename over": "cp src/app.py n; echo 1 >> n; mv n src/app.py",
    "ignored too": "rm -rf build .env debug.log ignored-dir",
    "rmdir": "rmdir empty; rm -r very; mkdir keys/new scratch/hollow",
}


@row(6)
@pytest.mark.parametrize("name", SHELL_DAMAGE)
def test_what_a_step_does_through_the_shell_is_taken_back_exactly(repo: Project, name: str) -> None:
    then = repo.moment()
    step = repo.step(SHELL_DAMAGE[name])
    assert tree.difference(then.files, repo.tree()) != []
    repo.tb("undo", step, "--yes")
    assert then.changes() == []


# Row 7: a hand edit after the step.


@row(7)
def test_a_hand_edit_lost_to_a_restore_comes_back_when_the_restore_is_undone(repo: Project) -> None:
    kept = repo.checkpoint()
    repo.step("echo step > f; echo step >> README.md")
    repo.write("f", "edited by hand\n", mode=0o600)
    repo.write("README.md", "rewritten by hand\n")
    then = repo.moment()
    done = repo.tb("restore", kept)
    assert not repo.exists("f")
    assert done["checkpoint"]
    repo.take_back(done)
    assert then.changes() == []


@row(7)
def test_plain_undo_after_a_restore_gives_the_hand_edit_back(repo: Project) -> None:
    kept = repo.checkpoint()
    repo.step("echo step > f")
    repo.write("f", "edited by hand\n")
    then = repo.moment()
    repo.tb("restore", kept)
    repo.tb("undo")
    assert then.changes() == []


@row(7)
def test_undo_of_the_step_keeps_a_hand_edit_in_other_lines_of_the_same_file(repo: Project) -> None:
    before = repo.read("src/app.py")
    step = repo.step("sed -i '2s/.*/by_step = 1/' src/app.py")
    repo.write("src/app.py", repo.read("src/app.py") + b"by_hand = 1\n")
    repo.tb("undo", step)
    assert repo.read("src/app.py") == before + b"by_hand = 1\n"


@row(7)
@pytest.mark.parametrize(
    ("script", "by_hand"),
    [
        ("echo step > f", b"hand\n"),
        ("sed -i '2s/.*/by_step = 1/' src/app.py", None),
        ("printf '\\0step' > data/blob.bin", b"\0hand"),
    ],
    ids=["new file", "same line", "binary"],
)
def test_undo_that_would_lose_a_hand_edit_writes_nothing_and_names_the_file(
    repo: Project, script: str, by_hand: bytes | None
) -> None:
    path = re.findall(r"[\w/.]+$", script)[0]
    step = repo.step(f"{script}; echo also > other")
    repo.write(path, by_hand if by_hand is not None else repo.read(path).replace(b"by_step = 1", b"by_hand = 2"))
    then = repo.moment()
    refused = repo.tb("undo", step, check=False)
    assert refused.code == 1
    assert path in refused.text
    assert then.changes() == []
    partial = repo.tb("undo", step, "--partial", check=False)
    assert os.fsencode(path) in partial.paths("conflicts")
    assert tree.node(repo.at(path)) == then.files[os.fsencode(path)]
    assert not repo.exists("other")


# Row 14: a step that ran below the root.


@row(14)
def test_undo_of_a_session_in_one_directory_leaves_the_others_alone(repo: Project) -> None:
    for folder in ("frontend", "backend"):
        repo.write(f"{folder}/main.js", "1\n2\n3\n")
    repo.git("add", "frontend", "backend")
    repo.git("commit", "-q", "-m", "two halves")
    repo.checkpoint()
    repo.write("backend/main.js", "newer work by hand\n")
    repo.tb("run", "--session", "front", "--", "echo 4 >> main.js; echo n > new.js", cwd="frontend")
    repo.write("backend/later.js", "even newer\n")
    backend = tree.fingerprint(repo.at("backend"))
    done = repo.tb("undo", "--session", "front", cwd="frontend")
    assert tree.difference(backend, tree.fingerprint(repo.at("backend"))) == []
    assert repo.read("frontend/main.js") == b"1\n2\n3\n" and not repo.exists("frontend/new.js")
    assert done.paths("restored") | done.paths("deleted") <= {b"frontend/main.js", b"frontend/new.js", b"frontend"}


@row(14)
def test_a_step_run_in_a_directory_is_undone_wherever_it_wrote(repo: Project) -> None:
    then = repo.moment()
    repo.tb("run", "--", "echo x > ../docs/new; rm ../README.md", cwd="src")
    repo.tb("undo", cwd="data")
    assert then.changes() == []


# Row 15: an old step.


@row(15)
def test_undo_of_an_old_step_takes_back_only_its_own_change(repo: Project) -> None:
    old = repo.step("sed -i '1s/.*/old = 1/' src/app.py", "-m", "the old step")
    for number in range(5):
        repo.write(f"work/{number}.py", f"n = {number}\n" * 300)
        repo.git("add", "work")
        repo.git("commit", "-q", "-m", f"work {number}")
    head, work = repo.git("rev-parse", "HEAD"), tree.fingerprint(repo.at("work"))
    done = repo.tb("undo", old)
    assert tree.difference(work, tree.fingerprint(repo.at("work"))) == []
    assert repo.git("rev-parse", "HEAD") == head
    assert repo.read("src/app.py").startswith(b"line_0 = 0\n")
    assert done.paths("restored") == {b"src/app.py"} and done["deleted"] == []


@row(15)
@pytest.mark.parametrize("command", ["undo", "restore"])
def test_a_preview_shows_age_text_and_size_of_what_would_go(repo: Project, command: str) -> None:
    kept = repo.checkpoint("-m", "before the words")
    step = repo.step("echo 1 >> README.md; echo 2 > new.txt", "-m", "add some words")
    then = repo.moment()
    target = step if command == "undo" else kept
    said = repo.tb(command, target, "--dry-run", as_json=False).text
    assert ("add some words" if command == "undo" else "before the words") in said
    assert re.search(r"\bago\b|just now|seconds?|\d+ ?s\b", said), said
    assert "README.md" in said and "new.txt" in said
    plan = repo.tb(command, target, "--dry-run")
    assert plan.paths("restored") | plan.paths("deleted") >= {b"README.md", b"new.txt"}
    assert then.changes() == []
