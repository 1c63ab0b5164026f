"""Every ending has its exit code, and says itself where the caller looks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from takeback.cli.main import run
from takeback.errors import Busy, Conflict, NothingToDo, UnknownId
from tests.support.cli import Home

Opening = Callable[[Callable[[], Any]], None]


Said = pytest.CaptureFixture[str]


def raising(error: BaseException) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


@pytest.mark.parametrize(
    "line", ["undo --nope", "undo s1 s2", "nope", "run", "show", "log -n 0", "pause soon", "gc --older-than 7"]
)
def test_a_command_line_that_cannot_be_meant_ends_with_2(home: Home, line: str) -> None:
    said = home.tb(home.path, *line.split(), check=False, as_json=False)
    assert said.code == 2
    assert said.out == b""
    assert said.err.startswith(b"Error: ")
    assert b"\nHint: takeback" in said.err
    assert not home.data.exists()


@pytest.mark.parametrize("line", ["undo --json --nope", "--json undo --nope", "undo --nope --json"])
def test_a_usage_error_is_json_when_json_was_asked_for(home: Home, line: str) -> None:
    said = home.tb(home.path, *line.split(), check=False)
    assert (said.code, said.err) == (2, b"")
    assert set(said.json) == {"schema", "error"}
    assert set(said.json["error"]) == {"kind", "message", "hint"}
    assert said.error == "usage"


def test_a_misspelt_command_gets_the_nearest_one(home: Home) -> None:
    assert "did you mean 'restore'?" in home.tb(home.path, "restor", check=False, as_json=False).text


def test_a_group_alone_is_its_help_and_no_command_line_that_can_be_meant(capsys: Said) -> None:
    assert run(["task"]) == 2
    assert capsys.readouterr().err.startswith("Usage: takeback task")
    assert run(["task", "--json"]) == 2
    said = capsys.readouterr()
    assert (json.loads(said.out)["error"]["hint"], said.err) == ("takeback task --help", "")


def test_a_known_error_is_a_message_and_a_hint_on_stderr(opening: Opening, capsys: Said) -> None:
    opening(raising(Busy(owner="process 7 (gc)")))
    assert run(["log"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "Error: another takeback is at work here: process 7 (gc)\nHint: wait for it and repeat\n"


def test_a_known_error_without_a_hint_has_no_hint_line(opening: Opening, capsys: Said) -> None:
    opening(raising(NothingToDo(sentence="nothing to undo", next="")))
    assert run(["undo"]) == 1
    assert capsys.readouterr().err == "Error: nothing to undo\n"


def test_a_known_error_has_the_exit_code_of_its_kind_in_json_too(opening: Opening, capsys: Said) -> None:
    opening(raising(UnknownId(what="step", id="s9", nearest="the nearest is s8")))
    assert run(["undo", "s9", "--json"]) == 2
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out) == {
        "schema": 1,
        "error": {
            "kind": "unknown-id",
            "message": "there is no step 's9' in this project",
            "hint": "the nearest is s8",
        },
    }


def test_every_conflicting_path_is_named(opening: Opening, capsys: Said) -> None:
    paths = [f"directory/file-{number}.txt" for number in range(200)]
    opening(raising(Conflict(count=len(paths), paths=", ".join(paths))))
    assert run(["undo"]) == 1
    said = capsys.readouterr().err
    assert all(path in said for path in paths)


def test_the_cause_is_named_when_asked_for(opening: Opening, capsys: Said) -> None:
    error = Busy(owner="process 7 (gc)")
    error.__cause__ = OSError("the lock is held")
    opening(raising(error))
    assert run(["log", "-v"]) == 1
    assert "Caused by: OSError: the lock is held\n" in capsys.readouterr().err


def test_an_error_from_outside_cannot_draw_on_the_terminal(opening: Opening, capsys: Said) -> None:
    opening(raising(Busy(owner="\x1b[2Jevil")))
    run(["log"])
    said = capsys.readouterr().err
    assert "\x1b[2J" not in said
    assert "\\x1b[2Jevil" in said


def test_an_interruption_ends_with_130_and_one_word(opening: Opening, capsys: Said) -> None:
    opening(raising(KeyboardInterrupt()))
    assert run(["log"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_an_unknown_error_ends_with_3_and_a_report_to_paste(opening: Opening, capsys: Said) -> None:
    opening(raising(RuntimeError("boom, token=hunter2")))
    assert run(["undo", "s7", "--session", "private-name"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "RuntimeError: boom" in said.err
    assert "command: takeback undo ... --session ..." in said.err
    assert "hunter2" not in said.err
    assert "private-name" not in said.err


def test_an_unknown_error_is_json_too(opening: Opening, capsys: Said) -> None:
    opening(raising(RuntimeError("boom, token=hunter2")))
    assert run(["undo", "--json"]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["kind"] == "unexpected"
    assert "hunter2" not in said.out
    assert "Traceback" in said.err


def test_a_reader_who_leaves_is_no_error_to_talk_about(home: Home) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = home.start(home.path, "--help", stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
def test_closed_streams_are_no_error(home: Home, closed: str) -> None:
    python = home.python[0]
    home.sh(home.path, f"{python} -m takeback --help {closed}; test $? = 0")
    home.sh(home.path, f"{python} -m takeback nope {closed}; test $? = 2")


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_no_file_can_take_the_number_of_a_closed_stream(home: Home, fd: int) -> None:
    source = (
        f"import os, sys; os.close({fd})\n"
        "from takeback.cli.main import run\n"
        "run(['nope'])\n"
        f"sys.exit(os.path.samestat(os.fstat({fd}), os.stat(os.devnull)) and 42)"
    )
    done = subprocess.run([*home.python, "-c", source], env=home.env(), capture_output=True, check=False)
    assert done.returncode == 42, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_who_left_is_no_unknown_error(home: Home, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    env = home.env() | {"PYTHONUNBUFFERED": unbuffered}
    with open(writer, "wb") as stdout:
        argv = [*home.python, "-m", "takeback", "explain", "--", "ls"]
        done = subprocess.run(argv, env=env, cwd=home.path, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_broken_pipe_inside_is_not_taken_for_a_reader_who_left(opening: Opening, capsys: Said) -> None:
    opening(raising(BrokenPipeError("git went away")))
    assert run(["log"]) == 3
    assert "git went away" in capsys.readouterr().err
