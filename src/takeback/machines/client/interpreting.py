"""Operations of `sandbox.interpreter`: contexts, each a process in the sandbox, and cells run in them.

A context is found by its command, so any program goes on with it, and it goes with a copy, a snapshot and a restore.

Does not cover: what runs inside (`cells`), or how it looks to the caller (`interpreter`).
"""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from takeback.errors import InvalidRequest, ProcessNotFound, Unsupported
from takeback.machines.client import commands, operations
from takeback.machines.client.results import Event
from takeback.machines.client.steps import Op, Run

Record = dict[str, Any]
Callbacks = Mapping[str, Callable[[Any], Any] | None]

_MARK = "takeback-interpreter"
# The program itself comes as the first line of stdin, so that a list of processes stays readable; read without a
# buffer, which would keep what comes after it.
_BOOT = "import json; exec(json.loads(open(0, 'rb', 0, closefd=False).readline()))"
_PYTHON = "python"
_MINUTE_MS = 60_000
_GRACE_MS = 5_000
_MOST_TEXT = 1 << 20


class _Over(Exception):
    """A cell has ended."""


def contexts(sandbox: str) -> Op[list[Record]]:
    """Return the living contexts."""
    processes = yield from operations.processes(sandbox)
    return [_shown(found) for found in map(_context, processes) if found is not None]


def create(
    sandbox: str, id: str | None, language: str | None, cwd: str | None, env: Mapping[str, str] | None
) -> Op[Record]:
    """Start a context. Raises Unsupported for another language than Python, InvalidRequest for one that is there."""
    _python(language)
    id = id or f"c{uuid.uuid4().hex[:12]}"
    if (yield from _find(sandbox, id)) is not None:
        raise InvalidRequest(detail=f"there is a context {id!r} already", next="restart it, or take another id")
    context = yield from _start(sandbox, id, cwd, dict(env or {}))
    return _shown(context)


def restart(sandbox: str, id: str) -> Op[Record]:
    """Start a context again with nothing in it. Raises InvalidRequest when there is none."""
    context = yield from _existing(sandbox, id)
    yield from _signal(sandbox, context, "SIGKILL")
    yield from commands.wait(sandbox, context["processId"])
    fresh = yield from _start(sandbox, id, context["cwd"], context["env"])
    return _shown(fresh)


def interrupt(sandbox: str, id: str) -> Op[bool]:
    """Stop the cell that runs, as Ctrl-C would; variables stay. Raises InvalidRequest when there is no such context."""
    context = yield from _existing(sandbox, id)
    done = yield from _signal(sandbox, context, "SIGINT")
    return done


def remove(sandbox: str, id: str) -> Op[bool]:
    """End a context, and return whether there was one."""
    context = yield from _find(sandbox, id)
    if context is None:
        return False
    done = yield from _signal(sandbox, context, "SIGKILL")
    return done


def run_cell(
    sandbox: str,
    code: str,
    *,
    language: str | None,
    context: str | None,
    timeout_ms: int | None,
    callbacks: Callbacks,
    interrupt: bool,
) -> Op[Record]:
    """Run a cell and return its execution; the default context is started when it is not there.

    Out of time, it is interrupted (its variables stay), and its status is `timeout`.
    """
    _python(language)
    name = context or _PYTHON
    found = yield from _find(sandbox, name)
    if found is None:
        if context not in (None, _PYTHON):
            raise InvalidRequest(detail=f"there is no context {context!r}", next="contexts.create makes one")
        found = yield from _start(sandbox, name, None, {})
    cell = _Cell(uuid.uuid4().hex, callbacks)
    process, limit = found["processId"], _MINUTE_MS if timeout_ms is None else timeout_ms
    request = json.dumps({"id": cell.id, "code": code}) + "\n"
    yield from commands.write(sandbox, process, request, False)
    try:
        ended = yield from _read(sandbox, process, found["cursor"], cell, limit or None)
        if not ended:
            cell.status = "timeout"
            yield from _signal(sandbox, found, "SIGINT")
            if not (yield from _read(sandbox, process, cell.cursor, cell, _GRACE_MS)):
                yield from _signal(sandbox, found, "SIGKILL")
    except BaseException as error:
        if interrupt and not isinstance(error, GeneratorExit):
            yield from _signal(sandbox, found, "SIGINT")
        raise
    return cell.execution()


def _read(sandbox: str, process: str, cursor: int, cell: _Cell, limit_ms: int | None) -> Op[bool]:
    """Give a cell the output of its context; return whether it has ended."""
    try:
        end = yield from commands.follow_into(sandbox, process, cell.take, cursor=cursor, timeout_ms=limit_ms)
    except _Over:
        return True
    if end["state"] == "running":
        return False
    cell.died(end)
    return True


