"""An ordinary user's sandboxes: namespaces of their own, and nothing left when all is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from takeback.host import spaces
from tests.machines.client import leaks
from tests.support.cli import Home

PROGRAM = """
import http.server, json, os, signal, sys, threading, time
from pathlib import Path
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from takeback.machines.client.trial import try_in_copy

data, base, supervisor = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
client = Client(data, prepare=lambda fields: {**fields, "base": base, "supervisor": supervisor})
box = Sandbox.create(client=client, name="mine")
first = box.exec("id -u; chown 33 /workspace; echo x > /root/f; stat -c %u /workspace")
box.pause()
woken = box.exec("echo woken").stdout
process = box.spawn("sleep 1000")
box.files.write("/workspace/f", "text")
text = box.files.read_text("/workspace/f")


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"127.0.0.1:{server.server_port}"


def fetched(one):
    return one.exec(f"curl -s --noproxy '' http://{address}/").stdout.partition(":")[0]


undone = {"off": fetched(box)}
box.network.set(internet=True, connect=[address])
undone["on"] = fetched(box)
with box.fork() as copy:
    copy.files.write("/workspace/f", "of the copy")
    undone["copy"] = [copy.process(process.id).state, box.files.read_text("/workspace/f"), fetched(copy)]
saved = box.snapshot()
box.files.write("/workspace/f", "later")
box.exec("rm /root/f; chown 0 /workspace")
box.restore(saved)
undone["restored"] = [
    box.files.read_text("/workspace/f"), box.exec("cat /root/f; stat -c %u /workspace").stdout, fetched(box),
    process.refresh()["state"],
]
with Sandbox.create(client=client, snapshot=saved["id"]) as later:
    undone["started"] = [later.files.read_text("/workspace/f"), fetched(later)]
bad = try_in_copy(box, "rm f", "test -e f")
good = try_in_copy(box, "echo kept > f", "test -e f")
undone["tried"] = [bad.passed, bad.kept is box, good.passed]
box = good.kept
process = box.process(process.id)
undone["tried"] += [box.files.read_text("/workspace/f"), fetched(box)]
for one in Snapshots(client).list():
    Snapshots(client).delete(one["id"])
server.shutdown()
print(json.dumps(undone), flush=True)
pool = data / "machines/pool"


def made_ahead():
    # Those that nobody has yet: the folders of sandboxes that came out of the pool are there too.
    found = [json.loads(one.read_bytes()) for one in pool.glob("*/engine.json")]
    return sum(one["current"]["phase"] == "created" for one in found)


until = time.monotonic() + 30
while made_ahead() < 2 and time.monotonic() < until:
    time.sleep(0.05)  # they are made one after the other
with Sandbox.create(client=client) as second:
    record = json.loads((data / "machines/sandboxes" / second.id / "engine.json").read_bytes())
    ready = [str(pool) in record["current"]["bundle"], second.exec("echo $HOME; ls /workspace").stdout]
print(json.dumps([box.info["disk"], first.stdout, first.stderr, woken, text, ready]), flush=True)
sys.stdin.readline()
box.refresh()
print(json.dumps([box.state, box.info["lost"], process.refresh()["exitCode"]]), flush=True)
print(json.dumps(box.exec("echo found again").stdout), flush=True)
snapshot = box.snapshot()
box.restore(snapshot)
print(json.dumps(box.exec("cat /workspace/f").stdout), flush=True)
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


# Reading all files of the image, more than its memory, is no use of its memory.
GREEDY = """
import json, sys, time
from pathlib import Path
from takeback.errors import TakebackError
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox

data, base, supervisor = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
client = Client(data, prepare=lambda fields: {**fields, "base": base, "supervisor": supervisor})
other = Sandbox.create(client=client)
box = Sandbox.create(client=client, memory_mib=128)
read = box.exec("find /usr -type f -exec cat {} + | wc -c").stdout
time.sleep(3)
box.refresh()
print(json.dumps([int(read) > 140 << 20, box.state]), flush=True)
try:
    box.exec("python3 -c 'x = [b\\"x\\" * (20 << 20) for _ in range(40)]; import time; time.sleep(100)'")
    refused = ""
except TakebackError as error:
    refused = str(error)
box.wait_for("stopped", 30)
try:
    box.exec("true")
except TakebackError as error:
    refused = str(error)
print(json.dumps([box.state, box.info["stopReason"], refused]), flush=True)
print(json.dumps(other.exec("echo unharmed").stdout), flush=True)
other.delete()
box.delete()
"""


