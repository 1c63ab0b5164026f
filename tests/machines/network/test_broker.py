"""What the rules refuse cannot be reached, however it is asked for; what they allow can."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from takeback.machines.network.rules import read_rules
from tests.machines.network.support import Names, echo, http_server, run, sandbox, serving


def test_a_server_is_reachable_before_off_and_refused_after(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init) as box:
            request = f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
            answer = await box.ask(request, eof=True)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"hello")
            box.broker.set_rules(read_rules(internet=False))
            answer = await box.ask(request, eof=True)
            assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert b"X-Runtime-Egress: internet-off\r\n" in answer
            assert len(server.heads) == 1

    run(work())


def test_open_connections_are_cut_at_once_by_new_rules(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            head, reader, writer = await box.connect(f"127.0.0.1:{port}")
            assert " 200 " in head
            writer.write(b"x")
            assert await reader.read(1) == b"x"
            assert box.broker.set_rules(read_rules(internet=False)) == 1
            async with asyncio.timeout(2):
                with pytest.raises(ConnectionResetError):
                    await reader.read()
            writer.transport.abort()
            await asyncio.sleep(0.05)
            (entry,) = box.log()
            assert entry.ended.startswith("cut by new rules") and (entry.up, entry.down) == (1, 1)

    run(work())


def test_connections_that_new_rules_still_allow_live_on(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            assert box.broker.set_rules(read_rules(connect=[f"127.0.0.1:{port}"])) == 0
            writer.write(b"still here")
            assert await reader.readexactly(10) == b"still here"
            writer.transport.abort()

    run(work())


_SPELLINGS = ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "localhost", "LOCALHOST."]
_SPELLINGS += ["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0.0.0.0", "0"]


@pytest.mark.parametrize("host", _SPELLINGS)
def test_this_machine_is_refused_however_it_is_spelt(host: str, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init, read_rules()) as box:
            head, _, writer = await box.connect(f"{host}:{port}")
            writer.transport.abort()
            assert " 403 " in head and "X-Runtime-Egress: rule-not-allowed" in head

    run(work())


def test_a_name_that_leads_to_a_private_address_is_refused(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        names = Names({"inside.test": ["10.1.2.3"], "meta.test": ["169.254.169.254"], "self.test": ["127.0.0.1"]})
        async with sandbox(tmp_path, init, read_rules(connect=["meta.test:80"]), names=names) as box:
            for name in ("inside.test", "meta.test", "self.test"):
                head, _, writer = await box.connect(f"{name}:80")
                writer.transport.abort()
                assert " 403 " in head, name

    run(work())


def test_a_name_is_looked_up_once_and_the_address_that_was_checked_is_the_one_connected_to(
    tmp_path: Path, init: Path
) -> None:
    async def work() -> None:
        async with serving(echo) as port:
            names = Names({"turns.test": [["127.0.0.1"], ["127.0.0.2"]]})
            rules = read_rules(allow=["turns.test", "127.0.0.1"])
            async with sandbox(tmp_path, init, rules, names=names) as box:
                head, _, writer = await box.connect(f"turns.test:{port}")
                writer.transport.abort()
                assert " 200 " in head and names.asked == ["turns.test"]
                assert [entry.address for entry in box.log()] == ["127.0.0.1"]
                head, _, writer = await box.connect(f"turns.test:{port}")  # now it answers another one
                writer.transport.abort()
                assert " 403 " in head and "127.0.0.2" in box.log(allowed=False)[0].why

    run(work())


def test_names_that_are_not_allowed_are_never_looked_up(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        names = Names({"good.test": ["127.0.0.1"]})
        rules = read_rules(allow=["good.test", "127.0.0.1"])
        async with sandbox(tmp_path, init, rules, names=names) as box:
            for rule in (rules, read_rules(internet=False)):
                box.broker.set_rules(rule)
                head, _, writer = await box.connect("c2VjcmV0.evil.test:443")
                writer.transport.abort()
                assert " 403 " in head
            assert names.asked == []

    run(work())


def test_a_redirect_to_a_private_address_is_refused_when_it_is_followed(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init) as box:
            for place in ("169.254.169.254", "10.0.0.1", "[fd00:ec2::254]"):
                answer = await box.ask(f"GET http://{place}/ HTTP/1.1\r\nHost: {place}\r\n\r\n".encode(), eof=True)
                assert b" 403 " in answer and b"rule-not-allowed" in answer
            assert server.heads == []

    run(work())


def test_every_decision_is_logged_with_the_step_and_why(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init, step=lambda: "pip install x") as box:
            await box.ask(f"GET http://127.0.0.1:{server.port}/a HTTP/1.0\r\n\r\n".encode())
            await box.ask(b"GET http://evil.test/b HTTP/1.0\r\n\r\n")
            yes, no = box.log()
            assert (yes.method, yes.host, yes.port, yes.allowed) == ("GET", "127.0.0.1", server.port, True)
            assert yes.address == "127.0.0.1" and yes.up and yes.down and yes.ended == "closed"
            assert (no.host, no.allowed, no.code, no.step) == ("evil.test", False, "rule-not-allowed", "pip install x")
            assert "not in allow" in no.why

    run(work())


def test_a_refusal_says_which_rule_would_allow_it(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init) as box:
            answer = await box.ask(b"GET http://api.example.com:8080/ HTTP/1.0\r\n\r\n")
            assert b"api.example.com is not in allow" in answer
            assert b"allow: api.example.com, or connect: api.example.com:8080" in answer

    run(work())
