"""Real programs go on in a copy as if nothing had happened: PostgreSQL in mid-transaction, Node's and Python's servers.

Does not cover: installing them (`furnished`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from tests.machines.client.conftest import World
from tests.machines.client.furnished import furnished

CLUSTER = "$(ls /var/lib/postgresql) main"
UNIX = "psql -X -q -At -v ON_ERROR_STOP=1 -U postgres"
TCP = f"{UNIX} -h 127.0.0.1"
SERVERS = {
    8001: """
const http = require("http"); let ticks = 0; setInterval(() => ticks++, 5);
const server = http.createServer((q, a) => a.end(String(ticks)));
server.keepAliveTimeout = 0;  // else it closes a connection by itself that nobody used for five seconds
server.listen(8001, "127.0.0.1");
""",
    8002: """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, count = "HTTP/1.1", 0
    def do_GET(self):
        Handler.count += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(str(Handler.count))))
        self.end_headers()
        self.wfile.write(str(Handler.count).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", 8002), Handler).serve_forever()
""",
    8003: """
import asyncio
async def main():
    ticks = 0
    async def serve(reader, writer):
        while (await reader.readuntil(b"\\r\\n\\r\\n")):
            body = str(ticks).encode()
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
            await writer.drain()
    server = await asyncio.start_server(serve, "127.0.0.1", 8003)
    while True:
        ticks += 1
        await asyncio.sleep(0.005)
asyncio.run(main())
""",
}
# For each line it is given it asks all servers twice on connections it keeps, with a second for each answer.
CLIENT = """
import http.client, sys, time
kept = [http.client.HTTPConnection("127.0.0.1", port, timeout=1) for port in (8001, 8002, 8003)]
def ask(one):
    one.request("GET", "/")
    return int(one.getresponse().read())
for line in sys.stdin:
    try:
        before = [ask(one) for one in kept]
        time.sleep(0.1)
        print("moves" if all(ask(one) > then for one, then in zip(kept, before)) else "stands", flush=True)
    except Exception as error:
        print("failed", repr(error), flush=True)
"""


@pytest.fixture(scope="session")
def gvisor(default_base: tuple[str, Mapping[str, Any]], supervisor: Path) -> tuple[str, Mapping[str, Any]]:
    """As for the other tests, with the image that has the programs."""
    runsc, base = default_base
    return runsc, {**base, "root": str(furnished(base, runsc, supervisor))}


@pytest.fixture(params=["layers", pytest.param("memory", marks=pytest.mark.long)])
def box(world: World, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, disk=request.param) as made:
        yield made
    for one in Snapshots(world.client).list():
        Snapshots(world.client).delete(one["id"])


def out(box: Sandbox, command: str, **more: Any) -> str:
    done = box.exec(command, timeout_ms=120_000, **more)
    assert done.exit_code == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Session:
    """A `psql` that stays: of the machine it was started in, and of its copies."""

    def __init__(self, box: Sandbox, command: str) -> None:
        self._process = box.spawn(f"exec stdbuf -oL {command} postgres 2>&1")
        self._asked = 0

    def within(self, copy: Sandbox) -> Session:
        other = Session.__new__(Session)
        other._process, other._asked = copy.process(self._process.id), self._asked
        return other

    def ask(self, sql: str) -> str:
        """Return what it prints for some statements."""
        self._asked += 1
        mark = f"--mark {self._asked}--\n"
        self._process.write(f"{sql}\n\\echo '{mark[:-1]}'\n")
        text = ""
        for event in self._process.output(timeout_seconds=60):
            text += event.get("data", "")
            if mark in text:
                break
        assert mark in text, text
        before = f"--mark {self._asked - 1}--\n"
        return text[text.index(before) + len(before) if before in text else 0 : text.index(mark)]


@pytest.fixture
def database(box: Sandbox) -> Sandbox:
    """A machine in which PostgreSQL runs, with a table of a thousand rows."""
    out(box, "echo 'local all all trust\nhost all all all trust' | sudo tee /etc/postgresql/*/main/pg_hba.conf")
    out(box, f"sudo pg_ctlcluster {CLUSTER} start")
    out(
        box,
        f"{UNIX} postgres",
        stdin="CREATE EXTENSION amcheck; CREATE TABLE t (id int PRIMARY KEY, v text);"
        "INSERT INTO t SELECT n, md5(n::text) FROM generate_series(1, 1000) n;",
    )
    return box


def count(box: Sandbox, client: str) -> str:
    return out(box, f"{client} -c 'SELECT count(*) FROM t' postgres")


def sound(box: Sandbox) -> None:
    """Look at the whole index against its table."""
    out(box, f"{UNIX} -c \"SELECT bt_index_check('t_pkey', true)\" postgres")


def test_open_transactions_and_a_cursor_go_on_in_the_source_and_in_two_copies(database: Sandbox) -> None:
    local, remote = Session(database, UNIX), Session(database, TCP)
    local.ask("BEGIN; INSERT INTO t VALUES (1001, 'open');")
    assert local.ask("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 3 FROM c;") == "1\n2\n3\n"
    assert remote.ask("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t;") == "1000\n"
    remote.ask("UPDATE t SET v = 'remote' WHERE id = 5;")
    first, second = copies = database.fork(2)
    machines = [(one, local.within(one), remote.within(one)) for one in (database, *copies)]
    for one, inner, outer in machines:
        assert inner.ask("FETCH 3 FROM c; SELECT count(*) FROM t;") == "4\n5\n6\n1001\n"
        assert outer.ask("SELECT count(*) FROM t; SELECT v FROM t WHERE id = 5;") == "1000\nremote\n"
        out(one, "test -S /var/run/postgresql/.s.PGSQL.5432")
        assert count(one, UNIX) == count(one, TCP) == "1000\n"
    endings = [("COMMIT", "COMMIT"), ("ROLLBACK", "COMMIT"), ("COMMIT", "ROLLBACK")]
    for (_, inner, outer), (here, there) in zip(machines, endings, strict=True):
        inner.ask(f"{here};")
        outer.ask(f"{there};")
    out(second, f"{UNIX} -c \"INSERT INTO t VALUES (2000, 'mine')\" postgres")
    states = [
        out(one, f'{TCP} -c "SELECT count(*), max(id), (SELECT length(v) FROM t WHERE id = 5) FROM t" postgres')
        for one, _, _ in machines
    ]
    assert states == ["1001|1001|6\n", "1000|1000|6\n", "1002|2000|32\n"]
    for one, _, _ in machines:
        sound(one)
    for one in (first, second):
        one.delete()


@pytest.mark.long
def test_a_database_that_crashes_in_a_copy_recovers_what_was_committed(database: Sandbox) -> None:
    open_one = Session(database, UNIX)
    open_one.ask("BEGIN; UPDATE t SET v = 'lost'; INSERT INTO t VALUES (1001, 'lost');")
    saved = database.snapshot()
    with Sandbox.create(client=database._client, snapshot=saved["id"]) as copy:
        for one in (database, copy):
            out(one, f"{UNIX} -c \"INSERT INTO t VALUES (1002, 'kept')\" postgres")
            before = out(one, f"{UNIX} -c 'SELECT md5(string_agg(t::text, chr(10) ORDER BY id)) FROM t' postgres")
            out(one, f"sudo pg_ctlcluster {CLUSTER} stop -m immediate")
            out(one, f"sudo pg_ctlcluster {CLUSTER} start")
            after = out(one, f"{TCP} -c 'SELECT md5(string_agg(t::text, chr(10) ORDER BY id)) FROM t' postgres")
            assert after == before and count(one, TCP) == "1001\n"
            sound(one)


def served(box: Sandbox) -> str:
    """Start the servers and a client that keeps its connections; the client's id."""
    for port, source in SERVERS.items():
        box.files.write(f"/workspace/{port}", source)
        box.spawn(f"exec {'node' if port == 8001 else 'python3'} /workspace/{port}")
        out(box, f"until curl -s --noproxy '*' -o /dev/null 127.0.0.1:{port}; do sleep 0.05; done")
    client = box.spawn(["python3", "-c", CLIENT])
    assert asked(box, client.id, 1) == "moves"
    return client.id


def asked(box: Sandbox, client: str, turn: int) -> str:
    """Let the client ask, and return its answer in this turn."""
    process = box.process(client)
    process.write("\n")
    text = ""
    for event in process.output(timeout_seconds=30):
        text += event.get("data", "")
        if text.count("\n") == turn:
            break
    return text.splitlines()[-1]


def answer_at_once(box: Sandbox, client: str, turn: int) -> None:
    """New and kept connections to all servers: each answer within a second, no second attempt."""
    for port in SERVERS:
        out(box, f"curl -sS --noproxy '*' --max-time 1 127.0.0.1:{port}")
    assert asked(box, client, turn) == "moves"


@pytest.mark.parametrize("times", [3, pytest.param(50, marks=pytest.mark.long)])
def test_servers_answer_within_a_second_of_every_restore(box: Sandbox, times: int) -> None:
    client = served(box)
    saved = box.snapshot()
    for _ in range(times):
        with Sandbox.create(client=box._client, snapshot=saved["id"]) as copy:
            answer_at_once(copy, client, 2)
    answer_at_once(box, client, 2)
    box.restore(saved)
    answer_at_once(box, client, 2)


def test_servers_answer_within_a_second_in_the_source_and_in_copies_of_copies(box: Sandbox) -> None:
    client = served(box)
    copies = box.fork(2)
    for one in (box, *copies):
        answer_at_once(one, client, 2)
    later = copies[0].fork()
    assert isinstance(later, Sandbox)
    answer_at_once(later, client, 3)
    for one in (later, *copies):
        one.delete()
