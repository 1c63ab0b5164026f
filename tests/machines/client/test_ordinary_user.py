"""An ordinary user's sandboxes: namespaces of their own, and nothing left when all is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.machines.client import leaks
from tests.support.cli import Home

PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox

data, base, supervisor = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
client = Client(data, prepare=lambda fields: {**fields, "base": base, "supervisor": supervisor})
box = Sandbox.create(client=client, name="mine")
first = box.exec("id -u; chown 33 /workspace; echo x > /root/f; stat -c %u /workspace")
box.pause()
woken = box.exec("echo woken").stdout
process = box.spawn("sleep 1000")
box.files.write("/workspace/f", "text")
text = box.files.read_text("/workspace/f")
print(json.dumps([box.info["disk"], first.stdout, first.stderr, woken, text]), flush=True)
sys.stdin.readline()
box.refresh()
print(json.dumps([box.state, box.info["lost"]]), flush=True)
box.delete()
with Sandbox.create(client=client, name="mine") as again:
    print(json.dumps(again.exec("echo again").stdout), flush=True)
"""


@pytest.fixture
def rootfs(user: Home, gvisor: tuple[str, Mapping[str, Any]]) -> Path:
    """The image as that user's own."""
    if os.getuid() != 0:
        return Path(gvisor[1]["root"])
    place = user.path.parent / "rootfs"
    subprocess.run(["cp", "-a", gvisor[1]["root"], place], check=True)
    subprocess.run(["chown", "-R", f"{user.account.uid}:{user.account.gid}", place], check=True)
    return place


def test_everything_works_and_nothing_is_left(
    user: Home, rootfs: Path, supervisor: Path, gvisor: tuple[str, Mapping[str, Any]]
) -> None:
    top = user.path.parent
    shutil.copytree(supervisor, top / "supervisor")
    os.chmod(top / "supervisor", 0o755)
    shutil.copy(f"{gvisor[0]}/runsc", top / "runsc")
    data = user.path / "data"
    root = {"name": "root", "uid": 0, "gid": 0, "home": "/workspace"}
    base = {"image": "mine", "root": str(rootfs), "account": root, "workdir": "/workspace", "env": {}}
    env = user.env()
    program = subprocess.Popen(
        [*user.python, "-c", PROGRAM, str(data), json.dumps(base), str(top / "supervisor")],
        env=env | {"PATH": f"{top}:{env['PATH']}"}, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        **user.account.process(),
    )  # fmt: skip
    assert program.stdin is not None and program.stdout is not None
    try:
        disk, said, complained, woken, text = json.loads(program.stdout.readline())
        assert (disk, said, complained, woken, text) == ("memory", "0\n33\n", "", "woken\n", "text")
        # The keeper is PID 1 of their namespace: all of it ends with it, and the next one knows.
        leaks.end_keeper(data, signal.SIGKILL)
        program.stdin.write(b"\n")
        program.stdin.flush()
        state, lost = json.loads(program.stdout.readline())
        assert state == "stopped" and lost
        assert json.loads(program.stdout.readline()) == "again\n"
        assert program.wait(60) == 0
        left = leaks.settle(data)
        assert left == ({}, set(), set())
        assert "Traceback" not in (data / "machines" / "keeper.log").read_text()
    finally:
        program.kill()
        program.wait()
        program.stdin.close()
        program.stdout.close()
        leaks.end_keeper(data, signal.SIGKILL)
