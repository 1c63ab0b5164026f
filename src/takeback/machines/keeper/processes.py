"""The operations on commands and processes: exec, spawn, follow, stdin, signals, terminals.

Does not cover: the channel they go over (`channel.link`), what a request means (`programs`).
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any

from takeback.errors import InvalidRequest, MachineRefused, NotStarted, ProcessNotFound, TakebackError
from takeback.machines import wire
from takeback.machines.channel.flows import Following
from takeback.machines.channel.link import Link, Started
from takeback.machines.channel.messages import Command, Ended, Gap, Listed, Output
from takeback.machines.keeper import programs
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.lines import Line

_ENDED_SHOWN = 16


async def execute(call: Call) -> dict[str, Any]:
    """Run a command to its end; output goes out as it comes, or without `stream` its beginning at the end."""
    request = call.request
    async with call.using() as life:
        link = await life.link()
        command = programs.command_of(life.record, request, session=True, shell=life.shell)
        try:
            started = await start(life, link, command, follow=True)
        except NotStarted as error:
            call.line.write(wire.pack_output(True, 0, programs.line_of(error)))
            failed = Ended(programs.code_of(error), None, False, 0, 0)
            return programs.end_of("", failed)
        assert started.output is not None
        name = programs.name_of(started.id)
        call.event("start", processId=name)
        stdin = None
        try:
            if request["stdin"]:
                stdin = asyncio.get_running_loop().create_task(_feed_quietly(call.line, link, started.id))
            if request["stream"]:
                return programs.end_of(name, await _pass_on(started.output, call.line))
            held = Held(min(int(request["cap"]), wire.MAX_DATA))
            ended = await held.fill(started.output)
            for stderr in (False, True):
                if held.bytes[stderr]:
                    call.line.write(wire.pack_output(stderr, 0, bytes(held.bytes[stderr])))
            return {
                **programs.end_of(name, ended), "stdoutTruncated": held.cut[0], "stderrTruncated": held.cut[1],
            }  # fmt: skip
        finally:
            started.output.close()
            if stdin is not None:
                stdin.cancel()


class Held:
    """The first `cap` bytes of each stream; the rest is let go."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self.bytes = (bytearray(), bytearray())
        self.cut = [False, False]

    async def fill(self, output: Following) -> Ended:
        """Take all that comes and return the end."""
        async for told in output:
            if isinstance(told, Output):
                held = self.bytes[told.stderr]
                room = self._cap - len(held)
                held += told.data[:room]
                self.cut[told.stderr] |= len(told.data) > room
            elif isinstance(told, Gap):
                self.cut = [True, True]
            else:
                return told
        raise asyncio.CancelledError


async def _pass_on(output: Following, line: Line, cursor: int = 0) -> Ended:
    """Pass output on only as fast as the caller reads, and return the end."""
    async for told in output:
        if isinstance(told, Output):
            cursor = told.offset + len(told.data)
            await line.send(wire.pack_output(told.stderr, told.offset, told.data))
        elif isinstance(told, Gap):
            lost = told.resume_at - cursor
            cursor = told.resume_at
            line.write(wire.pack_json({"event": "truncated", "droppedBytes": lost, "resumeAt": cursor}))
        else:
            return told
    raise asyncio.CancelledError


async def spawn(call: Call) -> dict[str, Any]:
    """Start a process that lives on and return its record."""
    async with call.using() as life:
        link = await life.link()
        command = programs.command_of(life.record, call.request, session=False, shell=life.shell)
        try:
            started = await start(life, link, command, follow=False)
        except NotStarted as error:
            raise programs.error_of(error, life.record.id) from error
        record = programs.record_of(life.record, await _look(link, life, started.id))
        return {**record, "outputEncoding": call.request.get("encoding", "utf8")}


async def start(life: Life, link: Link, command: Command, *, follow: bool) -> Started:
    """Start a command; where the image has no bash, sh runs it, from then on. Raises NotStarted."""
    try:
        return await link.spawn(command, follow=follow)
    except NotStarted as error:
        other = programs.other_shell(command)
        if other is None or error.fields["stage"] != "exec" or error.fields["errno"] != errno.ENOENT:
            raise
        started = await link.spawn(other, follow=follow)
        life.shell = "sh"
        return started