def begun(
    user: Home, rootfs: Path, supervisor: Path, gvisor: tuple[str, Mapping[str, Any]], text: str
) -> subprocess.Popen[bytes]:
    """Start a program of that user's: it gets the data directory, the base of the image, and the supervisor."""
    top = user.path.parent
    shutil.copytree(supervisor, top / "supervisor")
    os.chmod(top / "supervisor", 0o755)
    shutil.copy(f"{gvisor[0]}/runsc", top / "runsc")
    root = {"name": "root", "uid": 0, "gid": 0, "home": "/workspace"}
    base = {"image": "mine", "root": str(rootfs), "account": root, "workdir": "/workspace", "env": {}}
    env = user.env()
    return subprocess.Popen(
        [*user.python, "-c", text, str(user.path / "data"), json.dumps(base), str(top / "supervisor")],
        env=env | {"PATH": f"{top}:{env['PATH']}"}, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        **user.account.process(),
    )  # fmt: skip


def test_everything_works_and_nothing_is_left(
    user: Home, rootfs: Path, supervisor: Path, gvisor: tuple[str, Mapping[str, Any]]
) -> None:
    data = user.path / "data"
    program = begun(user, rootfs, supervisor, gvisor, PROGRAM)
    assert program.stdin is not None and program.stdout is not None
    try:
        assert json.loads(program.stdout.readline()) == {
            "off": "takeback", "on": "hello", "copy": ["running", "text", "hello"],
            "restored": ["text", "x\n33\n", "hello", "running"], "started": ["text", "hello"],
            "tried": [False, True, True, "kept\n", "hello"],
        }  # fmt: skip
        disk, said, complained, woken, text, ready = json.loads(program.stdout.readline())
        assert (disk, said, complained, woken, text) == ("memory", "0\n33\n", "", "woken\n", "text")
        assert ready == [True, "/workspace\n"]
        # The keeper is not PID 1 of their namespace: the next one enters it and finds all of them again.
        leaks.end_keeper(data, signal.SIGKILL)
        program.stdin.write(b"\n")
        program.stdin.flush()
        assert json.loads(program.stdout.readline()) == ["running", None, None]
        assert json.loads(program.stdout.readline()) == "found again\n"
        assert json.loads(program.stdout.readline()) == "kept\n"
        # When PID 1 is killed all of it ends, and the next keeper knows.
        first = spaces.find(data / "machines" / "namespaces.json")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until = time.monotonic() + 20
        while leaks.keepers(data):  # it ends with all that is in its namespaces, which takes a moment
            assert time.monotonic() < until
            time.sleep(0.01)
        program.stdin.write(b"\n")
        program.stdin.flush()
        state, lost = json.loads(program.stdout.readline())
        assert state == "stopped" and "namespaces" in lost
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
        leaks.end_all(data)  # its sandboxes outlive it


@pytest.mark.long
def test_a_sandbox_over_its_memory_ends_alone_and_says_so(
    user: Home, rootfs: Path, supervisor: Path, gvisor: tuple[str, Mapping[str, Any]]
) -> None:
    """No control group is this user's: the keeper watches."""
    data = user.path / "data"
    program = begun(user, rootfs, supervisor, gvisor, GREEDY)
    try:
        out, _ = program.communicate(timeout=120)
        read, ended, other = (json.loads(line) for line in out.splitlines())
        assert read == [True, "running"]
        why = "it needed more than its 128 MiB of memory"
        assert ended[:2] == ["stopped", why] and why in ended[2]
        assert other == "unharmed\n" and program.returncode == 0
        assert leaks.settle(data) == ({}, set(), set())
        assert "Traceback" not in (data / "machines" / "keeper.log").read_text()
    finally:
        program.kill()
        program.wait()
        leaks.end_keeper(data, signal.SIGKILL)
        leaks.end_all(data)
