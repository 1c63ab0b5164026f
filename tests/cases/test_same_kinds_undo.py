"""More of the kinds of rows 2, 3, 5, 7, 13, 14, 15 and 25: whose work an undo may touch.

Does not cover: git refs (see test_same_kinds_git).
"""

from __future__ import annotations

import os

import pytest

from tests.support import tree
from tests.support.cli import Project, wait_for

KINDS = pytest.mark.parametrize("kind", ["repo", "plain"])


@pytest.fixture
def project(request: pytest.FixtureRequest, kind: str) -> Project:
    found: Project = request.getfixturevalue(kind)
    return found


# (what the step does, what the user does after it, the shell test that must hold after the undo)
BYSTANDERS = {
    "file in a directory the step made": (
        "mkdir new; echo s > new/s",
        "echo u > new/u",
        "[ ! -e new/s ] && [ -e new/u ]",
    ),
    "file in a directory the step emptied": ("rm keys/id", "echo u > keys/u", "[ -e keys/u ] && [ -e keys/id ]"),
    "directory where the step looked": ("ls missing", "mkdir missing; echo u > missing/u", "[ -e missing/u ]"),
    "link where the step looked": ("cat missing", "ln -s nowhere missing", "[ -h missing ]"),
    "same delete by both": ("rm README.md", ":", "[ -e README.md ]"),
    "user put it back": ("rm README.md", "printf '# Project\\n\\nSome words.\\n' > README.md", "[ -e README.md ]"),
    "user removed the step's file": ("echo s > s", "rm s", "[ ! -e s ]"),
    "user edits another file": ("echo s >> README.md", "echo u >> src/app.py", "tail -1 src/app.py | grep -q '^u$'"),
    "user chmods another file": (
        "echo s >> README.md",
        "chmod 600 src/app.py",
        '[ "$(stat -c %a src/app.py)" = 600 ]',
    ),
    "user edits, step chmods": (
        "chmod 600 src/app.py",
        "echo u >> src/app.py",
        "tail -1 src/app.py | grep -q '^u$' && [ \"$(stat -c %a src/app.py)\" = 644 ]",
    ),
    "user chmods, step edits": (
        "echo s >> src/app.py",
        "chmod 600 src/app.py",
        "! grep -q '^s$' src/app.py && [ \"$(stat -c %a src/app.py)\" = 600 ]",
    ),
    "user's empty directory": ("echo s > s", "mkdir mine", "[ -d mine ]"),
    "user's ignored file": (
        "echo s > s",
        "echo u > u.log; mkdir -p build; echo u > build/u",
        "[ -e u.log ] && [ -e build/u ]",
    ),
    "user renames a file the step did not touch": (
        "echo s > s",
        "mv src/app.py src/renamed.py",
        "[ -e src/renamed.py ]",
    ),
    "lines far apart": (
        "sed -i '2s/.*/step/' src/app.py",
        "sed -i '30s/.*/user/' src/app.py",
        "grep -q user src/app.py && ! grep -q step src/app.py",
    ),
    "lines added above and below": (
        "sed -i '20s/.*/step/' src/app.py",
        "sed -i -e '1i top' -e '$a bottom' src/app.py",
        "grep -q top src/app.py && grep -q bottom src/app.py && ! grep -q step src/app.py",
    ),
}  # fmt: skip


@KINDS
@pytest.mark.parametrize("name", BYSTANDERS)
def test_an_undo_keeps_what_the_user_did_beside_the_step(project: Project, name: str) -> None:
    step_script, user_script, holds = BYSTANDERS[name]
    step = project.step(step_script, check=False)
    project.sh(user_script)
    project.tb("undo", step)
    project.sh(holds)


