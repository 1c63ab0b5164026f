"""The keeper's end of the connections: who may speak, which operation is meant, how it ends.

Does not cover: the operations (`sandboxes`, `commands`, `files`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from takeback._version import VERSION
from takeback.errors import CannotWrite, DiskFull, InvalidRequest, MachineSilent, OtherKeeper, TakebackError
from takeback.host import unix
from takeback.machines import wire
from takeback.machines.lines import Line

if TYPE_CHECKING:
    from takeback.machines.keeper.keeper import Keeper
    from takeback.machines.keeper.machine import Life

log = logging.getLogger("takeback.keeper")

_LINGER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request and the connection it came on."""

    keeper: Keeper
    line: Line
    request: Mapping[str, Any]

    def event(self, kind: str, **fields: Any) -> None:
        """Tell something before the answer."""
        self.line.write(wire.pack_json({"event": kind, **fields}))

    def life(self) -> Life:
        """Return the sandbox that is meant. Raises SandboxNotFound."""
        return self.keeper.find(self.request["sandbox"])

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Life]:
        """Hold the sandbox awake for the block. Raises SandboxNotFound, SandboxPaused, SandboxStopped."""
        life = self.life()
        life.enter()
        try:
            await life.awake()
            yield life
        except MachineSilent:
            # The channel is closed when a sandbox ends, or is held; callers care for the sandbox.
            if not life.runs:
                raise life.stopped() from None
            raise
        finally:
            life.leave()


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done for a request; `leaves` when it is given up as soon as the caller has gone."""

    handler: Handler
    leaves: bool = True


class Server:
    """Answers on the keeper's socket."""

    def __init__(self, keeper: Keeper, operations: Mapping[str, Operation]) -> None:
        self._keeper = keeper
        self._operations = operations
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._uid = os.getuid()

    @property
    def calls(self) -> int:
        """How many requests are being answered."""
        return len(self._tasks)

    async def listen(self, listening: unix.Socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Accepted(self), sock=listening)

    def stop_listening(self) -> None:
        """Take no more connections; those that wait unanswered try the next keeper."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        self.stop_listening()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def accepted(self, line: Line) -> None:
        """Begin to answer a connection, if it is the same user's."""
        uid = unix.peer_uid(line.transport.get_extra_info("socket"))
        if uid != self._uid:
            log.warning("refused a connection of user %d", uid)
            line.transport.abort()
            return
        self._keeper.was_used()
        task = asyncio.get_running_loop().create_task(self._serve(line))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._keeper.was_used()
        if not task.cancelled() and task.exception() is not None:
            log.error("a connection failed", exc_info=task.exception())

    async def _serve(self, line: Line) -> None:
        try:
            frame = await line.receive()
            if frame is None:
                return
            request = wire.unpack_json(frame[1])
            if not self._understood(request) or self._keeper.over.is_set():
                return  # without HELLO: it is asked again, and another keeper answers
            line.write(wire.pack(wire.Type.HELLO, VERSION.encode()))
            operation = self._operations.get(str(request.get("op")))
            if operation is None:
                raise InvalidRequest(detail=f"there is no operation {request.get('op')!r}", next="update takeback")
            if operation.leaves:
                task = asyncio.current_task()
                assert task is not None
                line.on_lost = task.cancel
                if line.ended:
                    return
            answer = await operation.handler(Call(self._keeper, line, request))
            line.write(wire.pack_json({"ok": answer}))
        except TakebackError as error:
            line.write(wire.pack_error(error))
        except asyncio.CancelledError:
            pass  # the caller has gone, or the keeper goes: nobody waits for an answer
        except OSError as error:
            said = _disk(error, self._keeper.directory.root)
            log.warning("an operation failed: %s", error, exc_info=said is None)
            line.write(wire.pack_error(said or _unknown(error)))
        except Exception as error:
            log.exception("an operation failed")
            line.write(wire.pack_error(_unknown(error)))
        finally:
            line.on_lost = None
            try:
                await _linger(line)
            finally:
                line.close()

    def _understood(self, request: Mapping[str, Any]) -> bool:
        """Whether a caller of this version, or of one that speaks alike, may be answered.

        Another version's keeper with nothing to keep makes room: the caller starts its own. Raises OtherKeeper.
        """
        if request.get("version") == VERSION:
            return True
        alive = self._keeper.alive()
        if not alive:
            self._keeper.end("another version asked")
            return False
        if request.get("protocol") != wire.PROTOCOL:
            raise OtherKeeper(theirs=VERSION, ours=request.get("version"), count=alive)
        return True


def _unknown(error: Exception) -> TakebackError:
    return TakebackError(detail=f"{type(error).__name__}: {error}")


def _disk(error: OSError, data: Path) -> TakebackError | None:
    """Return what to say when the data directory cannot be written, None when that is not what happened."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path=data)
    if error.errno == errno.EROFS:
        return CannotWrite(path=data, why=error.strerror, next="make it writable and repeat")
    return None


async def _linger(line: Line) -> None:
    """Wait for the caller to close: who is still sending when we do loses the answer that is on its way."""
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while await line.receive() is not None:
                pass
    except TimeoutError:
        pass


class _Accepted(Line):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self._of = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._of.accepted(self)
