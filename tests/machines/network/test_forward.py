"""A server inside is reached from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from takeback.errors import PortInUse
from takeback.machines.network.forward import Forward
from tests.machines.network.support import echo, free_port, run, sandbox, serving


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_forwarded_port_leads_inside(host: str, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo, host) as inside, sandbox(tmp_path, init) as box:
            forward = Forward(box.broker.relay.dial, inside)
            port = await forward.start()
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"x" * 500_000)
                writer.write_eof()
                assert await reader.read() == b"x" * 500_000
                writer.transport.abort()
            await asyncio.sleep(0.1)
            assert len(box.broker.relay) == 0
            await forward.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    run(work())


def test_nobody_listening_inside_ends_the_connection(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init) as box:
            with pytest.raises(ConnectionRefusedError):
                await box.broker.relay.dial(free_port())
            forward = Forward(box.broker.relay.dial, free_port())
            reader, writer = await asyncio.open_connection("127.0.0.1", await forward.start())
            assert await reader.read() == b""
            writer.transport.abort()
            await forward.close()

    run(work())


def test_a_port_that_is_taken_is_said(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as taken, sandbox(tmp_path, init) as box:
            with pytest.raises(PortInUse):
                await Forward(box.broker.relay.dial, 80).start(taken)

    run(work())
