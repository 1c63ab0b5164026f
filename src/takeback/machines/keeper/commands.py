"""The operations on commands and processes.

Does not cover: the channel they go over (`processes`), or how output is shown (the client's `results`).
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from typing import Any

from takeback.errors import InvalidRequest, ProcessNotFound, ProcessRunning
from takeback.machines import wire
from takeback.machines.channel.frames import errno_text
from takeback.machines.keeper.processes import Ended, Failed, Follower, Process, Processes, Program
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SandboxRecord, utc

_DAY_MS = 86_400_000
_ENDED_SHOWN = 16
_ROOT_HOME = "/root"


async def execute(call: Call) -> dict[str, Any]:
    """Run a command to its end; output goes out as it comes, or with `stream` false its beginning at the end."""
    request = call.request
    async with call.using() as life:
        processes = await life.processes()
        follower: Follower = Streamed(call) if request["stream"] else Held(request["cap"])
        program = program_of(life.record, request, session=True)
        stdin = None
        try:
            process = await _run(processes, program, follower, call)
            if request["stdin"]:
                stdin = asyncio.get_running_loop().create_task(_feed(call, processes, process))
            end = await follower.end
        except Failed as failure:
            end = failure.as_end()
        finally:
            if stdin is not None:
                stdin.cancel()
            processes.unfollow(follower)
        answer = ending(end)
        if isinstance(follower, Held):
            answer |= {"stdoutTruncated": follower.cut[0], "stderrTruncated": follower.cut[1]}
            for stderr, held in ((False, follower.held[0]), (True, end.message or follower.held[1])):
                if held:
                    call.line.write(wire.pack_output(stderr, 0, bytes(held)))
        elif end.message:
            call.line.write(wire.pack_output(True, 0, end.message))
        return answer


async def spawn(call: Call) -> dict[str, Any]:
    """Start a process that lives on and return its record."""
    async with call.using() as life:
        processes = await life.processes()
        program = program_of(life.record, call.request, session=False)
        try:
            process = await _run(processes, program, None, None)
            await process.started
        except Failed as failure:
            raise failure.as_error(life.record.id) from None
        return record_of(life.record, await processes.look(process.name))


async def _run(processes: Processes, program: Program, follower: Follower | None, call: Call | None) -> Process:
    """Start a program; where the image has no bash, sh runs the command instead."""
    process = processes.start(program, follower)
    if call is not None:
        call.event("start", processId=process.name)
    return process
