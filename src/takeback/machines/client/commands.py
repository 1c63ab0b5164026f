"""Operations on commands and processes: exec, spawn, follow, write, kill, resize.

Does not cover: how they look to the caller (`sandbox`, `processes`, `aio`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from takeback.errors import CommandError, CommandTimeout, InvalidRequest, KeeperGone, ProcessNotFound
from takeback.machines import wire
from takeback.machines.client.results import Collected, CommandResult, Event, Texts, event
from takeback.machines.client.steps import RECEIVE, Give, Op, Run, Send, ask, begin, document

Command = str | Sequence[str]
Data = str | bytes | bytearray | memoryview
MINUTE_MS = 60_000
DAY_MS = 86_400_000
LOGIN = ("bash", "-l")
_SMALL, _LARGE = 64 << 10, 1 << 20
_GIVEN_UP = 4  # connections in a row that ended with nothing new
_TAIL = 300


def command_request(
    op: str,
    sandbox: str,
    command: Command,
    *,
    cwd: str | None = None,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_ms: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the request for a command. Raises InvalidRequest."""
    if isinstance(command, str):
        what: dict[str, Any] = {"command": command}
    else:
        words = list(command)
        if not words or not all(isinstance(word, str) for word in words):
            raise InvalidRequest(detail="a command is a text or a list of texts, not empty", next='exec("ls -l")')
        what = {"argv": words}
    given = {"cwd": cwd, "user": user, "env": dict(env) if env else None, "timeout_ms": timeout_ms, **more}
    return {"op": op, "sandbox": sandbox, **what, **{name: value for name, value in given.items() if value is not None}}


def execute(
    sandbox: str,
    command: Command,
    *,
    stdin: Data | None = None,
    timeout_ms: int | None = None,
    on_stdout: Callable[[str], Any] | None = None,
    on_stderr: Callable[[str], Any] | None = None,
    check: bool = False,
    idempotency_key: str | None = None,
    trace_files: bool = False,
    **where: Any,
) -> Op[CommandResult]:
    """Run a command to its end and return its result; callbacks get text as it comes.

    Raises CommandError and CommandTimeout with `check`.
    """
    watched = on_stdout is not None or on_stderr is not None
    long = watched or (timeout_ms or 0) > MINUTE_MS
    limit = timeout_ms if timeout_ms is not None else DAY_MS if watched else MINUTE_MS
    request = command_request(
        "exec", sandbox, command, timeout_ms=limit, stream=watched, stdin=stdin is not None,
        cap=_LARGE if long else _SMALL, **where,
    )  # fmt: skip
    collected = Collected(request["cap"])

    def pass_on(item: Event) -> Op[None]:
        callback = {"stdout": on_stdout, "stderr": on_stderr}.get(item["type"])
        if callback is not None:
            yield Run(callback, (item["data"],))

    end = yield from _follow(request, stdin, pass_on if watched else None, collected, kill_on_interrupt=True)
    result = collected.result(end)
    if check:
        check_result(result, limit)
    return result


def check_result(result: CommandResult, limit_ms: int) -> None:
    """Raise CommandTimeout or CommandError when a command did not end with 0."""
    if result.exit_code == 0 and not result.timed_out:
        return
    tail = (result.stderr or result.stdout).strip()[-_TAIL:] or "it wrote nothing"
    fields = {"code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr, "tail": tail}
    raise CommandTimeout(seconds=limit_ms / 1000, **fields) if result.timed_out else CommandError(**fields)


def stream(
    sandbox: str, command: Command, *, stdin: Data | None = None, timeout_ms: int | None = None,
    idempotency_key: str | None = None, trace_files: bool = False, **where: Any,
) -> Op[None]:  # fmt: skip
    """Give the events of a command: start, stdout, stderr, truncated, exit."""
    request = command_request(
        "exec", sandbox, command, timeout_ms=timeout_ms or DAY_MS, stream=True, stdin=stdin is not None, **where
    )
    yield from _follow(request, stdin, _give)


def follow(
    sandbox: str, process: str, *, cursor: int = 0, encoding: str = "utf8", timeout_ms: int | None = None
) -> Op[None]:
    """Give the events of a process from an offset on, until it ends or the time is over."""
    request = {"op": "follow", "sandbox": sandbox, "process": process, "cursor": cursor, "timeout_ms": timeout_ms}
    yield from _follow(request, None, _give, encoding=encoding)


def follow_into(
    sandbox: str, process: str, sink: Callable[[Event], Op[None]], *, cursor: int, timeout_ms: int | None
) -> Op[Event]:
    """Give the events of a process to `sink` and return the last one; its state is `running` when the time is over."""
    request = {"op": "follow", "sandbox": sandbox, "process": process, "cursor": cursor, "timeout_ms": timeout_ms}
    end = yield from _follow(request, None, sink)
    return end


def wait(sandbox: str, process: str) -> Op[CommandResult]:
    """Return the result of a process when it has ended, with what is still kept of its output."""
    collected = Collected(_LARGE)
    request = {"op": "follow", "sandbox": sandbox, "process": process, "cursor": 0, "timeout_ms": None}
    end = yield from _follow(request, None, None, collected)
    return collected.result(end)


def write(sandbox: str, process: str, data: Data, eof: bool) -> Op[int]:
    """Write to the stdin of a process; returns when it was taken, with the number of bytes taken so far."""
    request = {"op": "write", "sandbox": sandbox, "process": process, "eof": eof}
    yield from begin(request)
    yield from send_all(data)
    answer = document((yield RECEIVE), "write")
    offset: int = answer["ok"]["offset"]
    return offset


def control(op: str, sandbox: str, process: str, **fields: Any) -> Op[Any]:
    """Ask for a process's record, or signal, resize, forget it."""
    answer = yield from ask({"op": op, "sandbox": sandbox, "process": process, **fields})
    return answer


def raw_of(data: Data) -> bytes:
    """Return text or bytes as bytes. Raises TypeError for anything else: bytes(5) would be five zeros."""
    if isinstance(data, str):
        return data.encode("utf-8", "surrogateescape")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"str or bytes are wanted, not {type(data).__name__}")
    return bytes(data)


