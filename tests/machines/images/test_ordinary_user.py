"""An ordinary user's images: all files are that user's, and work begins as the config says all the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.machines.client import leaks
from tests.support import oci
from tests.support.cli import Home

PROGRAM = """
import json, os, sys
from pathlib import Path
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.images import catalogue
from takeback.machines.layout import MachinesDir
from takeback.machines.making import silent
from takeback.sandboxes import base_of

data, supervisor, name, commands = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
image = catalogue.source(name, MachinesDir(data / "machines")).ensure(silent)
client = Client(data, prepare=lambda fields: {**fields, "base": base_of(image), "supervisor": supervisor})
with Sandbox.create(client=client) as box:
    said = [box.exec(command) for command in commands]
    copy = box.fork()
    said.append(copy.exec(commands[-1]))
    copy.delete()
owners = {info.st_uid for info in (os.lstat(os.path.join(top, one)) for top, folders, files in os.walk(image.rootfs)
    for one in folders + files)} if str(image.rootfs) != "/" else set()
print(json.dumps({"said": [[one.stdout, one.stderr] for one in said], "owners": sorted(owners)}))
"""


@pytest.fixture
def run(user: Home, toolbox: Path, supervisor: Path, gvisor: tuple[str, Mapping[str, Any]]) -> Any:
    """Run the program as that user; nothing may be left afterwards."""
    top = user.path.parent
    shutil.copytree(supervisor, top / "supervisor")
    os.chmod(top / "supervisor", 0o755)
    shutil.copy(f"{gvisor[0]}/runsc", top / "runsc")
    data = user.path / "data"
    shutil.copytree(toolbox, data / "machines" / "tools", symlinks=True)
    subprocess.run(["chown", "-R", str(user.account.uid or os.getuid()), data], check=True)

    def call(name: str, *commands: str) -> dict[str, Any]:
        env = user.env()
        done = subprocess.run(
            [*user.python, "-c", PROGRAM, str(data), str(top / "supervisor"), name, *commands],
            env=env | {"PATH": f"{top}:{env['PATH']}"}, cwd="/", capture_output=True, check=False, timeout=120,
            **user.account.process(),
        )  # fmt: skip
        log = data / "machines" / "keeper.log"
        assert done.returncode == 0, done.stderr.decode() + (log.read_text() if log.exists() else "")
        until = time.monotonic() + 20  # what started the keeper ends a moment after it
        while (left := leaks.settle(data)) != ({}, set(), set()) and time.monotonic() < until:
            time.sleep(0.05)
        assert left == ({}, set(), set())
        return dict(json.loads(done.stdout))

    yield call
    leaks.end_keeper(data)


def test_a_layout_is_unpacked_as_that_users_files(user: Home, run: Any, system_layer: bytes) -> None:
    layout = oci.Layout(user.path.parent / "layout")
    more = oci.layer(oci.file("etc/theirs", b"x", uid=4321), oci.device("null"), oci.folder("closed", 0o700, uid=9))
    layout.image("v1", [system_layer, more], User="worker", WorkingDir="/home/worker/app")
    done = run(f"oci:{layout.path}:v1", "id -u; pwd; id -G", "cat /etc/theirs; touch file && ls")
    assert done["owners"] == [user.account.uid or os.getuid()]
    assert done["said"][0] == ["1234\n/home/worker/app\n1234 77\n", ""]
    assert done["said"][1:] == [["xfile\n", ""]] * 2


def test_this_machines_root_is_seen_without_what_is_that_users(user: Home, run: Any) -> None:
    (user.path / "secret").write_text("mine")
    named = user.path / "named"
    named.mkdir()
    (named / "file").write_text("here\n")
    os.chown(named, user.account.uid or os.getuid(), -1)
    os.chmod(user.path, 0o755)
    before = set(os.listdir("/")), set(os.listdir(named))
    done = run(
        f"host:{named}",
        f"id -u; pwd; cat {user.path}/secret; ls -A {user.path}; ls -A /home; cat /etc/shadow",
        "python3 --version >/dev/null && git --version >/dev/null && echo works; echo x > new; cat file new",
    )
    assert done["said"][0][0] == f"0\n{named}\nnamed\n"
    assert done["said"][1:] == [["works\nhere\nx\n", ""]] * 2
    assert (set(os.listdir("/")), set(os.listdir(named))) == before
