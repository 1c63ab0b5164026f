"""The preset opens what the user's own tools say they use, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from takeback.machines.network.registries import Preset, expand, registries

PIP_SOURCE = 'PyPI = PackageIndex("https://index.test/", file_storage_domain="files.index.test")\n'


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    (folder / "cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def tool(folder: Path, name: str, answers: dict[str, str]) -> None:
    lines = ["#!/bin/sh", 'case "$*" in']
    for arguments, answer in answers.items():
        lines += [f"'{arguments}') cat <<'END'", answer, "END", ";;"]
    path = folder / name
    path.write_text("\n".join([*lines, "*) echo unknown >&2; exit 1;;", "esac", ""]))
    path.chmod(0o755)


def pip(folder: Path, config: str) -> None:
    models = folder.parent / "pip" / "_internal" / "models"
    models.mkdir(parents=True)
    (models / "index.py").write_text(PIP_SOURCE)
    version = f"pip 23.0 from {folder.parent}/pip (python 3.11)"
    tool(folder, "pip", {"--version": version, "config list": config})


def test_nothing_installed_opens_nothing_and_says_so(tools: Path) -> None:
    preset = registries({})
    assert preset == Preset((), (), (), tuple((name, "not installed") for name in ("pip", "npm", "apt")))
    assert expand(["registries"], [], {}) == (("registries",), ())


def test_pip_without_a_configuration_uses_the_index_it_knows(tools: Path) -> None:
    pip(tools, "")
    assert registries({}).allow == ("index.test", "files.index.test")
    assert registries({}).connect == ("index.test:443", "files.index.test:443")


def test_a_mirror_in_its_place_opens_only_the_mirror(tools: Path) -> None:
    config = ["global.index-url='http://mirror.corp:3141/simple'", ":env:.find-links='/opt/wheels https://w.corp/x'"]
    pip(tools, "\n".join([*config, "global.extra-index-url='file:///opt/simple'"]))
    assert registries({}).allow == ("mirror.corp", "w.corp")
    assert registries({}).connect == ("mirror.corp:3141", "w.corp:443")


def test_npm_and_its_scopes(tools: Path) -> None:
    tool(
        tools, "npm", {"config ls --json": '{"registry": "https://npm.test/", "@a:registry": "http://a.test/", "x": 1}'}
    )
    assert registries({}).connect == ("npm.test:443", "a.test:80")


def test_apt_and_its_proxy(tools: Path) -> None:
    tool(
        tools, "apt-get", {"indextargets --format $(SITE)": "http://deb.test/debian\ncdrom:[x]\nhttp://deb.test/debian"}
    )
    tool(tools, "apt-config", {"dump --format %f=%v%n": "Acquire::http::Proxy=http://cache.test:3142\nDir=/"})
    assert registries({}).connect == ("deb.test:80", "cache.test:3142")


def test_a_tool_that_fails_is_said_and_the_others_count(tools: Path) -> None:
    tool(tools, "npm", {})
    pip(tools, "")
    preset = registries({})
    assert preset.allow == ("index.test", "files.index.test")
    assert preset.missing[0][0] == "npm" and "unknown" in preset.missing[0][1]


def test_the_entry_is_replaced_by_what_it_stands_for(tools: Path) -> None:
    pip(tools, "")
    assert expand(["a.test", "registries"], ["b.test:22"], {}) == (
        ("a.test", "index.test", "files.index.test"),
        ("b.test:22", "index.test:443", "files.index.test:443"),
    )
    assert expand(["a.test"], [], {}) == (("a.test",), ())


def test_the_tools_of_this_machine_can_be_asked() -> None:
    preset = registries(os.environ)
    assert len(preset.allow) <= len(preset.connect)


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
def test_asking_leaves_nothing_in_the_home(tmp_path: Path) -> None:
    registries({"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert list(tmp_path.iterdir()) == []