def send_all(data: Data) -> Op[None]:
    """Send the input of an operation and its end. Raises TypeError for what is neither text nor bytes."""
    raw = raw_of(data)
    for at in range(0, len(raw), wire.CHUNK):
        yield Send(wire.pack(wire.Type.DATA, raw[at : at + wire.CHUNK]))
    yield Send(wire.pack(wire.Type.EOF))


def _give(item: Event) -> Op[None]:
    yield Give(item)


def _follow(
    request: dict[str, Any],
    stdin: Data | None,
    sink: Callable[[Event], Op[None]] | None,
    collected: Collected | None = None,
    *,
    encoding: str = "utf8",
    kill_on_interrupt: bool = False,
) -> Op[Event]:
    """Say a request that answers with output, give its events to `sink`, and return the last one.

    When the keeper goes away meanwhile, another finds the process again, and the output goes on where it was.
    """
    texts = Texts(encoding)
    sandbox, process, cursor = request["sandbox"], request.get("process", ""), request.get("cursor", 0)
    left = _GIVEN_UP
    try:
        yield from begin(request)
        if stdin is not None:
            yield from send_all(stdin)
        while True:
            frame = yield RECEIVE
            if frame is None:
                left -= 1
                if not process or left < 0:
                    raise KeeperGone(what=request["op"])
                if collected is not None and request["op"] == "exec" and not request["stream"]:
                    collected.clear()  # it was to come in one piece
                    cursor = 0
                yield from begin({"op": "follow", "sandbox": sandbox, "process": process, "cursor": cursor})
                continue
            kind, payload = frame
            if kind == wire.Type.JSON:
                answer = document(frame, request["op"])
                if "ok" in answer:
                    end = event("exit", answer["ok"])
                    if sink is not None:
                        for item in texts.finish():
                            yield from sink(item)
                        if answer["ok"]["state"] != "running":
                            yield from sink(end)
                    return end
                if answer["event"] == "start":
                    process = answer["processId"]
                if answer["event"] == "truncated":
                    cursor = answer["resumeAt"]
                    if collected is not None:
                        collected.lost()
                if sink is not None:
                    fields = {name: value for name, value in answer.items() if name != "event"}
                    yield from sink(event(answer["event"], fields))
                continue
            left = _GIVEN_UP
            offset, data = wire.unpack_output(payload)
            cursor = max(cursor, offset + len(data))
            if collected is not None:
                collected.add(kind == wire.Type.STDERR, data)
            if sink is not None:
                for item in texts.feed(kind == wire.Type.STDERR, offset, data):
                    yield from sink(item)
    except BaseException as error:
        # Ctrl-C, a cancelled task, a callback that failed: nobody waits for this command any more.
        if kill_on_interrupt and process and not isinstance(error, GeneratorExit | KeeperGone | ProcessNotFound):
            try:
                yield from control("signal", sandbox, process, signal="SIGTERM")
            except Exception:
                pass
        raise


def spawn(
    sandbox: str,
    command: Command,
    *,
    stdin: Data | bool | None = None,
    pty: bool | Mapping[str, int] | None = None,
    timeout_ms: int | None = None,
    output_encoding: str | None = None,
    **where: Any,
) -> Op[dict[str, Any]]:
    """Start a process and return its record; given `stdin` is written and closed. Raises InvalidRequest."""
    if output_encoding not in (None, "utf8", "base64"):
        raise InvalidRequest(detail=f"output_encoding {output_encoding!r}", next='it is "utf8" or "base64"')
    size = {"cols": 80, "rows": 24, **(pty if isinstance(pty, Mapping) else {})} if pty else None
    # "pipe" as the hosted service spells it: left open for `write`, as it is unless something else was said.
    given = stdin if isinstance(stdin, bytes | bytearray | memoryview | str) and stdin != "pipe" else None
    request = command_request(
        "spawn", sandbox, command, timeout_ms=timeout_ms, pty=size, stdin=stdin is not False,
        encoding=output_encoding or "utf8", **where,
    )  # fmt: skip
    record: dict[str, Any] = yield from ask(request)
    if given is not None:
        record["stdinOffset"] = yield from write(sandbox, record["id"], given, True)
    return record
