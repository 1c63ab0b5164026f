"""Start the keeper of a data directory: `python -m takeback.machines.keeper [OPTIONS] DATA/machines`.

Does not cover: who starts it and in which namespaces (the client's `connect`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from takeback._version import VERSION
from takeback.errors import Busy
from takeback.host import atomic, locks, proc, process, spaces, unix
from takeback.machines.keeper import (
    ahead,
    bounds,
    diffs,
    engines,
    files,
    forks,
    forwarding,
    idle,
    meter,
    networks,
    previews,
    processes,
    reshaping,
    sandboxes,
    shared,
    snapshots,
    stored,
    trials,
)
from takeback.machines.keeper import log as logs
from takeback.machines.keeper.keeper import IDLE_SECONDS, Keeper
from takeback.machines.keeper.server import Server, log
from takeback.machines.layout import MachinesDir
from takeback.machines.network.outside import read_upstream

# Every slice brings its own.
OPERATIONS = {
    **sandboxes.OPERATIONS,
    **processes.OPERATIONS,
    **files.OPERATIONS,
    **snapshots.OPERATIONS,
    **forks.OPERATIONS,
    **trials.OPERATIONS,
    **diffs.OPERATIONS,
    **meter.OPERATIONS,
    **stored.OPERATIONS,
    **networks.OPERATIONS,
    **forwarding.OPERATIONS,
    **previews.OPERATIONS,
    **reshaping.OPERATIONS,
}


def main(argv: Sequence[str]) -> int:
    """Run until there is nothing to keep. The word `ready`, or why not, goes to the descriptor `--ready`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready", type=int, default=-1)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--platform", default="")
    parser.add_argument("--no-ahead", dest="ahead", action="store_false")
    parser.add_argument("root", type=Path)
    asked = parser.parse_args(argv)
    logs.set_up()
    directory = MachinesDir(asked.root)
    try:
        with locks.held(directory.lock, what="keeper", wait=0):
            asyncio.run(_keep(directory, asked.ready, asked.idle_seconds, asked.platform, asked.ahead))
    except Busy:
        _say(asked.ready, "busy")
    except BaseException as error:
        log.exception("the keeper failed")
        _say(asked.ready, f"{type(error).__name__}: {error}")
        return 1
    return 0


async def _keep(directory: MachinesDir, ready: int, idle_seconds: float, platform: str, makes_ahead: bool) -> None:
    # Orphans of the engine come to us: it takes a second to delete a sandbox whose processes nobody waits for.
    process.become_subreaper()
    loop = asyncio.get_running_loop()
    search = os.environ.get("PATH", os.defpath)
    keeper = Keeper(
        directory,
        lambda name, place: engines.make(name, place, search, platform),
        idle_seconds=idle_seconds,
        upstream=read_upstream(os.environ),
    )
    loop.add_signal_handler(signal.SIGCHLD, keeper.reap)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, keeper.end, signal.Signals(number).name)
    if proc.users_here() == 1:  # an ordinary user's, made for it: the next keeper is to find them
        spaces.write(directory.spaces)
    shared.begin()
    await keeper.recover()
    server = Server(keeper, OPERATIONS)
    keeper.in_use = lambda: server.calls > 0
    await server.listen(unix.listen(directory.socket))
    try:
        atomic.write_bytes(directory.keeper, json.dumps(_me()).encode(), durable=False)
    except OSError as error:  # on a full disk sandboxes can still be deleted
        log.warning("%s cannot be written: %s", directory.keeper, error)
    log.info("takeback %s keeps %s", VERSION, directory.root)
    _say(ready, "ready")
    watches = [loop.create_task(one.watch(keeper)) for one in (idle, bounds, *((ahead,) if makes_ahead else ()))]
    await keeper.over.wait()
    # In this order no connection is ever taken that would not be answered.
    directory.socket.unlink(missing_ok=True)
    for one in watches:
        one.cancel()
    await asyncio.gather(*watches, return_exceptions=True)
    await server.close()
    await keeper.settle()
    directory.keeper.unlink(missing_ok=True)


def _me() -> dict[str, object]:
    me = proc.myself()
    return {"version": VERSION, "pid": me.pid, "start": me.start, "namespaces": spaces.mine()}


def _say(ready: int, word: str) -> None:
    if ready >= 0:
        with contextlib.suppress(OSError):
            os.write(ready, " ".join(word.split()).encode() + b"\n")
            os.close(ready)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
