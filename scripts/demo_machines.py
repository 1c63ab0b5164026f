"""The same for a whole machine: a database and a server in a sandbox, migrations tried in copies, steps taken back.

Started by `scripts/demo`. What is proved is read from inside: a dump's digest, the server's own pid and the random word
it drew when it started, a session that is open in a transaction. Engine, image and the prepared database are kept below
.cache; all else is gone at the end. Exit code 1 when anything is not as it must be.

Does not cover: copies of a machine while it works hard, and what can go wrong (tests/machines).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from takeback import Chain, Sandbox, TakebackError, snapshots, try_in_copy
from takeback.host import system

TOP = Path(__file__).resolve().parents[1]
DATA = TOP / ".cache" / "machines" / str(os.geteuid())
LABEL = {"takeback": "demo"}
ONLY_PACKAGES = {"internet": False, "allow": ["registries"]}
LONG_MS = 900_000
PREPARED = "demo-postgresql"

ORDERS = 500
MAKE = """
CREATE TABLE orders (id integer PRIMARY KEY, total integer NOT NULL);
INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
    SELECT i, i * 10 FROM n;
"""
CHECK = "test \"$(curl -sf localhost:8000/orders)\" = '500 orders, 1252500 in all'"
BAD = {
    "drops a column": "ALTER TABLE orders DROP COLUMN total",
    "deletes rows": "DELETE FROM orders WHERE id > 400",
    "makes wrong sums": "UPDATE orders SET total = total / 100",
}
GOOD = "ALTER TABLE orders ADD COLUMN paid boolean NOT NULL DEFAULT false"
SERVER = """
import http.server, os, secrets, subprocess

ME = f"pid {os.getpid()}, started as {secrets.token_hex(4)}"  # only in its memory

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = ME
        if self.path == "/orders":
            query = "SELECT count(*) || ' orders, ' || sum(total) || ' in all' FROM orders"
            done = subprocess.run(["/workspace/sql", query], capture_output=True, text=True)
            text = done.stdout.strip()
            if done.returncode != 0:
                return self.send_error(500)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Answer).serve_forever()
