"""Many connections and much data: none holds up another, and memory stays small."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
from pathlib import Path

import pytest

from takeback.errors import MachineRefused
from takeback.machines.network.relay import WINDOW
from tests.machines.conftest import OTHER_BINARY
from tests.machines.network.support import Sandbox, echo, program, run, sandbox, serving

MIB = 1 << 20
# Sanitizers keep what is freed for a while.
lean = pytest.mark.skipif(OTHER_BINARY in os.environ, reason="not the real binary")


def guest_memory(box: Sandbox) -> int:
    """Return the peak of the supervisor's memory in bytes."""
    for line in Path(f"/proc/{box.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError


async def one(box: Sandbox, port: int, number: int) -> None:
    _, reader, writer = await box.connect(f"127.0.0.1:{port}")
    sent = f"{number}\n".encode() * 2000
    writer.write(sent)
    writer.write_eof()
    assert await reader.read() == sent
    writer.transport.abort()


def test_200_connections_at_once_with_some_that_nobody_reads(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(bytes(65536))
                await writer.drain()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(3600)

        async with (
            serving(flood) as loud,
            serving(deaf) as silent,
            serving(echo) as port,
            sandbox(tmp_path, init) as box,
        ):
            stalled = [await box.connect(f"127.0.0.1:{loud}") for _ in range(3)]
            stuck = [await box.connect(f"127.0.0.1:{silent}") for _ in range(3)]
            for _, _, writer in stuck:
                writer.write(bytes(8 * MIB))
            await asyncio.sleep(0.3)
            async with asyncio.timeout(30):
                await asyncio.gather(*(one(box, port, number) for number in range(200)))
            assert box.broker.open_connections == 6
            for _, _, writer in (*stalled, *stuck):
                writer.transport.abort()

    run(work())


@lean
@pytest.mark.parametrize("direction", ["down", "up"])
def test_100_mb_pass_whole_in_bounded_memory(direction: str, tmp_path: Path, init: Path) -> None:
    block = hashlib.sha256(b"x").digest() * 32768  # 1 MiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    async def work() -> None:
        digest = hashlib.sha256()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if direction == "down":
                for _ in range(100):
                    writer.write(block)
                    await writer.drain()
                return
            while data := await reader.read(65536):
                digest.update(data)
            writer.write(digest.digest())
            await writer.drain()

        async with serving(handler) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            if direction == "down":
                while data := await reader.read(65536):
                    digest.update(data)
            else:
                for _ in range(100):
                    writer.write(block)
                    await writer.drain()
                writer.write_eof()
            wanted = hashlib.sha256(block * 100).digest()
            assert (digest.digest() if direction == "down" else await reader.read()) == wanted
            writer.transport.abort()
            assert guest_memory(box) < 16 * MIB

    run(work())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert grown < 140 * MIB  # 100 of them are `block * 100` of this test


@lean
def test_a_stream_nobody_reads_holds_no_more_than_its_window(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(3600)

        async with serving(deaf) as port, sandbox(tmp_path, init) as box:
            _, _, writer = await box.connect(f"127.0.0.1:{port}")
            writer.write(bytes(32 * MIB))
            await asyncio.sleep(0.5)
            (stream,) = box.broker.relay._streams.values()
            assert stream._held <= WINDOW
            assert guest_memory(box) < 8 * MIB
            writer.transport.abort()

    run(work())


def test_connections_beyond_the_limit_are_reset_and_room_comes_back(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            clients = []
            for _ in range(1100):
                try:
                    clients.append(await box.client())
                except ConnectionError:
                    pass
            await asyncio.sleep(0.5)
            assert len(box.broker.relay) == 1024
            for _, writer in clients:
                writer.transport.abort()
            await asyncio.sleep(0.5)
            assert len(box.broker.relay) == 0
            await one(box, port, 1)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    run(work())


def test_commands_run_beside_a_flood(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(bytes(65536))
                await writer.drain()

        async with serving(flood) as port, sandbox(tmp_path, init) as box:
            code = asyncio.create_task(
                program(
                    ["timeout", "2", "curl", "-s", "-o", "/dev/null", "-p", f"http://127.0.0.1:{port}/"],
                    box.environment(),
                )
            )
            await asyncio.sleep(0.3)
            for _ in range(20):
                await box.link.ping(1.0)
            await code

    run(work())


def test_a_copy_resets_all_connections_and_accepts_new_ones(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            await box.link.identity(2, machine_id="0" * 32, hostname="copy", seed=b"s")
            async with asyncio.timeout(2):
                with pytest.raises(ConnectionResetError):
                    await reader.read()
            writer.transport.abort()
            await one(box, port, 1)

    run(work())


def test_nothing_moves_between_quiesce_and_go(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            writer.write(bytes(MIB))
            await box.link.quiesce()
            moved = sum(flow.up + flow.down for flow in box.broker._flows.values())
            writer.write(bytes(MIB))
            await asyncio.sleep(0.3)
            later = sum(flow.up for flow in box.broker._flows.values())
            assert later <= moved + WINDOW
            box.link.go()
            async with asyncio.timeout(10):
                assert await reader.readexactly(2 * MIB) == bytes(2 * MIB)
            writer.transport.abort()

    run(work())


def test_a_port_that_is_taken_inside_is_said(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as taken, sandbox(tmp_path, init) as box:
            await box.link.listen(box.port)
            with pytest.raises(MachineRefused):
                await box.link.listen(taken)

    run(work())


def test_a_keeper_that_takes_over_resets_what_the_last_one_relayed(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            await box.link.attach()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.transport.abort()
            box.broker.start(box.port)
            await one(box, port, 1)
            await asyncio.sleep(0.2)
            assert box.broker.open_connections == 0

    run(work())
