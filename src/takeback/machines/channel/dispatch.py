"""Who waits for which answer of the supervisor, and giving it to them.

No task is made for a frame: everything here happens inside the read callback. Does not cover: asking (see `link`).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from takeback.errors import MachineRefused, MachineSilent, TakebackError
from takeback.machines.channel.flows import Following, StdinFlow
from takeback.machines.channel.frames import NONCE, AttachFinder, Fields, Flag, Frame, FrameReader, Malformed, Tag, Type
from takeback.machines.channel.messages import Attached, Ended, Gap, Listed, Output, Pong, read_ended, read_listed

_ENDS_KEPT = 1024
_EARLY_MAX = 1024


@dataclass(frozen=True)
class Refusal:
    errno: int
    why: str


class Failed(Exception):
    """A process never ran."""

    def __init__(self, number: int, stage: str, path: str) -> None:
        super().__init__(stage)
        self.errno = number
        self.stage = stage
        self.path = path


class Answers:
    """The waiting side of a link."""

    def __init__(self) -> None:
        self.lost: TakebackError | None = None
        self.pongs: dict[int, asyncio.Future[Pong]] = {}
        self.followings: dict[int, Following] = {}
        self.stdin: dict[int, StdinFlow] = {}
        self.running: set[int] = set()
        self.commands: dict[
            int, Sequence[str | bytes]
        ] = {}  # of those that run or are about to, as they were asked for
        self.ended_call: Callable[[int, Ended], None] | None = None
        self.connection_call: Callable[[Frame], None] | None = None
        self.early: list[Frame] = []  # about connections, while nobody takes those yet
        self._finder: AttachFinder | None = None
        self._reader = FrameReader()
        self._parts: dict[tuple[int, int], bytearray] = {}
        self._attached: asyncio.Future[Attached] | None = None
        self._starts: dict[int, asyncio.Future[int]] = {}
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._ends: OrderedDict[int, Ended] = OrderedDict()
        self._end_waiters: dict[int, list[asyncio.Future[Ended]]] = {}
        self._errors: dict[int, list[list[Refusal]]] = {}
        self._listed: list[Listed] = []
        self._calls: dict[int, Callable[[int, Fields], None]] = {
            Type.STARTED: self._on_started,
            Type.FAILED: self._on_failed,
            Type.GAP: self._on_gap,
            Type.ENDED: self._on_ended,
            Type.ACCEPTED: self._on_accepted,
            Type.PROCESS: self._on_process,
            Type.PONG: self._on_pong,
            Type.ERROR: self._on_error,
            Type.QUIET: lambda _ident, _fields: self._settle("quiet", None),
            Type.IDENTIFIED: lambda _ident, _fields: self._settle("identified", None),
        }

    def begin_attach(self, nonce: bytes) -> asyncio.Future[Attached]:
        """Skip everything up to the answer with this nonce."""
        self._finder = AttachFinder(nonce)
        self._reader = FrameReader()
        self._parts.clear()
        for following in self.followings.values():
            following.fail(MachineSilent(why="the connection was made anew"))
        self.followings.clear()
        self._attached = asyncio.get_running_loop().create_future()
        return self._attached

    def expect(self, what: str) -> asyncio.Future[Any]:
        """Wait for the one answer of a kind; who waited for it before shares it."""
        waiting = self._waiting.get(what)
        if waiting is None or waiting.done():
            waiting = self._waiting[what] = asyncio.get_running_loop().create_future()
        if what == "list":
            self._listed = []
        return waiting

    def expect_pong(self, ident: int) -> asyncio.Future[Pong]:
        self.pongs[ident] = asyncio.get_running_loop().create_future()
        return self.pongs[ident]

    def expect_start(self, ident: int) -> asyncio.Future[int]:
        self._starts[ident] = asyncio.get_running_loop().create_future()
        return self._starts[ident]

    def stdin_of(self, process: int) -> StdinFlow:
        return self.stdin.setdefault(process, StdinFlow())

    async def end_of(self, process: int) -> Ended:
        ended = self._ends.get(process)
        if ended is not None:
            return ended
        if process not in self.running:
            raise MachineRefused(what="waiting for a process", why=os.strerror(errno.ESRCH), errno=errno.ESRCH)
        future: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._end_waiters.setdefault(process, []).append(future)
        return await future

    def keep_end(self, process: int, ended: Ended) -> None:
        self.running.discard(process)
        self.commands.pop(process, None)
        self._ends[process] = ended
        while len(self._ends) > _ENDS_KEPT:
            self._ends.popitem(last=False)
        for waiter in self._end_waiters.pop(process, []):
            if not waiter.done():
                waiter.set_result(ended)

    def forget(self, process: int) -> None:
        self._starts.pop(process, None)
        self.commands.pop(process, None)
        self.stdin.pop(process, None)
        self._ends.pop(process, None)

    @contextmanager
    def collect_errors(self, ident: int) -> Iterator[list[Refusal]]:
        """The errors about `ident` that come during the block."""
        errors: list[Refusal] = []
        self._errors.setdefault(ident, []).append(errors)
        try:
            yield errors
        finally:
            self._errors[ident].remove(errors)
            if not self._errors[ident]:
                del self._errors[ident]

    def fail_all(self, error: TakebackError) -> None:
        """Wake everyone with an error, and let nobody wait from now on."""
        if self.lost is not None:
            return
        self.lost = error
        futures: list[asyncio.Future[Any]] = [*self.pongs.values(), *self._starts.values(), *self._waiting.values()]
        futures += [one for waiters in self._end_waiters.values() for one in waiters]
        if self._attached is not None:
            futures.append(self._attached)
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # nobody may be waiting any more, and that is no news
        for following in list(self.followings.values()):
            following.fail(error)
        for flow in self.stdin.values():
            flow.fail(error)
        self.followings.clear()

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream."""
        if self._finder is not None:
            found = self._finder.feed(data)
            if found is None:
                return
            self._finder, data = None, found
        try:
            for frame in self._reader.feed(data):
                self._frame(frame)
        except Malformed as error:
            self.fail_all(MachineRefused(what="the channel", why=str(error), errno=errno.EPROTO))

    def _frame(self, frame: Frame) -> None:
        kind, flags, ident, payload = frame
        if kind == Type.OUTPUT:
            following = self.followings.get(ident)
            if following is not None:
                offset = int.from_bytes(payload[:8], "little")
                following.tell(Output(offset, payload[8:], bool(flags & Flag.STDERR)))
            return
        if kind >= Type.ACCEPTED_CONNECTION:
            if self.connection_call is not None:
                self.connection_call(frame)
            elif len(self.early) < _EARLY_MAX:
                self.early.append(frame)
            return
        if flags & Flag.MORE or (kind, ident) in self._parts:
            self._parts.setdefault((kind, ident), bytearray()).extend(payload)
            if flags & Flag.MORE:
                return
            payload = bytes(self._parts.pop((kind, ident)))
        if kind == Type.ATTACHED:
            self._on_attached(payload)
        elif kind in self._calls:
            self._calls[kind](ident, Fields(payload))

    def _on_attached(self, payload: bytes) -> None:
        fields = Fields(payload[NONCE:])
        if self._attached is not None and not self._attached.done():
            self._attached.set_result(
                Attached(fields.number(Tag.VERSION), fields.number(Tag.GENERATION), fields.number(Tag.UPTIME_MS))
            )

    def _on_started(self, ident: int, fields: Fields) -> None:
        self.running.add(ident)
        start = self._starts.pop(ident, None)
        if start is not None and not start.done():
            start.set_result(fields.number(Tag.PID))

    def _on_failed(self, ident: int, fields: Fields) -> None:
        start = self._starts.pop(ident, None)
        if start is not None and not start.done():
            start.set_exception(Failed(fields.number(Tag.ERRNO), fields.text(Tag.STAGE), fields.text(Tag.PATH)))

    def _on_gap(self, ident: int, fields: Fields) -> None:
        if ident in self.followings:
            self.followings[ident].tell(Gap(fields.number(Tag.RESUME_AT)))

    def _on_ended(self, ident: int, fields: Fields) -> None:
        ended = read_ended(fields)
        following = self.followings.pop(ident, None)
        if following is not None:
            following.tell(ended)
            return
        if ident not in self.running:
            return  # a follower that was left meanwhile
        self.keep_end(ident, ended)
        flow = self.stdin.pop(ident, None)
        if flow is not None:
            flow.fail(_closed_stdin("the process has ended"))
        if self.ended_call is not None:
            self.ended_call(ident, ended)

    def _on_accepted(self, ident: int, fields: Fields) -> None:
        total = fields.number(Tag.TOTAL)
        if ident not in self.stdin:
            self.stdin[ident] = StdinFlow(total)
        self.stdin[ident].take(total)

    def _on_process(self, ident: int, fields: Fields) -> None:
        if ident:
            self._listed.append(read_listed(ident, fields))
        else:
            self._settle("list", self._listed)

    def _on_pong(self, ident: int, fields: Fields) -> None:
        pong = self.pongs.pop(ident, None)
        if pong is not None and not pong.done():
            pong.set_result(Pong(fields.number(Tag.WALL_NS), fields.number(Tag.MONOTONIC_NS)))

    def _on_error(self, ident: int, fields: Fields) -> None:
        refusal = Refusal(fields.number(Tag.ERRNO), fields.text(Tag.TEXT))
        error = MachineRefused(what="what was asked", why=refusal.why, errno=refusal.errno)
        start = self._starts.pop(ident, None)
        following = self.followings.pop(ident, None)
        if start is not None and not start.done():
            start.set_exception(error)
        elif following is not None:
            following.fail(error)
        elif refusal.errno in (errno.EPIPE, errno.ENOBUFS) and ident in self.stdin:
            self.stdin[ident].fail(_closed_stdin(refusal.why))
        elif ident in self._errors:
            # The oldest request that has none yet: they are answered in order.
            next((errors for errors in self._errors[ident] if not errors), []).append(refusal)
        elif ident in self.stdin:
            self.stdin[ident].fail(error)

    def _settle(self, what: str, value: object) -> None:
        waiting = self._waiting.pop(what, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)


def _closed_stdin(why: str) -> MachineRefused:
    return MachineRefused(what="writing to stdin", why=why, errno=errno.EPIPE)
