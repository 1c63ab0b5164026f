"""`takeback setup`, and what `doctor` says about machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.errors import NeedsLinux
from takeback.host import system
from takeback.machines.engines.gvisor import cgroups
from takeback.machines.engines.gvisor.cgroups import Cgroups
from takeback.machines.layout import MachinesDir
from takeback.machines.setup import Setup
from takeback.model import Finding
from tests.support import machines
from tests.support.cli import Home

here = pytest.mark.skipif(bool(machines.why_not()), reason=machines.why_not() or "-")


def borrowed(home: Home) -> None:
    """Give a home the engine and the image of the tests, as if it had made them."""
    ready = machines.ready()
    own = home.data / "machines"
    own.mkdir(parents=True)
    (own / "VERSION").write_text("1\n")
    for name in ("engine", "images"):
        (own / name).symlink_to(machines.setup().machines.root / name)
    assert ready.image is not None


@here
def test_what_is_there_is_named_and_not_made_again(home: Home) -> None:
    borrowed(home)
    got = home.tb(home.path, "setup")
    assert got["made"] == {}
    assert got["engine"]["own"] is True
    assert got["image"]["name"] == "debian"
    said = home.tb(home.path, "setup", as_json=False).out.decode().splitlines()
    assert [line.split(":")[0] for line in said] == ["engine", "image"]
    assert all("was there" in line and "MiB" in line for line in said)


@here
def test_the_platform_is_told_and_another_can_be_asked_for(home: Home) -> None:
    borrowed(home)

    def told(env: dict[str, str]) -> str:
        found = home.tb(home.path, "setup", "--check", env=env)["findings"]
        return str(next(one["detail"] for one in found if one["name"] == "machines: platform"))

    assert told({}) == "systrap"
    assert told({"TAKEBACK_PLATFORM": "ptrace"}) == "ptrace"
    settings = home.path / ".config/takeback/config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('[machines]\nplatform = "ptrace"\n')
    assert told({}) == "ptrace"
    assert told({"TAKEBACK_PLATFORM": "systrap"}) == "systrap"
    settings.write_text('[machines]\nplatform = "xen"\n')
    for env in ({}, {"TAKEBACK_PLATFORM": "xen"}):
        got = home.tb(home.path, "setup", "--check", env=env, check=False)
        assert (got.code, got.error) == (2, "bad-setting") and "systrap, ptrace, kvm" in got.text


def test_check_names_what_is_missing_with_the_fix_and_changes_nothing(home: Home) -> None:
    got = home.tb(home.path, "setup", "--check", env={"PATH": "/usr/bin:/bin"}, check=False)
    assert got.code == 1 and got["ok"] is False
    missing = {one["name"]: one["fix"] for one in got["findings"] if not one["ok"]}
    assert {"machines: engine", "machines: image"} <= set(missing)
    assert all("takeback setup" in missing[name] for name in ("machines: engine", "machines: image"))
    assert not home.data.exists()


def test_an_unknown_image_is_a_usage_error(home: Home) -> None:
    got = home.tb(home.path, "setup", "--image", "ubuntu", check=False)
    assert (got.code, got.error) == (2, "image-not-found")


def test_an_old_engine_on_the_path_is_named_with_the_reason(home: Home, tmp_path: Path) -> None:
    old = tmp_path / "old" / "runsc"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'runsc version 0.0~20221219.0'\n")
    old.chmod(0o755)
    search = f"{old.parent}:{os.environ['PATH']}"
    got = home.tb(home.path, "setup", "--check", env={"PATH": search}, check=False)
    engine = next(one for one in got["findings"] if one["name"] == "machines: engine")
    assert not engine["ok"] and "20221219.0, older than 20240729.0" in engine["detail"]


def test_doctor_tells_how_to_begin_until_somebody_has(home: Home) -> None:
    got = home.tb(home.path, "doctor", check=False)
    lines = [one for one in got["findings"] if one["name"].startswith("machines")]
    assert [(one["ok"], "takeback setup" in one["detail"]) for one in lines] == [(True, True)]


@here
def test_doctor_looks_at_machines_once_they_are_set_up(home: Home) -> None:
    borrowed(home)
    got = home.tb(home.path, "doctor", check=False)
    names = {one["name"]: one["ok"] for one in got["findings"] if one["name"].startswith("machines")}
    assert set(names) == {f"machines: {one}" for one in ("engine", "image", "namespaces", "platform", "disk", "limits")}
    assert all(names.values())
    assert [one.name for one in (home.data / "machines").iterdir() if one.name.startswith(".")] == []


def test_elsewhere_than_on_linux_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "name", lambda: "Darwin")
    setup = Setup(MachinesDir(tmp_path / "machines"), "")
    with pytest.raises(NeedsLinux, match="machines need Linux; this is Darwin"):
        setup.ensure()
    found = setup.findings()
    assert [(one.name, one.ok) for one in found] == [("machines", False)]


def test_what_the_kernel_refuses_is_a_finding_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "namespace_problem", lambda: "unshare: Operation not permitted")
    none = Cgroups("t", None, (), "no control group for memory, processors, processes")
    monkeypatch.setattr(cgroups, "find", lambda parent: none)
    found = {one.name: one for one in Setup(MachinesDir(tmp_path / "machines"), "").findings(None)}
    assert not found["machines: namespaces"].ok and found["machines: namespaces"].fix
    assert found["machines: limits"].ok and "memory is watched" in found["machines: limits"].detail
    assert all(isinstance(one, Finding) for one in found.values())