"""


class Database(NamedTuple):
    """How one database is got ready once, started in a sandbox, asked, dumped, and what keeps a transaction open."""

    name: str
    prepare: tuple[str, ...]
    start: str
    sql: str
    dump: str
    session: str


POSTGRESQL = Database(
    name="PostgreSQL",
    prepare=(
        "sudo apt-get -qq update",
        # The image lives in .cache, and may be built again: no fsync, no manuals, no cluster that Debian would start.
        "sudo mkdir -p /etc/postgresql-common && echo create_main_cluster = false"
        " | sudo tee /etc/postgresql-common/createcluster.conf",
        "sudo DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends"
        " -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold"
        " -o Dpkg::Options::=--path-exclude='/usr/share/doc/*' -o Dpkg::Options::=--path-exclude='/usr/share/man/*'"
        " -o Dpkg::Options::=--path-exclude='/usr/share/locale/*' postgresql",
        "sudo rm -rf /var/lib/apt/lists/* /var/cache/apt/*",
        "sudo ln -sf /usr/lib/postgresql/*/bin/* /usr/local/bin/",
        "initdb -D /workspace/data -A trust -E UTF8 --locale=C",
    ),
    start="pg_ctl -D data -w -l log -o \"-k /tmp -c listen_addresses=''\" start && createdb -h /tmp shop",
    sql='exec psql -XAtq -v ON_ERROR_STOP=1 -h /tmp shop -c "$1"',
    # Its \\restrict lines have another random word in each dump.
    dump="pg_dump -h /tmp shop | grep -v '^.\\(un\\)\\?restrict '",
    session="psql -XAtq -h /tmp shop",
)
SQLITE = Database(
    name="SQLite",
    prepare=(),
    start="true",
    sql='exec sqlite3 -cmd ".timeout 5000" shop.db "$1"',
    dump="sqlite3 shop.db .dump",
    session="sqlite3 carts.db",
)


class Proofs:
    """Prints each step with its time and what it proves; remembers whether all held, and the times for the end."""

    def __init__(self) -> None:
        self.wrong = 0
        self.times: list[tuple[str, float]] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        self.times.append((what, took))
        print(f"{took:7.2f} s   {what}", flush=True)

    def hold(self, what: str, was: object, now: object) -> None:
        """Say whether two things are the same."""
        same = was == now
        self.wrong += not same
        print(f"            {what}: {'as it must be' if same else f'WRONG, {was!r} became {now!r}'}", flush=True)


class Shop:
    """A sandbox with a database, a server that answers from it, and a session open in a transaction."""

    def __init__(self, box: Sandbox, database: Database) -> None:
        self.box, self.database = box, database
        for name, text in (("sql", database.sql), ("dump", database.dump)):
            box.files.write(f"/workspace/{name}", f"#!/bin/sh\ncd /workspace\n{text}\n", mode=0o755)
        box.files.write("/workspace/server.py", SERVER)
        box.exec(database.start, check=True, timeout_ms=LONG_MS)
        box.exec(["./sql", MAKE], check=True)
        self.server = box.spawn("exec python3 server.py").id
        session = box.spawn(database.session)
        session.write(
            "CREATE TABLE carts (what text);\nBEGIN;\nINSERT INTO carts VALUES ('not yet bought');\nSELECT 'open';\n"
        )
        next(event for event in session.output(timeout_seconds=30) if "open" in event.get("data", ""))
        self.session = session.id
        box.exec("until curl -sf localhost:8000 >/dev/null; do sleep 0.05; done", check=True)

    def digest(self) -> str:
        """The digest of a dump of all orders."""
        return self.box.exec("set -o pipefail; ./dump | sha256sum", check=True).stdout.split()[0]

    def alive(self) -> tuple[str, str, str]:
        """What the server says of itself, and the states of server and session."""
        says = self.box.exec("curl -sf localhost:8000/", check=True).stdout
        return says, self.box.process(self.server).state, self.box.process(self.session).state

    def state(self) -> dict[str, Any]:
        """All that a step of the chain may change, and what it may not."""
        settings = self.box.exec("cat /etc/shop.conf 2>/dev/null || echo none").stdout
        workers = self.box.exec("cat /proc/[0-9]*/comm | grep -c '^worker' || true").stdout
        return {"dump": self.digest(), "settings": settings, "workers": workers, "alive": self.alive()}


def begin(proofs: Proofs, sqlite: bool) -> tuple[Sandbox, Database]:
    """Return a new sandbox, with PostgreSQL if it is wanted and can be had."""
    create: dict[str, Any] = {"name": f"shop-{os.getpid()}", "labels": LABEL, "network": ONLY_PACKAGES}
    if sqlite:
        return Sandbox.create(**create), SQLITE
    for one in snapshots.list(name=PREPARED, state="ready"):
        try:
            with proofs.step("a sandbox started from what an earlier run kept: PostgreSQL installed"):
                return Sandbox.create(snapshot=one["id"], **create), POSTGRESQL
        except TakebackError:  # it is of another version of the engine or the image
            snapshots.delete(one["id"])
    box = Sandbox.create(**create)
    if box.info["disk"] == "memory":
        print(
            "            this user's disks live in memory, where PostgreSQL is too big to copy: SQLite takes its place"
        )
        return box, SQLITE
    try:
        with proofs.step("PostgreSQL installed from your own package sources (once)"):
            for command in POSTGRESQL.prepare:
                box.exec(command, check=True, timeout_ms=LONG_MS)
    except TakebackError as error:
        print(f"            PostgreSQL cannot be had here ({error}); SQLite, which is in the image, takes its place")
        return box, SQLITE
    with proofs.step("kept for later runs"):
        box.snapshot(name=PREPARED, mode="disk")
    return box, POSTGRESQL


def door(box: Sandbox, proofs: Proofs) -> None:
    """Nothing but package sources is reached, and then nothing at all."""
    with proofs.step("a page outside asked for, network off, asked for again"):
        first = box.exec("curl -sS https://example.com", timeout_ms=20_000).exit_code
        box.network.off()
        second = box.exec("curl -sS https://example.com", timeout_ms=20_000).exit_code
    proofs.hold("both refused outside the sandbox", (True, True), (first != 0, second != 0))
    refused = [one["host"] for one in box.network.log() if not one["allowed"]]
    proofs.hold("the log says so, and of nothing else", ["example.com"] * 2, refused)


def migrate(shop: Shop, proofs: Proofs) -> None:
    """Bad migrations are dropped with their copies, a good one is kept with its copy."""
    before, alive, source = shop.digest(), shop.alive(), shop.box.id
    for what, sql in BAD.items():
        with proofs.step(f"tried in a copy and dropped: a migration that {what}"):
            trial = try_in_copy(shop.box, ["./sql", sql], CHECK, timeout=60)
        proofs.hold("did not pass", (False, source), (trial.passed, trial.kept.id))
        proofs.hold("the data never saw it, server and session go on", (before, alive), (shop.digest(), shop.alive()))
    with proofs.step("tried in a copy and kept: a migration that adds a column"):
        trial = try_in_copy(shop.box, ["./sql", GOOD], CHECK, timeout=60)
    shop.box = trial.kept
    proofs.hold("passed, and the copy took the place", (True, True), (trial.passed, trial.kept.id != source))
    proofs.hold("server and session went over with all their memory", alive, shop.alive())
    count = shop.box.exec(["./sql", "SELECT count(*) FROM orders WHERE NOT paid"], check=True).stdout.strip()
    proofs.hold("every order is there and has the new column", str(ORDERS), count)


def chain(shop: Shop, proofs: Proofs) -> None:
    """Five steps of all kinds, and back to the third."""
    steps = {
        "a table": ["./sql", "CREATE TABLE customers (name text); INSERT INTO customers VALUES ('Ada'), ('Ben')"],
        "a file in /etc": "echo currency=EUR | sudo tee /etc/shop.conf",
        # In a session of its own, else it would end with the command.
        "a worker": "cp /bin/sleep worker; setsid -f sh -c 'echo $$ >worker.pid; exec ./worker 100000'"
        " >/dev/null 2>&1 </dev/null; until test -s worker.pid; do sleep 0.01; done",
        "doubled totals": ["./sql", "UPDATE orders SET total = total * 2"],
        "a mess": "./sql 'DROP TABLE customers'; sudo rm /etc/shop.conf; kill $(cat worker.pid)",
    }
    line = Chain(shop.box)
    states = []
    for name, command in steps.items():
        with proofs.step(f"a step, remembered: {name}"):
            shop.box.exec(command, check=True)
            line.remember(name)
        states.append(shop.state())
    proofs.hold("each step left its mark", len(steps), len({str(state) for state in states}))
    with proofs.step("back to step 3, in place"):
        line.go_back_to(3)
    proofs.hold("data, /etc, processes as they were then", states[2], shop.state())
    print("\n".join(f"            {drawn}" for drawn in line.show().splitlines()))
    with proofs.step("and forward to step 5"):
        line.go_back_to(5)
    proofs.hold("data, /etc, processes as they were then", states[4], shop.state())


def finish_session(shop: Shop, proofs: Proofs) -> None:
    """The transaction that was open through all of it is committed."""
    with proofs.step("the open transaction committed, after all those copies"):
        session = shop.box.process(shop.session)
        session.write("COMMIT;\nSELECT what FROM carts;\n", eof=True)
        said = "".join(event.get("data", "") for event in session.output(timeout_seconds=30))
    proofs.hold("what it had inserted is there", "not yet bought", said.strip().splitlines()[-1])


def hosted(proofs: Proofs) -> None:
    """Run a program of the hosted client's users in a process of its own."""
    with proofs.step("a program as users of the hosted client write it (scripts/demo_hosted.py)"):
        name = f"hosted-{os.getpid()}"
        argv = [sys.executable, str(TOP / "scripts" / "demo_hosted.py"), name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        for left in Sandbox.list(labels={"task": name}):  # when it failed
            left.delete()
    print("\n".join(f"            {line}" for line in (done.stdout + done.stderr).splitlines()))
    proofs.hold("it ran to its end", 0, done.returncode)


def main(argv: Sequence[str]) -> int:
    """Run the demo; 0 when every proof held, and where there can be no machines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sqlite", action="store_true", help="install nothing: use the database that is in the image")
    asked = parser.parse_args(argv)
    why = "they need Linux" if system.name() != "Linux" else system.namespace_problem()
    if why:
        print(f"\nthe part about machines is left out: {why}")
        return 0
    os.environ["TAKEBACK_HOME"] = str(DATA)
    print("\na machine of one's own: a database, a server and an open session, tried and taken back as a whole")
    proofs = Proofs()
    began = time.monotonic()
    known = {one["id"] for one in snapshots.list()}
    try:
        with proofs.step("keeper, engine and image ready"):
            Sandbox.create(labels=LABEL).delete()
        box, database = begin(proofs, asked.sqlite)
        with box:
            door(box, proofs)
            with proofs.step(f"{database.name} with {ORDERS} orders, a server and an open session started"):
                shop = Shop(box, database)
            migrate(shop, proofs)
            chain(shop, proofs)
            finish_session(shop, proofs)
        hosted(proofs)
    except TakebackError as error:
        proofs.wrong += 1
        print(f"{error}\n{error.hint_text}", file=sys.stderr)
    finally:
        for one in snapshots.list():
            if one["id"] not in known and one["name"] != PREPARED:
                snapshots.delete(one["id"])
    print(f"\n{'seconds':>9}   what")
    for what, took in proofs.times:
        print(f"{took:9.2f}   {what}")
    verdict = f"{proofs.wrong} proofs FAILED" if proofs.wrong else "every proof held"
    print(f"\n{verdict} ({time.monotonic() - began:.0f} s)")
    return 1 if proofs.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
