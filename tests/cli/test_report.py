"""The report of an unknown error can be pasted anywhere."""

from __future__ import annotations

import os

import pytest

from takeback.cli import report

# In halves, so that no scanner takes this file for one with keys in it.
KEYS = [
    "https://user:" + "hunter2@example.invalid/x",
    "Authorization: Bearer " + "hunter2hunter2",
    "API_KEY=" + "hunter2",
    "db_password: " + "hunter2",
    "sk-" + "hunter2hunter2hunter2",
    "ghp_" + "hunter2hunter2hunter2",
    "AKIA" + "HUNTER2HUNTER2AB".replace("2", "T"),
    "-----BEGIN RSA PRIVATE KEY-----\n" + "hunter2\n-----END RSA PRIVATE KEY-----",
    "eyJhunter2hunter2" + ".hunter2.hunter2",
]


@pytest.mark.parametrize("key", KEYS)
def test_what_looks_like_a_key_is_blanked(key: str) -> None:
    said = report.scrubbed(f"before {key} after")
    assert "hunter" not in said.lower()
    assert said.startswith("before ") and said.endswith("after")


def test_ordinary_words_stay() -> None:
    text = "FileNotFoundError: [Errno 2] No such file or directory: 'src/task-list/risk-analysis.py'"
    assert report.scrubbed(text) == text


def test_the_home_directory_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert report.scrubbed("/home/somebody/work/x.py") == "~/work/x.py"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["undo", "s7"], "undo ..."),
        (["--project", "/srv/secret", "log", "--session=me", "-n5"], "--project ... log --session -n"),
        (["run", "-m", "text", "--", "deploy", "--token", "x"], "run -m ... -- ..."),
        (["run", "curl secret"], "run ..."),
        ([], ""),
    ],
)
def test_only_names_of_commands_and_options_are_told(argv: list[str], shown: str) -> None:
    assert " ".join(report.option_names(argv)) == shown


def test_the_report_names_versions_and_comes_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    text = report.text(RuntimeError("boom"), ["log"])
    assert "takeback 0." in text
    assert "Python 3." in text
    assert "git: FileNotFoundError" in text or "git: NotADirectoryError" in text
    assert "RuntimeError: boom" in text