CLASHES = {
    "both rewrote it": ("echo s > README.md", "echo u > README.md", "README.md"),
    "step deleted, user made another": ("rm README.md", "echo u > README.md", "README.md"),
    "step made, user rewrote": ("echo s > new", "echo u > new", "new"),
    "step edited, user deleted": ("echo s >> README.md", "rm README.md", "README.md"),
    "step edited, user made it a link": ("echo s >> README.md", "ln -sf src README.md", "README.md"),
    "step edited, user made it a directory": ("echo s >> README.md", "rm README.md; mkdir README.md", "README.md"),
    "step retargeted a link, user too": ("ln -sfn data link-to-file", "ln -sfn docs link-to-file", "link-to-file"),
    "step deleted a directory, user made it a file": ("rm -r keys", "echo u > keys", "keys"),
    "both changed a binary": ("printf '\\0s' > data/blob.bin", "printf '\\0u' > data/blob.bin", "data/blob.bin"),
    "both chmodded": ("chmod 600 src/app.py", "chmod 640 src/app.py", "src/app.py"),
}


@KINDS
@pytest.mark.parametrize("name", CLASHES)
def test_an_undo_that_clashes_writes_nothing_names_the_path_and_can_leave_it_out(project: Project, name: str) -> None:
    step_script, user_script, path = CLASHES[name]
    step = project.step(f"{step_script}; echo also > also; rm docs/*")
    project.sh(user_script)
    then = project.moment()
    refused = project.tb("undo", step, check=False)
    assert refused.code == 1 and path in refused.text
    assert then.changes() == []
    done = project.tb("undo", step, "--partial", check=False)
    assert any(one == path.encode() or one.startswith(path.encode() + b"/") for one in done.paths("conflicts"))
    assert not project.exists("also") and project.exists("docs/größe.md")
    kept = {where: node for where, node in then.files.items() if where == path.encode()}
    assert {where: tree.node(project.at(where)) for where in kept} == kept


@KINDS
def test_undo_of_a_step_in_the_middle_leaves_the_later_ones(project: Project) -> None:
    project.step("echo 1 > one; sed -i '1s/.*/one/' src/app.py")
    middle = project.step("echo 2 > two; sed -i '20s/.*/two/' src/app.py")
    project.step("echo 3 > three; sed -i '40s/.*/three/' src/app.py")
    project.tb("undo", middle)
    lines = project.read("src/app.py").splitlines()
    assert (lines[0], lines[19], lines[39]) == (b"one", b"line_19 = 19", b"three")
    assert [project.exists(name) for name in ("one", "two", "three")] == [True, False, True]
    project.tb("redo")
    assert project.read("src/app.py").splitlines()[19] == b"two" and project.exists("two")


@KINDS
def test_undoing_everything_one_by_one_gives_the_first_tree_back(project: Project) -> None:
    then = project.moment()
    scripts = [
        "echo 1 > one; mkdir -p a/b/c",
        "mv one a/b/c/; rm README.md",
        "chmod -R go-rwx src; ln -s a/b link",
        "true",
        "rm -r a; echo 2 > a",
        "cp -r src copy; : > src/app.py; rm -r very empty",
        "false",
        "echo again > README.md; rm link-to-file; mkdir link-to-file",
    ]
    for script in scripts:
        project.step(script, check=False)
    for _ in scripts:
        project.tb("undo", "--yes")
    assert then.changes() == []
    assert project.tb("undo", check=False).error == "nothing-to-do"


@KINDS
def test_two_sessions_woven_together_are_undone_each_on_its_own(project: Project) -> None:
    for number in range(3):
        for session in ("left", "right"):
            project.step(f"echo {number} >> {session}; echo {session} > {session}-{number}", "--session", session)
    left = tree.node(project.at("left"))
    for _ in range(3):
        project.tb("undo", "--session", "right")
    assert not project.exists("right") and not project.exists("right-0")
    assert tree.node(project.at("left")) == left and project.exists("left-2")
    assert project.tb("undo", "--session", "right", check=False).error == "nothing-to-do"
    for _ in range(3):
        project.tb("redo", "--session", "right")
    assert project.read("right") == b"0\n1\n2\n"


@KINDS
def test_new_work_of_one_session_leaves_the_redo_line_of_another(project: Project) -> None:
    project.step("echo l > l", "--session", "left")
    project.tb("undo", "--session", "left")
    project.step("echo r > r", "--session", "right")
    project.tb("redo", "--session", "left")
    assert project.exists("l") and project.exists("r")


