"""A real engine with a broker: root inside gets nowhere but where the rules lead, and copies have their own rules."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from takeback.machines.engine import Machine
from takeback.machines.network.broker import PORT, Broker
from takeback.machines.network.forward import Forward
from takeback.machines.network.log import DecisionLog
from takeback.machines.network.rules import Rules, read_rules
from tests.machines.engines.conftest import KINDS, Lab
from tests.machines.engines.guest import Guest

# The fake engine walls nothing off.
pytestmark = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fake"])
LOOPBACK = read_rules(allow=["127.0.0.1"])
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CURL = f'curl -sS -m 5 -x http://127.0.0.1:{PORT} --noproxy "" -w " %{{http_code}}"'
ATTEMPTS = """
import socket as s
def name(): s.getaddrinfo("example.com", 443)
def direct(): s.create_connection(("192.0.2.1", 80), 2)
def six(): s.create_connection(("2001:db8::1", 80), 2)
def udp(): s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))
def raw(): s.socket(s.AF_INET, s.SOCK_RAW, 1).sendto(b"x", ("192.0.2.1", 0))
def packet(): s.socket(s.AF_PACKET, s.SOCK_RAW)
for attempt in (name, direct, six, udp, raw, packet):
    try:
        attempt()
        print(attempt.__name__)
    except OSError:
        pass
print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
"""
TALKER = """
import socket, sys, time
s = socket.create_connection(("127.0.0.1", %d))
s.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
s.recv(1000)
n = 0
while True:
    try:
        s.sendall(b"x")
        if not s.recv(1): raise OSError("closed")
        n += 1
        open("/tmp/state", "w").write("talks %%d" %% n)
    except OSError as error:
        open("/tmp/state", "w").write("reset")
        break
    time.sleep(0.02)
"""


class Outside:
    """A web server and an echo server of the host's, in the loop that the channels live in."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._open: list[Any] = []
        self.web = lab.loop.call(self._serve(self._hello))
        self.echo = lab.loop.call(self._serve(self._echo))

    async def _serve(self, handler: Any) -> int:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        self._open.append(server)
        return int(server.sockets[0].getsockname()[1])

    @staticmethod
    async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HELLO)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    @staticmethod
    async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()

    def broker(self, machine: Machine, guest: Guest, rules: Rules = LOOPBACK) -> Broker:
        async def work() -> Broker:
            broker = Broker(guest.link, DecisionLog(machine.folder / "network.jsonl"), rules)
            guest.link.on_connection(broker.receive)
            broker.start()
            await guest.link.listen(PORT)
            self._open.append(broker)
            return broker

        return self.lab.loop.call(work())

    def set_rules(self, broker: Broker, rules: Rules) -> int:
        async def work() -> int:
            return broker.set_rules(rules)

        return self.lab.loop.call(work())

    def close(self) -> None:
        async def work() -> None:
            for one in reversed(self._open):
                closed = one.close()
                if closed is not None:
                    await closed
            await asyncio.sleep(0.05)

        self.lab.loop.call(work())


def test_root_inside_gets_only_where_the_rules_lead(lab: Lab) -> None:
    outside = Outside(lab)
    try:
        machine, guest = lab.started()
        broker = outside.broker(machine, guest)
        url = f"http://127.0.0.1:{outside.web}/"
        assert guest.sh(f"{CURL} {url}") == "hello 200"
        assert guest.sh(f"{CURL} -p {url}") == "hello 200"
        outside.set_rules(broker, read_rules(internet=False))
        assert guest.sh(f"{CURL} -o /dev/null {url}") == " 403"
        outside.set_rules(broker, read_rules())
        guest.sh(f"cat > /tmp/attempts.py <<'END'\n{ATTEMPTS}\nEND")
        assert guest.sh("python3 /tmp/attempts.py") == "['lo']\n"
        assert [entry.allowed for entry in broker.log.entries()] == [True, True, False]
    finally:
        outside.close()


def test_a_copy_is_reset_at_once_and_the_source_keeps_its_connection(lab: Lab) -> None:
    outside = Outside(lab)
    try:
        machine, guest = lab.started()
        broker = outside.broker(machine, guest)
        guest.sh(f"cat > /tmp/talker.py <<'END'\n{TALKER % (PORT, outside.echo)}\nEND")
        guest.sh("setsid python3 /tmp/talker.py >/dev/null 2>&1 & sleep 1")
        saved = lab.save(machine, guest)
        before = guest.sh("cat /tmp/state")
        copy_machine, copy = lab.restored(saved)
        lab.loop.call(copy.link.identity(2, machine_id="0" * 32, hostname="copy", seed=b"seed"))
        copied = outside.broker(copy_machine, copy, broker.rules)
        url = f"http://127.0.0.1:{outside.web}/"
        assert copy.sh("sleep 0.5; cat /tmp/state") == "reset"
        assert copy.sh(f"{CURL} {url}") == "hello 200"
        after = guest.sh("cat /tmp/state")
        assert after.startswith("talks ") and after != before
        outside.set_rules(copied, read_rules(internet=False))
        assert copy.sh(f"{CURL} -o /dev/null {url}") == " 403"
        assert guest.sh(f"{CURL} {url}") == "hello 200"
        assert outside.set_rules(broker, read_rules(internet=False)) == 1
        assert guest.sh("sleep 0.5; cat /tmp/state") == "reset"
    finally:
        outside.close()


def test_a_server_inside_is_reached_through_a_forwarded_port(lab: Lab, tmp_path: Path) -> None:
    outside = Outside(lab)
    try:
        machine, guest = lab.started()
        broker = outside.broker(machine, guest, read_rules(internet=False))
        guest.sh("cd /etc && setsid python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 2")

        async def work() -> bytes:
            forward = Forward(broker.relay.dial, 8000)
            reader, writer = await asyncio.open_connection("127.0.0.1", await forward.start())
            writer.write(b"GET /passwd HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await forward.close()
            return answer

        assert b"root:" in lab.loop.call(work())
    finally:
        outside.close()
