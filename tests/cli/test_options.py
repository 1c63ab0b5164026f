"""Paths on the command line become bytes below the project's root, or a clear refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.cli.options import project_paths
from takeback.errors import OutsideProject


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    return tmp_path / "project"


def below(root: Path, *paths: str) -> tuple[bytes, ...]:
    return project_paths(os.fsencode(root), paths)


def test_paths_are_relative_to_the_current_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "src")
    assert below(root, "app.py", "../README.md", "gone/with/its/parents") == (
        b"src/app.py",
        b"README.md",
        b"src/gone/with/its/parents",
    )


def test_outside_the_project_they_are_relative_to_its_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert below(root, "src/app.py") == (b"src/app.py",)


def test_absolute_paths_and_the_root_itself_are_understood(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert below(root, str(root / "src"), ".", str(root)) == (b"src", b".", b".")


@pytest.mark.parametrize("path", ["..", "../other", "/etc/passwd", "src/../../x", "/"])
def test_a_path_outside_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(root)
    with pytest.raises(OutsideProject, match="is outside the project"):
        below(root, path)


def test_a_neighbour_whose_name_only_begins_alike_is_outside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with pytest.raises(OutsideProject):
        below(root, "../project-two/x")


def test_a_link_is_itself_and_not_what_it_points_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "link").symlink_to("/etc")
    (root / "self").symlink_to(".")
    assert below(root, "link", "self") == (b"link", b"self")


def test_a_path_through_a_link_that_leads_out_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "link").symlink_to("/etc")
    with pytest.raises(OutsideProject):
        below(root, "link/passwd")


def test_a_root_behind_a_link_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    monkeypatch.chdir("/")
    assert below(alias, str(alias / "src"), str(root / "src"), str(alias)) == (b"src", b"src", b".")


def test_a_name_that_is_not_utf_8_keeps_its_bytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert below(root, os.fsdecode(b"caf\xe9.txt")) == (b"caf\xe9.txt",)