async def follow(call: Call) -> dict[str, Any]:
    """Pass on the output of a process from a cursor on, until it ends or the time is over."""
    async with call.using() as life:
        link = await life.link()
        process = _process(call)
        cursor = int(call.request.get("cursor") or 0)
        limit = call.request.get("timeout_ms")
        output = link.follow(process, cursor)
        try:
            async with asyncio.timeout(None if limit is None else limit / 1000):
                return programs.end_of(programs.name_of(process), await _pass_on(output, call.line, cursor))
        except TimeoutError:
            return programs.unfinished(programs.name_of(process))
        except MachineRefused:
            raise _unknown(call) from None
        finally:
            output.close()


async def write(call: Call) -> dict[str, Any]:
    """Pass input on to a process; answered when all of it has been taken."""
    async with call.using() as life:
        link = await life.link()
        process = _process(call)
        if not (await _look(link, life, process)).stdin_open:
            raise _closed(process)
        try:
            return {"offset": await feed(call.line, link, process, eof=bool(call.request["eof"]))}
        except MachineRefused:
            raise _closed(process) from None


async def feed(line: Line, link: Link, process: int, *, eof: bool) -> int:
    """Pass on what the caller sends, up to its end; return the bytes given to the process in all."""
    sent = 0
    while True:
        frame = await line.receive()
        if frame is None:
            return sent
        last = frame[0] == wire.Type.EOF
        sent = await link.write_stdin(process, b"" if last else frame[1], eof=last and eof, taken=last)
        if last:
            return sent


async def _feed_quietly(line: Line, link: Link, process: int) -> None:
    try:
        await feed(line, link, process, eof=True)
    except TakebackError:
        pass  # it does not read its input, or has ended: as when a pipe is closed


async def kill(call: Call) -> dict[str, Any]:
    """Send a signal to a process and its group; one that has ended gets none, and that is no error."""
    number = programs.signal_number(call.request["signal"])
    async with call.using() as life:
        link = await life.link()
        process = _process(call)
        try:
            await link.signal(process, number)
        except MachineRefused:
            await _look(link, life, process)
        return {}


async def resize(call: Call) -> dict[str, Any]:
    """Tell a process the size of its terminal."""
    async with call.using() as life:
        link = await life.link()
        process = _process(call)
        try:
            await link.resize(process, int(call.request["cols"]), int(call.request["rows"]))
        except MachineRefused as error:
            if (await _look(link, life, process)).ended is None:
                raise InvalidRequest(detail=str(error), next="only a process with a pty has a size") from None
        return {}


async def look(call: Call) -> dict[str, Any]:
    """Return the record of a process."""
    async with call.using() as life:
        return programs.record_of(life.record, await _look(await life.link(), life, _process(call)))


async def listing(call: Call) -> list[dict[str, Any]]:
    """Return the running processes and the last that ended, in the order they began."""
    async with call.using() as life:
        found = [one for one in await (await life.link()).list() if not programs.is_ours(one)]
        ended = sorted((one for one in found if one.ended is not None), key=lambda one: -one.ended_ms)
        shown = [one for one in found if one.ended is None] + ended[:_ENDED_SHOWN]
        shown.sort(key=lambda one: (one.started_ms, one.id))
        return [programs.record_of(life.record, one) for one in shown]


async def _look(link: Link, life: Life, process: int) -> Listed:
    for one in await link.list():
        if one.id == process and not programs.is_ours(one):
            return one
    raise ProcessNotFound(id=programs.name_of(process), sandboxId=life.record.id)


def _process(call: Call) -> int:
    number = programs.number_of(str(call.request["process"]))
    if number is None:
        raise _unknown(call)
    return number


def _unknown(call: Call) -> ProcessNotFound:
    return ProcessNotFound(id=str(call.request["process"]), sandboxId=str(call.request["sandbox"]))


def _closed(process: int) -> InvalidRequest:
    return InvalidRequest(
        detail=f"process {programs.name_of(process)} takes no input any more", next="spawn it with stdin for that"
    )


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
