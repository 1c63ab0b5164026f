"""The commands on a real project, through real processes: what they print, where, and how they end.

Does not cover: whether a checkpoint or an undo is exact (see tests/cases).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.terminal import on_terminal
from tests.support.cli import PATIENCE, Home, Project, wait_for

TAKING_BACK = {
    "schema", "id", "dry_run", "targets", "restored", "deleted", "conflicts", "shared", "not_covered", "not_undone",
    "notes", "exact", "checkpoint", "undo_with",
}  # fmt: skip


@pytest.fixture
def done(repo: Project) -> Project:
    """A repository with one step, s-something, that changed README.md and made new.txt."""
    repo.step("echo more >> README.md; echo new > new.txt")
    return repo


def words(project: Project, *args: str, code: int = 0) -> str:
    """Return what a person reads on stdout."""
    said = project.tb(*args, as_json=False, check=False)
    assert said.code == code, said.text
    return said.out.decode()


def test_checkpoint_has_its_fields_and_names_an_unchanged_one_again(repo: Project) -> None:
    first, second = repo.tb("checkpoint", "-m", "one"), repo.tb("checkpoint")
    assert set(first.json) == {"schema", "id", "kind", "ref", "tree", "new", "files", "not_covered", "ms"}
    assert first["kind"] == "state"
    assert first["ref"] == f"refs/checkpoints/{first['id']}"
    assert (first["new"], second["new"], second["id"]) == (True, False, first["id"])


def test_checkpoint_says_how_to_come_back(repo: Project) -> None:
    said = words(repo, "checkpoint")
    assert f"Come back to it with: takeback restore {said.split()[0]}\n" in said


def test_checkpoint_quietly_prints_only_the_id(repo: Project) -> None:
    assert words(repo, "-q", "checkpoint") == f"{repo.checkpoint()}\n"


def test_checkpoint_without_state_is_of_the_light_kind(repo: Project) -> None:
    assert repo.tb("checkpoint", "--no-state")["kind"] == "files"


def test_run_ends_with_the_code_of_the_step(repo: Project) -> None:
    assert repo.tb("run", "--", "exit 7", check=False).code == 7
    assert repo.tb("run", "--", "sh", "-c", "exit 3", as_json=False, check=False).code == 3


def test_run_takes_several_words_as_they_are(repo: Project) -> None:
    said = repo.tb("run", "printf", "%s|", "a b", "$HOME", "--json", as_json=False)
    assert said.out == b"a b|$HOME|--json|"


def test_run_keeps_the_output_of_the_step_out_of_the_json(repo: Project) -> None:
    said = repo.tb("run", "--", "echo to-stdout; echo to-stderr >&2")
    fields = "schema id before after exit timed_out changed ms undo_with class reason checkpoint covers checks"
    assert set(said.json) == {*fields.split(), "rolled_back", "not_rolled_back", "escapes", "hold"}
    assert said.out.count(b"\n") == 1
    assert {b"to-stdout", b"to-stderr"} <= set(said.err.splitlines())


def test_run_leaves_stdout_to_the_step(repo: Project) -> None:
    said = repo.tb("run", "--", "echo data; echo x > made.txt", as_json=False)
    assert said.out == b"data\n"
    assert b"1 path changed" in said.err
    assert b"Take this back with: takeback undo" in said.err


def test_run_passes_stdin_to_the_step(repo: Project) -> None:
    process = repo.start("run", "cat", stdin=subprocess.PIPE)
    out, _ = process.communicate(b"typed", timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"typed")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "0<&- >&- 2>&-"])
def test_run_with_closed_streams_writes_into_no_file_of_ours(repo: Project, closed: str) -> None:
    repo.sh(
        f"{repo.home.python[0]} -m takeback run 'echo stray-output; echo stray-output >&2; echo x > made.txt' {closed}"
    )
    assert repo.read("made.txt") == b"x\n"
    assert repo.tb("doctor")["ok"] is True
    found = repo.home.sh(
        repo.home.data, "find . -type f ! -name '*.sqlite*' -exec grep -la '^stray-output' {} + || true"
    )
    assert found == b""
    repo.tb("undo")
    assert not repo.exists("made.txt")


def test_run_out_of_time_ends_with_124(repo: Project) -> None:
    said = repo.tb("run", "--timeout", "0.2", "--", "sleep 100", check=False)
    assert (said.code, said["exit"], said["timed_out"]) == (124, 124, True)


def test_run_of_a_command_that_a_signal_ended(repo: Project) -> None:
    assert repo.tb("run", "--", "kill -TERM $$", check=False).code == 128 + signal.SIGTERM


def test_run_of_what_is_no_command(repo: Project) -> None:
    assert repo.tb("run", "--", "no-such-command-here", "x", check=False, as_json=False).code in (1, 2, 126, 127)


def test_an_interrupted_run_ends_with_130_and_the_step_is_recorded(repo: Project) -> None:
    process = repo.start("run", "--", "touch started; sleep 100", start_new_session=True)
    wait_for(lambda: repo.exists("started"))
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    repo.tb("undo")
    assert not repo.exists("started")


@pytest.mark.parametrize("command", ["undo", "redo", "restore"])
def test_what_takes_back_has_exactly_these_fields(done: Project, command: str) -> None:
    target = [done.tb("log")["events"][-2]["id"]] if command == "restore" else []
    if command == "redo":
        done.tb("undo")
    if command == "restore":
        target = [done.checkpoint()]
        done.write("README.md", "spoiled")
    for more in (["--dry-run"], []):
        said = done.tb(command, *target, *more)
        assert set(said.json) == TAKING_BACK
        assert said["dry_run"] is bool(more)
        assert {"path", "verb", "where", "size"} <= set(said["restored"][0])


def test_a_dry_run_changes_nothing_and_shows_the_same_paths(done: Project) -> None:
    before = done.moment()
    planned = done.tb("undo", "--dry-run")
    assert before.changes() == []
    assert planned.paths("restored") == done.tb("undo").paths("restored")
    assert before.changes() != []


def test_undo_previews_age_text_paths_and_counts_and_says_the_way_back(done: Project) -> None:
    said = words(done, "undo")
    assert "ago" in said or "just now" in said
    for text in (
        "echo more >> README.md",
        "README.md",
        "new.txt",
        "1 changed, 1 deleted",
        "Take this back with: takeback ",
    ):
        assert text in said
    back = said.rsplit("Take this back with: ", 1)[1].split("\n")[0]
    done.tb(*shlex.split(back)[1:])
    assert done.read("new.txt") == b"new\n"


def test_undo_with_nothing_left_is_a_sentence(repo: Project) -> None:
    repo.step("true")
    repo.tb("undo")
    said = repo.tb("undo", check=False)
    assert (said.code, said.error) == (1, "nothing-to-do")


def test_a_conflict_ends_with_1_names_every_path_and_writes_nothing(repo: Project) -> None:
    names = [f"bin{number}.dat" for number in range(30)]
    for name in names:
        repo.write(name, b"\0one")
    repo.checkpoint()
    repo.step("; ".join(f"printf '\\0two' > {name}" for name in names))
    for name in names:
        repo.write(name, b"\0three")
    before = repo.moment()
    for as_json in (True, False):
        said = repo.tb("undo", check=False, as_json=as_json)
        assert said.code == 1
        assert all(name in said.text for name in names)
        assert before.changes() == []


def test_a_partial_undo_ends_with_1_too(repo: Project) -> None:
    repo.write("bin.dat", b"\0one")
    repo.checkpoint()
    repo.step("printf '\\0two' > bin.dat; echo new > new.txt")
    repo.write("bin.dat", b"\0three")
    said = repo.tb("undo", "--partial", check=False)
    assert said.code == 1
    assert said.paths("conflicts") == {b"bin.dat"}
    assert not repo.exists("new.txt")


def test_at_a_terminal_a_large_delete_is_a_question(repo: Project) -> None:
    first = repo.checkpoint()
    for number in range(200):
        repo.write(f"many/{number}.txt", str(number))
    code, shown = on_terminal(repo.home, repo.at(), "restore", first, answer=b"n\n")
    assert code == 1, shown
    assert "Go on?" in shown
    assert repo.exists("many/7.txt")
    code, shown = on_terminal(repo.home, repo.at(), "restore", first, answer=b"y\n")
    assert code == 0, shown
    assert not repo.exists("many/7.txt")
    assert shown.count("Restore ") == 1


def test_away_from_a_terminal_a_large_delete_needs_a_yes(repo: Project) -> None:
    first = repo.checkpoint()
    for number in range(200):
        repo.write(f"many/{number}.txt", str(number))
    said = repo.tb("restore", first, check=False)
    assert (said.code, said.error) == (1, "too-many-deletes")
    assert repo.exists("many/7.txt")
    repo.tb("restore", first, "--yes")
    assert not repo.exists("many/7.txt")


@pytest.mark.parametrize(
    ("cwd", "path", "meant"),
    [
        ("src", "app.py", b"src/app.py"),
        ("src", "../README.md", b"README.md"),
        ("src", "{root}/README.md", b"README.md"),
        ("/", "src/app.py", b"src/app.py"),
        ("", "link", b"link"),
        ("", b"caf\xe9.txt", b"caf\xe9.txt"),
    ],
)
def test_a_path_is_relative_to_the_current_directory_or_else_to_the_root(
    repo: Project, cwd: str, path: str | bytes, meant: bytes
) -> None:
    changed = ("src/app.py", "README.md", b"caf\xe9.txt")
    for name in changed:
        repo.write(name, "first")
    repo.sh("ln -s src link")
    first = repo.checkpoint()
    for name in changed:
        repo.write(name, "second")
    repo.sh("ln -sfn data link")
    if isinstance(path, str):
        path = path.format(root=repo.root)
    assert repo.tb("restore", first, path, "--dry-run", "--project", repo.root, cwd=cwd).paths("restored") == {meant}


@pytest.mark.parametrize(
    "path", ["..", "../elsewhere", "/etc/passwd", "src/../../x", "/", "../project-two/x", "out/passwd"]
)
def test_a_path_outside_is_refused(repo: Project, path: str) -> None:
    repo.sh("ln -s /etc out")
    first = repo.checkpoint()
    before = repo.moment()
    said = repo.tb("restore", first, path, check=False)
    assert (said.code, said.error) == (2, "outside-project")
    assert before.changes() == []


def test_restore_into_a_directory_needs_no_project(repo: Project, tmp_path: Path) -> None:
    first = repo.checkpoint()
    content = repo.read("src/app.py")
    repo.home.sh(tmp_path, "rm -rf project")
    repo.home.tb(tmp_path, "restore", first, "--to", "rescued")
    assert (tmp_path / "rescued" / "src" / "app.py").read_bytes() == content


def test_log_is_newest_first_and_has_its_fields(done: Project) -> None:
    done.tb("undo")
    events = done.tb("log")["events"]
    assert [event["seq"] for event in events] == sorted((event["seq"] for event in events), reverse=True)
    fields = {
        "seq", "id", "kind", "at", "at_ns", "worktree", "session", "task", "before", "after", "targets", "text", "data",
    }  # fmt: skip
    assert all(set(event) == fields for event in events)
    assert {"step", "undo"} <= {event["kind"] for event in events}


def test_log_is_tabs_in_a_pipe_and_a_table_on_a_terminal(done: Project) -> None:
    lines = words(done, "log").splitlines()
    assert any(line.split("\t")[4] == "echo more >> README.md; echo new > new.txt" for line in lines)
    code, shown = on_terminal(done.home, done.at(), "log")
    assert code == 0
    assert shown.split()[:5] == ["id", "when", "session", "exit", "what"] or "\x1b" in shown
    assert "echo more" in shown


def test_log_of_one_session_only(repo: Project) -> None:
    one, two = repo.step("echo 1 > one", "--session", "a"), repo.step("echo 2 > two", "--session", "b")
    steps = [event["id"] for event in repo.tb("log", "--session", "a")["events"] if event["kind"] == "step"]
    assert (steps, one != two) == ([one], True)


def test_show_of_a_step_names_what_it_changed(done: Project) -> None:
    step = next(event["id"] for event in done.tb("log")["events"] if event["kind"] == "step")
    said = done.tb("show", step)
    assert set(said.json) == {"schema", "event", "checkpoint", "changes"}
    assert said.paths("changes") == {b"README.md", b"new.txt"}
    text = words(done, "show", step)
    assert f"step {step}" in text
    assert "A new.txt" in text


def test_an_unknown_id_names_the_nearest(done: Project) -> None:
    for args in (["show", "s99"], ["undo", "s99"], ["restore", "c99"], ["diff", "c99"]):
        said = done.tb(*args, check=False)
        assert (said.code, said.error) == (2, "unknown-id"), args
        assert said.json["error"]["hint"], args


def test_undo_of_a_path_says_how_a_path_comes_back(repo: Project) -> None:
    said = repo.tb("undo", "README.md", check=False)
    assert said.error == "unknown-id"
    assert "takeback restore ID README.md" in said.text


def test_diff_of_the_tree_now_against_the_last_checkpoint(repo: Project) -> None:
    repo.checkpoint()
    repo.write("README.md", "# Project\n\nOther words.\n")
    said = repo.tb("diff")
    assert set(said.json) == {"schema", "a", "b", "changes"}
    assert said.paths("changes") == {b"README.md"}
    assert "+Other words." in words(repo, "diff")
    assert "README.md" in words(repo, "diff", "--stat")
    assert words(repo, "diff", "src") == "no difference\n"


def test_diff_of_two_checkpoints_and_one_path(repo: Project) -> None:
    first = repo.checkpoint()
    repo.write("README.md", "other")
    repo.write("src/app.py", "other")
    second = repo.checkpoint()
    assert repo.tb("diff", first, second).paths("changes") == {b"README.md", b"src/app.py"}
    assert repo.tb("diff", first, second, "src").paths("changes") == {b"src/app.py"}


def test_status_is_what_takeback_alone_says(done: Project) -> None:
    alone, named = words(done), words(done, "status")
    assert [line.split()[0] for line in alone.splitlines()] == [line.split()[0] for line in named.splitlines()]
    assert alone.startswith("protected")
    assert "echo more" in alone
    said = done.tb("--json", as_json=False)
    fields = {
        "schema", "protected", "why", "root", "last_checkpoint", "last_checkpoint_ns", "steps", "undo", "redo",
        "disk_bytes", "paused_until_ns", "notes", "holds", "hooks",
    }  # fmt: skip
    assert set(json.loads(said.out)) == fields


def test_status_in_a_home_directory_is_not_protected_and_no_failure(home: Home) -> None:
    said = home.tb(home.path, "status")
    assert (said.code, said["protected"]) == (0, False)
    assert said["why"]


def test_a_project_that_was_named_and_is_not_there_is_an_error(home: Home, tmp_path: Path) -> None:
    said = home.tb(tmp_path, "status", "--project", str(tmp_path / "nowhere"), check=False)
    assert (said.code, said.error) == (2, "no-project")


def test_a_project_can_be_named_from_anywhere(done: Project, tmp_path: Path) -> None:
    assert done.home.tb(tmp_path, "log", "--project", done.root)["events"] == done.tb("log")["events"]


def test_gc_shows_then_removes(repo: Project) -> None:
    for number in range(5):
        repo.write("README.md", str(number))
        repo.checkpoint()
    planned = repo.tb("gc", "--keep", "1", "--dry-run")
    assert set(planned.json) == {"schema", "dry_run", "removed", "kept", "bytes_before", "bytes_after"}
    assert planned["removed"]
    assert len([e for e in repo.tb("log")["events"] if e["kind"] == "checkpoint"]) >= 5
    removed = repo.tb("gc", "--keep", "1")
    assert (removed["dry_run"], removed["removed"]) == (False, planned["removed"])


def test_gc_at_a_terminal_asks_first(repo: Project) -> None:
    for number in range(3):
        repo.write("README.md", str(number))
        repo.checkpoint()
    code, shown = on_terminal(repo.home, repo.at(), "gc", "--keep", "1", answer=b"n\n")
    assert (code, "cannot be taken back" in shown, "nothing was removed" in shown) == (1, True, True)
    assert repo.tb("gc", "--keep", "1", "--dry-run")["removed"]


def test_du_counts_bytes(repo: Project) -> None:
    repo.checkpoint()
    said = repo.tb("du")
    parts = {"total", "objects", "linked", "timeline", "worktrees", "checkpoints"}
    assert set(said.json) == {"schema", "machines", *parts}
    assert said["checkpoints"] == 1
    assert said["total"] > 0
    assert "KiB" in words(repo, "du") or "MiB" in words(repo, "du")


def test_doctor_finds_a_healthy_project_well(done: Project) -> None:
    said = done.tb("doctor", check=False)
    assert said["ok"] is True, said.json
    assert said.code == 0
    assert all(set(finding) == {"name", "ok", "detail", "fix"} for finding in said["findings"])
    assert "BAD" not in words(done, "doctor")


def test_doctor_where_git_is_missing_says_so_with_the_fix(repo: Project) -> None:
    said = repo.tb("doctor", env={"PATH": "/nonexistent"}, check=False)
    assert (said.code, said["ok"]) == (1, False)
    assert any("git" in finding["detail"] and finding["fix"] for finding in said["findings"] if not finding["ok"])


def test_pause_and_resume_say_how_to_go_on(repo: Project) -> None:
    repo.checkpoint()
    said = repo.tb("pause", "10m")
    assert (said["paused"], said["seconds"], said["undo_with"]) == (True, 600, "takeback resume")
    assert "paused" in words(repo, "status")
    assert repo.tb("resume")["paused"] is False
    assert "paused" not in words(repo, "status")


def test_without_git_every_command_says_what_to_install(repo: Project) -> None:
    for args in (["checkpoint"], ["run", "--", "true"]):
        said = repo.tb(*args, env={"PATH": "/nonexistent"}, check=False)
        assert (said.code, said.error) == (1, "git-missing"), args


def test_a_broken_settings_file_is_named_with_its_line(repo: Project) -> None:
    repo.home.settings.parent.mkdir(parents=True)
    repo.home.settings.write_text("[checkpoint]\nmax_sise = 3\n")
    said = repo.tb("checkpoint", check=False)
    assert (said.code, said.error) == (2, "bad-setting")
    assert "line 2" in said.json["error"]["message"]
    assert "max_size" in said.json["error"]["hint"]


def test_a_reader_who_leaves_does_not_stop_an_undo(done: Project) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = done.start("undo", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (141, b"")
    assert not done.exists("new.txt")


def test_no_colour_reaches_a_pipe_or_a_terminal_that_wants_none(done: Project) -> None:
    assert "\x1b" not in words(done, "status")
    assert "\x1b[3" in on_terminal(done.home, done.at(), "status")[1]
    assert "\x1b" not in on_terminal(done.home, done.at(), "status", env={"NO_COLOR": "1"})[1]
