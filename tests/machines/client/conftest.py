"""A data directory and keeper for each test, both faces, real machines; nothing may be left afterwards."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from takeback.machines.client.connect import Client
from takeback.machines.layout import MachinesDir
from takeback.machines.supervisor.build import supervisor_binary
from tests.machines.client import leaks
from tests.machines.client.faces import Face


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


class World:
    """One data directory, and what a create needs beside what the caller says."""

    def __init__(self, data: Path, base: Mapping[str, Any], engine: str, supervisor: Path) -> None:
        self.data = data
        self.base = base
        self.supervisor = supervisor
        self.directory = MachinesDir(data / "machines")
        # Nothing is made ahead but where that is tested: most tests end before anybody would need it.
        self.client = Client(data, engine=engine, prepare=self.prepare, environ=os.environ, ahead=False)

    def prepare(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"base": self.base, "supervisor": str(self.supervisor), **fields}

    def log(self) -> str:
        return self.directory.log.read_text(errors="replace") if self.directory.log.exists() else ""


@pytest.fixture(scope="session")
def default_base() -> tuple[str, Mapping[str, Any]]:
    """The folder of runsc, and the base of the default image."""
    runsc, root = os.environ.get("TAKEBACK_TEST_RUNSC"), os.environ.get("TAKEBACK_TEST_ROOTFS")
    home = "/workspace"
    if runsc is None or root is None:
        from tests.support import machines

        if machines.why_not():
            pytest.skip(machines.why_not())
        ready = machines.ready()
        assert ready.image is not None
        runsc, root, home = str(ready.engine.path), str(ready.image.rootfs), ready.image.cwd
    account = {"name": "runtime", "uid": 1000, "gid": 1000, "home": home}
    return os.path.dirname(runsc), {"image": "debian", "root": root, "account": account, "workdir": home, "env": {}}


@pytest.fixture(scope="session")
def gvisor(default_base: tuple[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
    """What machines are made of; a file of tests may have an image of its own."""
    return default_base


@pytest.fixture(scope="session")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the supervisor, compiled once."""
    return supervisor_binary(MachinesDir(tmp_path_factory.mktemp("supervisor"))).parent


@pytest.fixture
def world(gvisor: tuple[str, Mapping[str, Any]], supervisor: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A data directory that must be left as it was found: without processes, mounts, FIFOs, temporary files."""
    # Not below tmp_path: pytest keeps those, and a name of that length would not show what a short one does.
    data = Path(tempfile.mkdtemp(prefix="tb-machines-"))
    monkeypatch.setenv("PATH", f"{gvisor[0]}:{os.environ['PATH']}")
    made = World(data, gvisor[1], "gvisor", supervisor)
    before = len(os.listdir("/proc/self/fd"))
    try:
        yield made
        left = leaks.settle(data)
        log = made.log()
        assert left == ({}, set(), set()), log
        assert leaks.elsewhere(data) == set(), log
        assert "Traceback" not in log, log
        assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        leaks.end_keeper(data)
        leaks.end_all(data)
        shutil.rmtree(data, ignore_errors=True)


# Most tests are of asyncio only (`one`): what is for both runs with it in the long tier.
@pytest.fixture(params=["blocking", pytest.param("asyncio", marks=pytest.mark.long)])
def face(world: World, request: pytest.FixtureRequest) -> Face:
    """Sandbox, and AsyncSandbox, under one name."""
    return Face(world.client, blocking=request.param == "blocking")


@pytest.fixture
def one(world: World) -> Face:
    """AsyncSandbox only, for what does not depend on the face."""
    return Face(world.client, blocking=False)
