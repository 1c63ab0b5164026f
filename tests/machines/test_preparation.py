"""What a create brings along: engine, image and supervisor, looked for once for each image."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from takeback import sandboxes
from takeback.machines.images.base import Image
from takeback.machines.layout import MachinesDir


def test_an_image_is_set_up_once_and_again_when_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    said: list[str] = []
    root = tmp_path / "rootfs"

    class Setup:
        machines = MachinesDir(tmp_path / "machines")

        def ensure(self, image: str, *, report: Any) -> Any:
            asked.append(image)
            root.mkdir()
            report("building")
            env = (("PATH", "/bin"),)
            image_found = Image("debian", "1", root, user="runtime", uid=1000, gid=1000, cwd="/workspace", env=env)
            return SimpleNamespace(image=image_found)

    monkeypatch.setattr(sandboxes, "supervisor_binary", lambda machines: tmp_path / "abc" / "init")
    prepare = sandboxes.preparation(Setup(), said.append)  # type: ignore[arg-type]
    first = prepare({"name": "x"})
    assert first["name"] == "x" and first["supervisor"] == str(tmp_path / "abc")
    base = first["base"]
    assert (base["image"], base["root"], base["workdir"]) == ("debian@1", str(root), "/workspace")
    assert base["account"] == {"name": "runtime", "uid": 1000, "gid": 1000, "groups": (), "home": "/workspace"}
    assert base["env"] == {"PATH": "/bin"}
    assert prepare({})["base"] == first["base"]
    assert asked == ["debian"] and said == ["building"]
    root.rmdir()
    prepare({"image": "debian"})
    assert asked == ["debian", "debian"]
