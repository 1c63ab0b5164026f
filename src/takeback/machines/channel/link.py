"""The host's end of the channel to one supervisor: everything a keeper asks of a machine, for several users at once.

Does not cover: which machine, its records, and when it counts as dead (the owner pings and calls `close`).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from takeback.errors import MachineRefused, MachineSilent, NotStarted, TimedOut
from takeback.machines.channel import dispatch
from takeback.machines.channel.flows import Following, StdinFlow
from takeback.machines.channel.frames import (
    NONCE,
    PAYLOAD_MAX,
    Flag,
    Frame,
    Tag,
    Type,
    Value,
    encode_fields,
    encode_frame,
    encode_message,
)
from takeback.machines.channel.messages import Attached, Command, Ended, Listed, Pong
from takeback.machines.channel.stream import Stream

WINDOW = 256 * 1024  # bytes of output a follower may have unread on its way
LIMIT = 10.0  # seconds for an answer that needs no work
_U32 = (1 << 32) - 1
T = TypeVar("T")


@dataclass(frozen=True)
class Started:
    """A process that runs; `output` is None when nobody follows."""

    id: int
    pid: int
    output: Following | None


class Link:
    """One host's connection. Make it in a running event loop, then `attach`; only one link may read a FIFO at a time.

    Every call raises MachineSilent once the link is closed, and TimedOut when no answer came within its limit.
    """

    def __init__(self, to_guest: Path, from_guest: Path) -> None:
        self.answers = dispatch.Answers()
        self._stream = Stream(to_guest, from_guest, self.answers.feed)
        self._next_id = 1
        self._listing = asyncio.Lock()

    @property
    def closed(self) -> bool:
        return self.answers.lost is not None

    def close(self, why: str = "the connection was closed") -> None:
        """Give the FIFOs up and wake everyone who waits with MachineSilent."""
        self._stream.close()
        self.answers.fail_all(MachineSilent(why=why))

    def on_end(self, call: Callable[[int, Ended], None]) -> None:
        """Call with the id of every process that ends from now on."""
        self.answers.ended_call = call

    def on_connection(self, call: Callable[[Frame], None]) -> None:
        """Call with every frame about relayed connections (types 96-127), those since `attach` at once."""
        self.answers.connection_call = call
        early, self.answers.early = self.answers.early, []
        for frame in early:
            call(frame)

    def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames about relayed connections."""
        self._alive()
        self._stream.send(frames)

    async def listen(self, port: int, *, limit: float = LIMIT) -> None:
        """Begin to accept relayed connections on 127.0.0.1:port inside. Raises MachineRefused when it is taken."""
        await self._confirmed(f"listen on port {port}", Type.LISTEN, 0, [(Tag.PORT, port)], limit)

    async def room(self) -> None:
        """Wait until little is waiting to be sent, and nothing is at rest for a copy."""
        await self._stream.room()

    async def attach(self, limit: float = LIMIT) -> Attached:
        """Take the channel over: what an earlier host left is skipped, its followers are dropped."""
        self._alive()
        nonce = os.urandom(NONCE)
        future = self.answers.begin_attach(nonce)
        self._stream.send_now([encode_frame(Type.ATTACH, 0, nonce)])
        self._stream.release()
        attached = await self._answer(future, "attaching to the sandbox", limit)
        for listed in await self.list(limit):
            self._next_id = max(self._next_id, listed.id + 1)
            if listed.stdin_open:
                self.answers.stdin_of(listed.id).sent = listed.stdin_total
            if listed.ended:
                self.answers.keep_end(listed.id, listed.ended)
            else:
                self.answers.running.add(listed.id)
                self.answers.commands[listed.id] = listed.argv
        return attached

    async def spawn(
        self, command: Command, *, follow: bool = True, window: int = WINDOW, limit: float = LIMIT
    ) -> Started:
        """Start a process. Raises NotStarted with the reason, MachineRefused when the request makes no sense."""
        self._alive()
        ident = self._take_id()
        fields = command.fields()
        following = None
        if follow:
            follower = self._take_id()
            following = self._following(follower, 0, window)
            fields += [(Tag.FOLLOWER, follower), (Tag.CREDIT, window)]
        future = self.answers.expect_start(ident)
        self.answers.commands[ident] = command.argv
        self.answers.stdin[ident] = StdinFlow()
        try:
            self._stream.send(encode_message(Type.SPAWN, ident, encode_fields(fields)))
            pid = await self._answer(future, "starting a process", limit)
        except BaseException as error:
            self.answers.forget(ident)
            if following is not None:
                following.close()
            if isinstance(error, dispatch.Failed):
                raise _not_started(command, error) from None
            raise
        return Started(ident, pid, following)

    def follow(self, process: int, cursor: int = 0, *, window: int = WINDOW) -> Following:
        """Follow a process from an offset; reading raises MachineRefused when there is no such process."""
        self._alive()
        follower = self._take_id()
        following = self._following(follower, cursor, window)
        self._send(Type.FOLLOW, follower, (Tag.PROCESS, process), (Tag.CURSOR, cursor), (Tag.CREDIT, window))
        return following

    @property
    def commands(self) -> list[Sequence[str | bytes]]:
        """What runs, or is about to, as it was asked for, oldest first; what an earlier host began may be cut short."""
        return list(self.answers.commands.values())

    async def wait(self, process: int) -> Ended:
        """Wait for the end of a process, without its output. Raises MachineRefused when it is not known."""
        self._alive()
        return await self.answers.end_of(process)

    async def write_stdin(self, process: int, data: bytes, *, eof: bool = False, taken: bool = False) -> int:
        """Send bytes, waiting while 256 KiB are not taken, with `taken` until all are; return the total sent so far.

        Raises MachineRefused (EPIPE in its fields) when the process closed its stdin or is not there.
        """
        self._alive()
        flow = self.answers.stdin_of(process)
        async with flow.lock:
            view = memoryview(data)
            for at in range(0, len(data), PAYLOAD_MAX):
                part = bytes(view[at : at + PAYLOAD_MAX])
                await flow.room(len(part))
                flow.sent += len(part)
                self._stream.send([encode_frame(Type.STDIN, process, part)])
            if flow.error is not None:
                raise flow.error
            if eof:
                self._stream.send([encode_frame(Type.STDIN, process, b"", Flag.EOF)])
            if taken:
                await flow.taken()
            return flow.sent

    async def signal(self, process: int, signo: int, *, everything: bool = False, limit: float = LIMIT) -> None:
        """Signal the process group of a process, or all of its session. Raises MachineRefused."""
        fields = [(Tag.SIGNO, signo), (Tag.EVERYTHING, int(everything))]
        await self._confirmed(f"signal {signo}", Type.SIGNAL, process, fields, limit)

    async def resize(self, process: int, cols: int, rows: int, *, limit: float = LIMIT) -> None:
        """Set the size of a process's terminal. Raises MachineRefused."""
        await self._confirmed("resize", Type.RESIZE, process, [(Tag.COLS, cols), (Tag.ROWS, rows)], limit)

    async def forget(self, process: int, *, limit: float = LIMIT) -> None:
        """Drop an ended process and its output. Raises MachineRefused."""
        await self._confirmed("forget", Type.FORGET, process, [], limit)
        self.answers.forget(process)

    async def list(self, limit: float = LIMIT) -> list[Listed]:
        """All running processes, and the ended ones that are kept."""
        self._alive()
        async with self._listing:
            future = self.answers.expect("list")
            self._send(Type.LIST, 0)
            return await self._answer(future, "listing the processes", limit)

    async def ping(self, limit: float = 2.0) -> Pong:
        """Ask for the clocks of the machine, and so whether it lives; also answered between QUIET and GO."""
        self._alive()
        ident = self._take_id()
        future = self.answers.expect_pong(ident)
        self._stream.send_now([encode_frame(Type.PING, ident)])
        try:
            return await self._answer(future, "an answer of the sandbox", limit)
        finally:
            self.answers.pongs.pop(ident, None)

    async def identity(
        self, generation: int, *, machine_id: str, hostname: str, seed: bytes, limit: float = LIMIT
    ) -> None:
        """Tell a copy who it is; returns when its hook ran, or two seconds after."""
        self._alive()
        future = self.answers.expect("identified")
        self._send(
            Type.IDENTITY,
            0,
            (Tag.GENERATION, generation),
            (Tag.MACHINE_ID, machine_id.encode()),
            (Tag.HOSTNAME, hostname.encode()),
            (Tag.SEED, seed),
        )
        await self._answer(future, "giving the sandbox its identity", limit)

    async def quiesce(self, limit: float = LIMIT) -> None:
        """Bring both directions to rest: after this nothing is on the way until `go`. What is sent meanwhile waits."""
        self._alive()
        future = self.answers.expect("quiet")
        self._stream.hold()
        self._stream.send_now([encode_frame(Type.QUIESCE, 0)])
        try:
            await self._answer(future, "bringing the sandbox to rest", limit)
        except BaseException:
            self.go()
            raise

    def go(self) -> None:
        """Go on after `quiesce`."""
        if not self.closed:
            self._stream.send_now([encode_frame(Type.GO, 0)])
            self._stream.release()

    def shutdown(self, grace_ms: int) -> None:
        """Ask the supervisor to end everything and itself; the engine tells when it did."""
        self._alive()
        self._send(Type.SHUTDOWN, 0, (Tag.GRACE_MS, grace_ms))

    def _alive(self) -> None:
        if self.answers.lost is not None:
            raise self.answers.lost

    def _take_id(self) -> int:
        # The top bit is for what the guest numbers.
        ident = self._next_id
        self._next_id = ident + 1 if ident < _U32 // 2 else 1
        return ident

    def _send(self, kind: int, ident: int, *fields: tuple[int, Value]) -> None:
        self._stream.send(encode_message(kind, ident, encode_fields(fields)))

    def _following(self, follower: int, cursor: int, window: int) -> Following:
        def grant(total: int) -> None:
            if not self.closed:
                self._send(Type.CREDIT, follower, (Tag.TOTAL, total))

        def leave() -> None:
            if self.answers.followings.pop(follower, None) is not None and not self.closed:
                self._send(Type.UNFOLLOW, follower)

        following = Following(cursor, window, grant, leave)
        self.answers.followings[follower] = following
        return following

    async def _confirmed(
        self, what: str, kind: int, ident: int, fields: Sequence[tuple[int, Value]], limit: float
    ) -> None:
        """Send what is answered only when it fails; a PING behind it tells that it was done."""
        self._alive()
        with self.answers.collect_errors(ident) as errors:
            ping = self._take_id()
            future = self.answers.expect_pong(ping)
            self._stream.send([*encode_message(kind, ident, encode_fields(fields)), encode_frame(Type.PING, ping)])
            try:
                await self._answer(future, what, limit)
            finally:
                self.answers.pongs.pop(ping, None)
        if errors:
            raise MachineRefused(what=what, why=errors[0].why, errno=errors[0].errno)

    async def _answer(self, future: asyncio.Future[T], what: str, limit: float) -> T:
        try:
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError:
            raise TimedOut(what=what, seconds=limit) from None


def _not_started(command: Command, failed: dispatch.Failed) -> NotStarted:
    program = os.fsdecode(command.argv[0]) if command.argv else ""
    stage = {"cwd": f"folder {failed.path}", "user": "user", "pty": "terminal", "limit": "too many processes"}
    why = ": ".join(part for part in (stage.get(failed.stage, ""), os.strerror(failed.errno)) if part)
    hint = "name a program that is in the sandbox" if failed.errno == errno.ENOENT else ""
    return NotStarted(program=program, why=why, errno=failed.errno, stage=failed.stage, path=failed.path, next=hint)
