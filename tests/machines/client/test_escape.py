"""Root inside a real sandbox tries to get outside by other ways than the one that decides."""

from __future__ import annotations

import pytest

from tests.machines.client.faces import Face
from tests.machines.client.web import serving

# Each prints what it reached, if it did.
ATTEMPTS = {
    "a direct address": "s=socket.socket(); s.settimeout(3); s.connect(('192.0.2.1', 80))",
    "this machine's loopback": "s=socket.create_connection(('127.0.0.1', PORT), 3)",
    "direct IPv6": "s=socket.socket(socket.AF_INET6); s.settimeout(3); s.connect(('2001:db8::1', 80))",
    "a datagram": "s=socket.socket(type=socket.SOCK_DGRAM); s.connect(('192.0.2.1', 53)); s.send(b'x')",
    "a name server": "socket.getaddrinfo('example.org', 80)",
    "a raw socket": (
        "s=socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); "
        "s.settimeout(3); s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('192.0.2.1', 0)); s.recv(100)"
    ),
    "a packet socket": "s=socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3); s.bind(('eth0', 0))",
    "a new interface": "subprocess.run(['ip', 'link', 'add', 'x', 'type', 'dummy'], check=True)",
    "a vsock": "s=socket.socket(40, socket.SOCK_STREAM); s.settimeout(3); s.connect((2, 80))",
}


async def test_there_is_no_way_round(one: Face, tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("srv")) as server:
        async with await one.create(network={"internet": False}) as box:
            for name, source in ATTEMPTS.items():
                source = f"import socket, subprocess\n{source.replace('PORT', str(server.port))}\nprint('reached')"
                done = await box.exec(["python3", "-c", source], user="root", timeout_ms=20_000)
                assert (done.exit_code, done.stdout) == (1, ""), name
            links = (await box.exec("cat /proc/net/dev", user="root")).stdout.splitlines()[2:]
            assert [line.split(":")[0].strip() for line in links] == ["lo"]
            spoilt = "echo > /etc/resolv.conf; echo 127.0.0.1 evil.test >> /etc/hosts; pkill -f proxy; true"
            await box.exec(spoilt, user="root")
            # Its own words to the proxy do not help either: another Host, another spelling, a tunnel, SOCKS.
            url = f"http://{server.address}/hello"
            for words in (
                f"-x http://127.0.0.1:10800 {url}",
                f"-x http://127.0.0.1:10800 -H 'Host: localhost' http://2130706433:{server.port}/hello",
                f"-p -x http://127.0.0.1:10800 {url}",
                f"-x socks5h://127.0.0.1:10800 {url}",
                f"-x http://127.0.0.1:10800 http://[::ffff:127.0.0.1]:{server.port}/hello",
            ):
                done = await box.exec(f"curl -s -m 10 --noproxy '' {words}", user="root")
                assert "hello" not in done.stdout.splitlines(), words
            await box.network.set(internet=True, connect=[server.address])
            assert (await box.exec(f"curl -s --noproxy '' -x socks5h://127.0.0.1:10800 {url}")).stdout == "hello"


async def test_what_all_sandboxes_share_cannot_be_emptied(one: Face) -> None:
    """gVisor truncates on open before it looks whether the mount is read-only (found with 20240729)."""
    async with await one.create() as box:
        size = (await box.exec("stat -c %s /.takeback/init")).stdout
        for words in (": > /.takeback/init", "cp /bin/echo /.takeback/init", "truncate -s 1 /.takeback/init"):
            assert (await box.exec(words, user="root")).exit_code != 0, words
        source = "import os; os.open('/.takeback/init', os.O_RDONLY | os.O_TRUNC)"
        assert (await box.exec(["python3", "-c", source], user="root")).exit_code != 0
        assert (await box.exec("stat -c %s /.takeback/init")).stdout == size
        async with await one.create() as other:
            assert (await other.exec("echo alive")).stdout == "alive\n"
