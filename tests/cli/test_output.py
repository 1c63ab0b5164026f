"""stdout is data, stderr is talk, and no text from outside reaches the terminal raw."""

from __future__ import annotations

import click
import pytest

from takeback.cli.output import Face, emit, printable, to_stderr


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("src/größe.md", "src/größe.md"),
        ("公共函数.cpp", "公共函数.cpp"),
        (b"caf\xe9.txt", "caf\\xe9.txt"),
        ('ne\nw"q.txt', 'ne\\nw"q.txt'),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("right\N{RIGHT-TO-LEFT OVERRIDE}left", "right\\u202eleft"),
    ],
)
def test_a_name_is_shown_without_moving_the_cursor(raw: str | bytes, shown: str) -> None:
    assert printable(raw) == shown


def test_json_is_ascii_so_that_any_stdout_can_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"path": "größe"})
    assert capsys.readouterr().out == '{"path": "gr\\u00f6\\u00dfe"}\n'


def test_quiet_keeps_data_and_drops_talk(capsys: pytest.CaptureFixture[str]) -> None:
    face = Face(quiet=True)
    face.say("talk")
    face.note("talk")
    face.data("data")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("data\n", "")


def test_with_json_nothing_but_the_document_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    face = Face(json=True)
    face.say("talk")
    face.data("data")
    face.answer({"schema": 1})
    assert capsys.readouterr().out == '{"schema": 1}\n'


def test_without_json_no_document_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    Face().answer({"schema": 1})
    assert capsys.readouterr().out == ""


def test_no_color_wins_over_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    to_stderr(click.style("word", fg="red"))
    assert capsys.readouterr().err == "\x1b[31mword\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    to_stderr(click.style("word", fg="red"))
    assert capsys.readouterr().err == "word\n"
    monkeypatch.setenv("NO_COLOR", "")
    to_stderr(click.style("word", fg="red"))
    assert "\x1b" in capsys.readouterr().err
