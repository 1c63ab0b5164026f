"""Servers inside are reached from here: forwarded ports and previews, through copies, pauses and the keeper's death."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from typing import Any

import pytest

from takeback.errors import InvalidRequest, PortInUse
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face
from tests.machines.client.test_keeper import kill_keeper

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Handler.count += 1
        body = f"{open('/workspace/word').read()} {Handler.count}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
print("ready", flush=True)
server.serve_forever()
"""


async def start(box: Any, word: str) -> Any:
    """Start a web server inside that answers with a word and how often it was asked."""
    await box.files.write("/workspace/word", word)
    process = await box.spawn(["python3", "-c", SERVER])
    await box.exec("until curl -s --noproxy '*' -o /dev/null 127.0.0.1:8000; do sleep 0.05; done")
    return process


async def get(port: int) -> str:
    def ask() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(ask)


def refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_forwarded_port_reaches_a_server_through_copies_too(face: Face) -> None:
    async with await face.create(network={"internet": False}) as box:
        await start(box, "source")
        forward = await box.forward_port(8000)
        assert forward.host == "127.0.0.1"
        first = await get(forward.local_port)
        assert first.startswith("source ")
        async with await box.fork() as copy:
            await copy.files.write("/workspace/word", "copy")
            async with await copy.forward_port(8000) as other:
                assert other.local_port != forward.local_port
                # The server in the copy goes on counting where the source was.
                assert await get(other.local_port) == f"copy {int(first.split()[1]) + 1}"
                assert (await get(forward.local_port)).startswith("source ")
            assert refused(other.local_port)
        with pytest.raises(PortInUse):
            await box.forward_port(8000, local_port=forward.local_port)
        for wrong in ({"port": 0}, {"port": 70000}, {"port": 1, "host": "0.0.0.0"}):
            with pytest.raises(InvalidRequest):
                await box.forward_port(**wrong)
        taken = await box.snapshot()
        await box.files.write("/workspace/word", "later")
        await box.restore(taken["id"])
        assert (await get(forward.local_port)).startswith("source ")
        await box.delete_snapshot(taken["id"])
        await box.pause()
        assert (await get(forward.local_port)).startswith("source ")
        await forward.close()
        assert refused(forward.local_port)


async def test_nobody_listening_inside_is_a_closed_connection(one: Face) -> None:
    async with await one.create() as box:
        forward = await box.forward_port(8000)
        with pytest.raises(OSError):
            await get(forward.local_port)
        await forward.close()


async def test_a_forwarded_port_ends_with_its_sandbox(face: Face) -> None:
    async with await face.create() as box:
        forward = await box.forward_port(8000)
    for _ in range(100):
        if refused(forward.local_port):
            break
        await asyncio.sleep(0.02)
    assert refused(forward.local_port)
    await forward.close()


async def test_a_forwarded_port_ends_with_the_program(one: Face, world: World) -> None:
    async with await one.create() as box:
        source = (
            "import sys, time; from pathlib import Path; from takeback.machines.client.connect import Client; "
            "from takeback.machines.client.sandbox import Sandbox; "
            "box = Sandbox.connect(sys.argv[2], client=Client(Path(sys.argv[1]))); "
            "print(box.forward_port(8000).local_port, flush=True); time.sleep(60)"
        )
        # The directory by its environment: a process that names it counts as one that was left behind.
        program = subprocess.Popen(
            [sys.executable, "-c", source, str(world.data), box.id], stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None
        with program.stdout:
            port = int(await asyncio.to_thread(program.stdout.readline))
        assert not refused(port)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        until = time.monotonic() + 5
        while not refused(port):
            assert time.monotonic() < until
            await asyncio.sleep(0.02)


async def test_a_preview_stays_until_its_sandbox_is_deleted(face: Face, world: World) -> None:
    async with await face.create() as box:
        await start(box, "source")
        made = await box.previews.create(8000)
        assert (made["port"], made["sandboxId"], made["urlWithToken"]) == (8000, box.id, made["url"])
        local = int(made["url"].rstrip("/").rpartition(":")[2])
        assert (await get(local)).startswith("source ")
        assert await box.previews.create(8000) == made == await box.previews.get(8000)
        assert await box.previews.list() == [made]
        with pytest.raises(InvalidRequest):
            await box.previews.get(9000)
        async with await box.fork() as copy:
            assert await copy.previews.list() == []
        kill_keeper(world)
        await box.refresh()
        assert (await get(local)).startswith("source ") and await box.previews.list() == [made]
        await box.pause()
        assert (await get(local)).startswith("source ")
        assert (await box.previews.delete(8000))["deleted"] is True
        assert refused(local) and await box.previews.list() == []
        again = int((await box.previews.create(8000))["url"].rstrip("/").rpartition(":")[2])
        assert (await get(again)).startswith("source ")
    assert refused(again)
