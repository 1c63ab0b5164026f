"""Runs inside a sandbox: makes every kind of state, and checks all of it for each line it is given.

Prints `ready`, then for each line `ok LINE` or `bad LINE: kind: what`. The argument is the kind of the disk.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping

from tests.machines.states import descriptors, files, kinds, locks, memory, processes, sockets

MODULES = (descriptors, files, locks, memory, processes, sockets)  # each adds its kinds as it is imported


def checked(moment: str, checks: Mapping[str, kinds.Check]) -> str:
    bad = []
    for name, check in checks.items():
        try:
            check()
        except Exception as error:
            bad.append(f"{name}: {error!r}")
    return f"bad {moment}: {'; '.join(bad)}" if bad else f"ok {moment}"


def main(disk: str) -> None:
    os.makedirs(kinds.HOME)
    # A terminal that hangs up ends nothing, and this signal waits in a descriptor of its own.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    checks: dict[str, kinds.Check] = {}
    for name, make in {**kinds.EVERYWHERE, **(kinds.IN_MEMORY if disk == "memory" else {})}.items():
        try:
            checks[name] = make()
        except Exception as error:
            print(f"bad ready: {name}: {error!r}", flush=True)
            return
    print("ok ready", flush=True)
    for line in sys.stdin:
        print(checked(line.strip(), checks), flush=True)


main(sys.argv[1])
