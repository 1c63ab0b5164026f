"""The operations on commands and processes.

Does not cover: the channel they go over (`processes`), what a request means (`programs`).
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any

from takeback.errors import InvalidRequest, ProcessNotFound
from takeback.machines import wire
from takeback.machines.channel.messages import Command, Ended, Gap, Output
from takeback.machines.keeper import programs
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.processes import Following, Processes, Sink, number_of, name_of
from takeback.machines.keeper.programs import NotStarted
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.lines import Line

_ENDED_SHOWN = 16


class Streamed(Sink):
    """Passes output on as it comes, and takes more of it only as fast as the caller reads."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def output(self, output: Output) -> None:
        self._line.write(wire.pack_output(output.stderr, output.offset, output.data))

    def gap(self, gap: Gap, lost: int) -> None:
        self._line.write(
            wire.pack_json({"event": "truncated", "droppedBytes": lost, "resumeAt": gap.resume_at})
        )

    @property
    def full(self) -> bool:
        return self._line.blocked

    def followed_by(self, following: Following) -> None:
        self._line.on_writable = following.more


class Held(Sink):
    """Keeps the first `cap` bytes of each stream and lets the rest go."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self.held = (bytearray(), bytearray())
        self.cut = [False, False]

    def output(self, output: Output) -> None:
        held = self.held[output.stderr]
        room = self._cap - len(held)
        held += output.data[:room] if len(output.data) > room else output.data
        self.cut[output.stderr] |= len(output.data) > room

    def gap(self, gap: Gap, lost: int) -> None:
        self.cut = [True, True]


async def execute(call: Call) -> dict[str, Any]:
    """Run a command to its end; output goes out as it comes, or without `stream` its beginning at the end."""
    request = call.request
    async with call.using() as life:
        processes = await life.processes()
        sink = Streamed(call.line) if request["stream"] else Held(min(int(request["cap"]), wire.MAX_DATA))
        command = programs.command_of(life.record, request, session=True, shell=life.shell)
        stdin = None
        try:
            following = await _start(life, processes, command, sink)
            call.event("start", processId=name_of(following.process))
            if request["stdin"]:
                stdin = asyncio.get_running_loop().create_task(_feed(call.line, processes, following.process, None))
            ended = await following.end()
            answer = programs.end_of(name_of(following.process), ended)
        except NotStarted as failure:
            answer = programs.end_of("", Ended(failure.code(), None, False, 0, 0))
            sink.output(Output(0, failure.line(), True))
        finally:
            if stdin is not None:
                stdin.cancel()
        if isinstance(sink, Held):
            answer |= {"stdoutTruncated": sink.cut[0], "stderrTruncated": sink.cut[1]}
            for stderr in (False, True):
                if sink.held[stderr]:
                    call.line.write(wire.pack_output(stderr, 0, bytes(sink.held[stderr])))
        return answer


async def spawn(call: Call) -> dict[str, Any]:
    """Start a process that lives on and return its record."""
    async with call.using() as life:
        processes = await life.processes()
        command = programs.command_of(life.record, call.request, session=False, shell=life.shell)
        try:
            following = await _start(life, processes, command, None)
        except NotStarted as failure:
            raise failure.error(life.record.id) from None
        record = await _record(life, processes, following.process)
        return {**record, "outputEncoding": call.request.get("encoding", "utf8")}


async def _start(life: Life, processes: Processes, command: Command, sink: Sink | None) -> Following:
    """Start a command; where the image has no bash, sh runs it, from then on. Raises NotStarted."""
    try:
        return await processes.start(command, sink)
    except NotStarted as failure:
        other = programs.other_shell(command)
        if other is None or failure.stage != "exec" or failure.number != errno.ENOENT:
            raise
        following = await processes.start(other, sink)
        life.shell = "sh"
        return following


async def follow(call: Call) -> dict[str, Any]:
    """Pass on the output of a process from a cursor on, until it ends or the time is over."""
    async with call.using() as life:
        processes = await life.processes()
        process = _process(call)
        following = await processes.follow(process, int(call.request.get("cursor") or 0), Streamed(call.line))
        limit = call.request.get("timeout_ms")
        try:
            ended = await asyncio.wait_for(following.end(), None if limit is None else limit / 1000)
        except TimeoutError:
            return {
                "processId": name_of(process), "exitCode": None, "state": "running", "timedOut": False,
                "durationMs": 0, "outputBytes": following.cursor,
            }  # fmt: skip
        return programs.end_of(name_of(process), ended)


async def write(call: Call) -> dict[str, Any]:
    """Pass input on to a process; answered when all of it has been taken."""
    async with call.using() as life:
        processes = await life.processes()
        process = _process(call)
        one = await processes.look(process)
        if one is None:
            raise _unknown(call)
        if not one.stdin_open:
            raise InvalidRequest(detail=f"process {name_of(process)} takes no input any more", next="start another")
        return {"offset": await _feed(call.line, processes, process, bool(call.request["eof"]))}


async def _feed(line: Line, processes: Processes, process: int, eof: bool | None) -> int:
    """Pass on what comes from the caller, and its end unless `eof` is False; return how much was taken in all."""
    taken = 0
    while True:
        frame = await line.receive()
        if frame is None or frame[0] == wire.Type.EOF:
            if eof is not False and frame is not None:
                await processes.write(process, b"", eof=True)
            return taken
        taken = await processes.write(process, frame[1])


async def kill(call: Call) -> dict[str, Any]:
    """Send a signal to a process and its group."""
    number = programs.signal_number(call.request["signal"])
    async with call.using() as life:
        processes = await life.processes()
        if await processes.look(_process(call)) is None:
            raise _unknown(call)
        processes.signal(_process(call), number)
        return {}


async def resize(call: Call) -> dict[str, Any]:
    """Tell a process the size of its terminal."""
    async with call.using() as life:
        processes = await life.processes()
        if await processes.look(_process(call)) is None:
            raise _unknown(call)
        processes.resize(_process(call), int(call.request["cols"]), int(call.request["rows"]))
        return {}


async def look(call: Call) -> dict[str, Any]:
    """Return the record of a process."""
    async with call.using() as life:
        return await _record(life, await life.processes(), _process(call))


async def listing(call: Call) -> list[dict[str, Any]]:
    """Return the running processes and the last that ended, in the order they began."""
    async with call.using() as life:
        found = await (await life.processes()).list()
        ended = sorted((one for one in found if one.ended is not None), key=lambda one: -one.ended_ms)
        shown = [one for one in found if one.ended is None] + ended[:_ENDED_SHOWN]
        shown.sort(key=lambda one: (one.started_ms, one.id))
        return [programs.record_of(life.record, name_of(one.id), one) for one in shown]


async def _record(life: Life, processes: Processes, process: int) -> dict[str, Any]:
    one = await processes.look(process)
    if one is None:
        raise ProcessNotFound(id=name_of(process), sandboxId=life.record.id)
    return programs.record_of(life.record, name_of(process), one)


def _process(call: Call) -> int:
    number = number_of(str(call.request["process"]))
    if number is None:
        raise _unknown(call)
    return number


def _unknown(call: Call) -> ProcessNotFound:
    return ProcessNotFound(id=str(call.request["process"]), sandboxId=str(call.request["sandbox"]))


OPERATIONS = {
    "exec": Operation(execute),
    "spawn": Operation(spawn, leaves=False),
    "follow": Operation(follow),
    "write": Operation(write),
    "signal": Operation(kill),
    "resize": Operation(resize),
    "process": Operation(look),
    "processes": Operation(listing),
}
