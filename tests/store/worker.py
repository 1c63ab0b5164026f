"""A process of its own that writes a timeline; prints a line for each thing it was told is done.

worker.py PATH append COUNT      wait for a line on stdin, then append; a number and an event each time
worker.py PATH forever           append until killed
worker.py PATH inside            append in a transaction, say so, and wait in it to be killed
"""

from __future__ import annotations

import sys
from pathlib import Path

from takeback.model import Event, EventKind
from takeback.store.sqlite import SqliteStore


def add(store: SqliteStore) -> str:
    with store.transaction():
        number = store.next_number("s")
        added = store.append(Event(0, f"s{number}", EventKind.STEP, 0, text="x" * 300))
    return f"{added.seq} {added.id}"


def main() -> None:
    path, what = Path(sys.argv[1]), sys.argv[2]
    if what == "append":
        print("ready", flush=True)
        sys.stdin.readline()
    with SqliteStore(path, wait=60) as store:
        if what == "inside":
            with store.transaction():
                print(add(store), flush=True)
                sys.stdin.readline()
            return
        left = int(sys.argv[3]) if what == "append" else -1
        while left:
            print(add(store), flush=True)
            left -= 1


if __name__ == "__main__":
    main()