@KINDS
def test_changes_shared_by_overlapping_steps_are_listed_and_left_unless_asked(project: Project) -> None:
    gate, entered = project.home.path / "gate", project.home.path / "entered"
    script = f"touch {entered}; while [ ! -e {gate} ]; do :; done; echo slow > slow"
    slow = project.start("run", "--json", "--session", "slow", "--", script)
    wait_for(entered.exists)
    project.step("echo quick > quick", "--session", "quick")
    gate.touch()
    slow.communicate(timeout=300)
    done = project.tb("undo", "--session", "slow")
    assert project.exists("quick")
    assert b"quick" in done.paths("shared")
    again = project.tb("undo", "--session", "quick", "--shared", "--dry-run", check=False)
    assert project.exists("quick"), again.text


@KINDS
def test_a_dry_run_changes_nothing_and_tells_the_whole_plan(project: Project) -> None:
    kept = project.checkpoint()
    project.step("echo x >> README.md; rm -r keys; echo n > n; mkdir hollow")
    then = project.moment()
    log = project.tb("log").json
    for arguments in (("undo",), ("restore", kept), ("restore", kept, "README.md")):
        plan = project.tb(*arguments, "--dry-run")
        assert b"README.md" in plan.paths("restored")
        assert then.changes() == []
    assert project.tb("log").json == log
    assert project.tb("undo", "--dry-run").paths("deleted") >= {b"n"}


@KINDS
def test_without_any_step_undo_goes_back_to_the_last_checkpoint_and_never_with_a_scope(project: Project) -> None:
    then = project.moment()
    project.checkpoint()
    project.write("README.md", "by hand\n")
    os.unlink(project.at("keys/id"))
    refused = project.tb("undo", "--session", "nobody", check=False)
    assert refused.code == 1 and refused.error == "nothing-to-do"
    assert project.read("README.md") == b"by hand\n"
    project.tb("undo")
    assert then.changes() == []


@pytest.mark.parametrize("kind", ["repo"])
@pytest.mark.parametrize("wrong", ["c999", "s999", "x1", "", "HEAD", "c", "-1", "c1; rm -rf /", "c" * 300])
@pytest.mark.parametrize("command", ["restore", "undo", "show"])
def test_an_unknown_id_is_a_clear_error_and_changes_nothing(project: Project, command: str, wrong: str) -> None:
    project.checkpoint()
    project.step("echo x > x")
    then = project.moment()
    refused = project.tb(command, "--", wrong, check=False)
    assert refused.code == 2, refused.text
    assert then.changes() == []


@pytest.mark.parametrize("kind", ["repo"])
@pytest.mark.parametrize("wrong", ["c999", "s999", "no-such-path", "HEAD", "c1; rm -rf /"])
def test_a_diff_of_what_is_neither_an_id_nor_a_path_says_so(project: Project, wrong: str) -> None:
    project.checkpoint()
    project.write("README.md", "x\n")
    refused = project.tb("diff", wrong, check=False)
    assert refused.code == 2, refused.text
    assert b"README.md" in project.tb("diff").paths("changes")


@KINDS
def test_an_undo_after_a_crash_of_the_step_itself_takes_back_what_it_had_done(project: Project) -> None:
    then = project.moment()
    done = project.tb("run", "--", "rm -r src; echo x > README.md; kill -9 $$", check=False)
    assert done.code == 137
    project.tb("undo")
    assert then.changes() == []


@KINDS
def test_a_step_keeps_its_exit_code_and_its_arguments(project: Project) -> None:
    assert project.tb("run", "--", "exit 7", check=False).code == 7
    assert project.tb("run", "--", "sh", "-c", 'printf %s "$1" > "$2"', "x", "a  b*", "out put", check=False).code == 0
    assert project.read("out put") == b"a  b*"
    missing = project.tb("run", "--", "no-such-program-anywhere", "x", check=False)
    assert missing.code == 127
