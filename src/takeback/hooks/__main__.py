"""`takeback-hook HOST EVENT`: one JSON object in, an exit code and perhaps a line out, within half the host's time.

    0   nothing, or what the model should know on stdout     2   the step does not run, the reason on stderr

The work is done by a child, so that an answer comes also when it dies or is late. Does not cover: the work (`work`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from takeback.hooks.host import BEFORE, SESSION, Host
from takeback.host import forked

HOSTS = ("claude", "codex", "gemini", "opencode")
SECONDS = 28.0  # the hooks are installed with a minute; an answer after it lets the step run
PROBE = "takeback_probe"
_HINT = "A person can run `takeback pause` to go on without takeback."


def main() -> int:
    """Answer one event of one host; the exit code is the host's to read."""
    argv = sys.argv[1:]
    if len(argv) != 2 or argv[0] not in HOSTS:
        print(f"usage: takeback-hook {'|'.join(HOSTS)} EVENT < event.json", file=sys.stderr)
        return 2
    host: Host = import_module(f"takeback.hooks.{argv[0]}").HOST
    event = argv[1]
    try:
        code, out, err = answer(host, event, sys.stdin.buffer.read())
    except BaseException as error:  # a "no" also when nobody thought of it
        code, out, err = _no(host, event, f"{type(error).__name__}: {error}")
    _write(1, out)
    _write(2, err)
    return code


def answer(host: Host, event: str, raw: bytes) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr for an event."""
    if event not in host.events:
        return 0, "", ""  # of a newer host; it stops nothing
    try:
        data = json.loads(raw)
        if not isinstance(data, dict):
            raise ValueError("no JSON object")
    except (ValueError, RecursionError) as error:
        return _no(host, event, f"the event of {host.name} cannot be read: {error}")
    if isinstance(data.get(PROBE), str):
        return 0, f"takeback-hook ran {data[PROBE]}", ""
    heard = forked.ask(lambda say: _work(host, event, data, say), SECONDS)
    wrong = [line for line in heard.said if line != b"let"]
    if heard.last is None or wrong:
        why = heard.why or b" ".join(wrong).decode("utf-8", "replace")
        forked.ask(lambda _: _trouble(host, event, why), SECONDS / 4)
    if heard.last is None and b"let" in heard.said:
        return 0, "", ""
    if heard.last is None:
        return _no(host, event, heard.why)
    code, out, err = json.loads(heard.last)
    return int(code), str(out), str(err)


def _work(host: Host, event: str, data: Mapping[str, Any], say: Callable[[bytes], None]) -> bytes:
    from takeback.hooks import work

    try:
        reply = work.reply(host, event, data, lambda line: say(line.encode()))
    except Exception as error:
        reply = work.wrong(host, event, data, lambda line: say(line.encode("utf-8", "replace")), error)
    return json.dumps(reply).encode()


def _trouble(host: Host, event: str, why: str) -> bytes:
    from takeback.app.agents import trouble
    from takeback.config import data_dir

    trouble.note(data_dir(os.environ, os.environ.get("HOME") or os.path.expanduser("~")), host.name, event, why)
    return b""


def _no(host: Host, event: str, why: str) -> tuple[int, str, str]:
    kind = host.events.get(event)
    if kind == SESSION and why.startswith("no answer"):
        return 0, host.greet(event, "takeback: the first checkpoint of this project is still being made."), ""
    if kind != BEFORE:
        return 0, "", ""
    more = " It goes on saving: repeat the step in a moment." if why.startswith("no answer") else ""
    return 2, "", f"takeback did not let this step run: {why}.{more} {_HINT}"


def _write(fd: int, text: str) -> None:
    data = memoryview(f"{text}\n".encode("utf-8", "replace") if text else b"")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass  # the host left; the exit code is all that is left to say


if __name__ == "__main__":
    sys.exit(main())