class _Cell:
    """What one cell has written, shown and raised so far."""

    def __init__(self, id: str, callbacks: Callbacks) -> None:
        self.id = id
        self.status = ""
        self.cursor = 0
        self._callbacks = callbacks
        self._held = {"stdout": "", "stderr": ""}
        self._open: set[str] = set()
        self._ended: set[str] = set()
        self._text = {"stdout": "", "stderr": ""}
        self._results: list[Record] = []
        self._error: Record | None = None
        self._count: int | None = None

    def take(self, event: Event) -> Op[None]:
        """Read an event of the context's output. Raises _Over at the end of the cell."""
        stream = event["type"]
        if stream not in self._held:
            return
        data = event["data"]
        self.cursor = event["offset"] + len(data.encode("utf-8", "surrogateescape"))
        held = self._held[stream] + data
        while held:
            text, mark, rest = held.partition("\x1e")
            if text:
                yield from self._write(stream, text)
            if mark and "\n" not in rest:
                held = mark + rest  # the rest of the record is still to come
                break
            line, _, held = rest.partition("\n")
            if mark:
                yield from self._record(stream, line)
        self._held[stream] = held
        if len(self._ended) == 2:
            raise _Over

    def _write(self, stream: str, text: str) -> Op[None]:
        if stream in self._open:
            self._text[stream] += text[: max(0, _MOST_TEXT - len(self._text[stream]))]
            yield from self._tell(f"on_{stream}", text)

    def _record(self, stream: str, line: str) -> Op[None]:
        try:
            record = json.loads(line)
            kind, own = record.pop("k"), record.pop("id") == self.id
        except (ValueError, KeyError, AttributeError, TypeError):
            yield from self._write(stream, f"\x1e{line}\n")  # the cell's own
            return
        if not own:
            return
        if kind == "begin":
            self._open.add(stream)
        elif kind == "result":
            self._results.append(record)
            yield from self._tell("on_result", record)
        elif kind == "error":
            self._error = record
            yield from self._tell("on_error", record)
        elif kind == "end":
            self._open.discard(stream)
            self._ended.add(stream)
            self._count = record["count"]

    def _tell(self, name: str, what: Any) -> Op[None]:
        callback = self._callbacks.get(name)
        if callback is not None:
            yield Run(callback, (what,))

    def died(self, end: Mapping[str, Any]) -> None:
        why = f"the interpreter ended with exit code {end['exitCode']}; what it knew is gone"
        self._error = {"name": "InterpreterEnded", "value": why, "traceback": ""}

    def execution(self) -> Record:
        """Return it all under the names of the hosted service."""
        return {
            "status": self.status or ("error" if self._error else "ok"),
            "stdout": self._text["stdout"],
            "stderr": self._text["stderr"],
            "results": self._results,
            "error": self._error,
            "executionCount": self._count,
        }


def _python(language: str | None) -> None:
    if language not in (None, _PYTHON, "python3"):
        raise Unsupported(what=f"an interpreter for {language}", next="run it with exec, or spawn one and write to it")


def _start(sandbox: str, id: str, cwd: str | None, env: Mapping[str, str]) -> Op[Record]:
    argv = ["python3", "-u", "-c", _BOOT, _MARK, id, json.dumps(dict(env))]
    record = yield from commands.spawn(sandbox, argv, cwd=cwd, env={"PYTHONIOENCODING": "utf-8", **env})
    source = Path(__file__).with_name("cells.py").read_text(encoding="utf-8")
    yield from commands.write(sandbox, record["id"], json.dumps(source) + "\n", False)
    found = _context({**record, "outputBytes": 0})
    assert found is not None
    return found


def _find(sandbox: str, id: str) -> Op[Record | None]:
    processes = yield from operations.processes(sandbox)
    found = (_context(record) for record in processes)
    return next((one for one in found if one is not None and one["id"] == id), None)


def _existing(sandbox: str, id: str) -> Op[Record]:
    context = yield from _find(sandbox, id)
    if context is None:
        raise InvalidRequest(detail=f"there is no context {id!r}", next="contexts.list shows those there are")
    return context


def _context(record: Mapping[str, Any]) -> Record | None:
    """Return what a living process is as a context, None when it is none."""
    if record["state"] != "running" or _MARK not in record["command"]:
        return None
    try:
        mark, id, env = shlex.split(record["command"])[-3:]
        variables = json.loads(env)
    except ValueError:
        return None
    if mark != _MARK:
        return None
    return {
        "id": id, "cwd": record["cwd"], "env": variables, "processId": record["id"], "cursor": record["outputBytes"],
    }  # fmt: skip


def _shown(context: Record) -> Record:
    return {"id": context["id"], "language": _PYTHON, "cwd": context["cwd"], "processId": context["processId"]}


def _signal(sandbox: str, context: Record, signal: str) -> Op[bool]:
    try:
        yield from commands.control("signal", sandbox, context["processId"], signal=signal)
    except ProcessNotFound:
        return False
    return True
