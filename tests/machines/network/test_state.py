"""What a keeper holds of a sandbox's network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from takeback.errors import Damaged
from takeback.machines.network import state
from takeback.machines.network.rules import read_rules
from takeback.machines.network.state import SandboxNetwork
from tests.machines.network.support import echo, free_port, http_server, run, sandbox, serving


def test_rules_are_kept_and_their_version_goes_up_with_each_change(tmp_path: Path) -> None:
    times = iter([10.0, 20.0])
    network = SandboxNetwork("sb1", tmp_path, read_rules(allow=["a.test"]), clock=lambda: next(times))
    assert network.record()["version"] == 1 and network.record()["updatedAt"] == "1970-01-01T00:00:10.000Z"
    assert network.set(read_rules(allow=["a.test"]))["version"] == 1
    shown = network.set(read_rules(internet=False))
    assert (shown["version"], shown["internet"], shown["enforced"], shown["enforcedVersion"]) == (2, False, True, 2)
    again = SandboxNetwork("sb1", tmp_path)
    assert again.record() == shown and again.rules == network.rules


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2}', '{"format":1,"internet":"yes"}'])
def test_a_spoiled_file_opens_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / "network.json").write_text(content)
    with pytest.raises(Damaged):
        SandboxNetwork("sb1", tmp_path)


def test_it_serves_one_machine_after_another(tmp_path: Path, init: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PORT", free_port())

    async def work() -> None:
        async with http_server() as server, serving(echo) as inside, sandbox(tmp_path, init) as box:
            network = SandboxNetwork("sb1", tmp_path, read_rules(allow=["127.0.0.1"]))
            _, port = await network.forward(inside)
            for _ in range(2):
                await box.link.attach()
                await network.attach(box.link)
                box.port = state.PORT
                request = f"GET http://127.0.0.1:{server.port}/ HTTP/1.0\r\n\r\n".encode()
                assert (await box.ask(request)).endswith(b"hello")
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"ping"
                writer.transport.abort()
            network.set(read_rules(internet=False))
            assert b" 403 " in await box.ask(request)
            assert [entry.allowed for entry in network.log()] == [True, True, False]
            assert network.forwards() == {inside: ("127.0.0.1", port)}
            assert await network.unforward(inside) and not await network.unforward(inside)
            await network.close()

    run(work())
