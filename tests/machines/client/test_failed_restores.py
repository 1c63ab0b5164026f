"""A restore that fails, or brings up a machine that dies: repeated, and when it fails again the old one goes on.

The faults are put into the keeper as it starts (`sitecustomize`), below all that is under test: at the engine's control
socket or in the command line's own program, and as the death of PID 1 in a machine that the engine said was restored.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import EngineFailed, MachineSilent
from takeback.host import process
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face
from tests.machines.client.test_copies import COUNTER, count

SITE = """
import fcntl, os, sys
from pathlib import Path

def takes_one(path):
    with open({lock!r}, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        left = int(path.read_text()) if path.exists() else 0
        if left:
            path.write_text(str(left - 1))
        return bool(left)

if "takeback.machines.keeper" in sys.orig_argv:
    from takeback.machines.engines.gvisor import containers, control

    if {command_line}:
        containers.VERIFIED = frozenset()
    real_load, real = control.Control.load, containers.Containers.load

    def refused(self, files, timeout):
        if takes_one(Path({refused!r})):
            raise control.Refusal("a fault of the test")
        real_load(self, files, timeout)

    def dies(self, container, images):
        real(self, container, images)
        if takes_one(Path({dies!r})):
            with control.Control(Path(container.socket)) as connection:
                signal = {{"CID": container.id, "Signo": 9, "PID": 0, "Mode": 0}}
                connection.call("containerManager.Signal", signal, timeout=10)

    control.Control.load, containers.Containers.load = refused, dies
"""
RUNSC = """#!/bin/sh
for word; do
    if [ "$word" = restore ] && flock {lock} sh -c '
        left=$(cat {refused}) && [ "$left" -gt 0 ] && echo $((left - 1)) > {refused}'
    then
        echo a fault of the test >&2
        exit 1
    fi
done
exec {runsc} "$@"
"""

Faults = Callable[[str, int], None]


@pytest.fixture(params=["control socket", pytest.param("command line", marks=pytest.mark.long)])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def faults(world: World, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Says how many of the next restores are refused, or die as soon as they are done."""
    names = {name: str(tmp_path / name) for name in ("refused", "dies", "lock")}
    (tmp_path / "sitecustomize.py").write_text(SITE.format(command_line=way == "command line", **names))
    if way == "command line":
        (tmp_path / "runsc").write_text(RUNSC.format(runsc=shutil.which("runsc"), **names))
        (tmp_path / "runsc").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    detach = process.detach

    def with_site(argv: Any, *, env: dict[str, str], **more: Any) -> None:
        detach(argv, env={**env, "PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"}, **more)

    monkeypatch.setattr(process, "detach", with_site)

    def inject(kind: str, number: int) -> None:
        (tmp_path / kind).write_text(str(number))

    inject("refused", 0)
    return inject


MANY = 1000
OPERATIONS = ["restore", "create", "fork"]
# How often each part tries by itself: the engine both for a fork, the keeper all of them.
TRIED = {"refused": {"restore": 1, "create": 1, "fork": 2}, "dies": {"restore": 1, "create": 1, "fork": 1}}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", ["refused", "dies"])
async def test_a_restore_that_fails_is_repeated_and_one_that_fails_for_good_changes_nothing(
    one: Face, world: World, faults: Faults, kind: str, operation: str
) -> None:
    async with await one.create(name="source", disk="layers") as box:
        process = await box.spawn(COUNTER)
        await box.files.write("/workspace/file", "then")
        before = await count(box)
        taken = await box.snapshot()
        await box.files.write("/workspace/file", "now")

        async def done() -> Any:
            if operation == "fork":
                return await box.fork(name="other")
            if operation == "create":
                return await one.create(name="other", snapshot=taken["id"])
            return await box.restore(taken)

        # For good: the old one goes on with its id, processes and files, and nothing of the other is left.
        counted = await count(box)
        faults(kind, MANY)
        with pytest.raises((EngineFailed, MachineSilent)) as caught:
            await done()
        if kind == "dies":
            assert "ended" in str(caught.value)  # it was noticed, not waited for
        faults(kind, 0)
        assert "once more" in world.log()
        assert [found.id for found in await one.list()] == [box.id] and (await box.refresh()).state == "running"
        assert (await process.refresh())["state"] == "running" and await count(box) >= counted
        assert await box.files.read_text("/workspace/file") == "now"
        assert [snapshot["id"] for snapshot in await box.snapshots()] == [taken["id"]]
        # For once: nobody notices.
        said = world.log().count("once more")
        faults(kind, TRIED[kind][operation])
        other = await done()
        assert world.log().count("once more") == said + 1
        assert await count(other) >= before
        assert await other.files.read_text("/workspace/file") == ("now" if operation == "fork" else "then")
        if operation == "restore":
            assert other.id == box.id and (await process.refresh())["state"] == "running"
        else:
            await other.delete()
            assert (await process.refresh())["state"] == "running"
        for snapshot in await box.snapshots():
            await box.delete_snapshot(snapshot["id"])
