"""Operations as generators of steps, so that both faces share them: each step is done by a blocking or an async driver.

    def delete(id):                      # an Op: yields steps, returns its result
        answer = yield from ask({"op": "delete", "sandbox": id})

Does not cover: what steps do to a connection (`lines`), or the operations (`operations`, `processes`, `files`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from takeback.errors import KeeperGone
from takeback.machines import wire

T = TypeVar("T")
Op = Generator["Step", Any, T]
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Open:
    """Connect (starting the keeper if there is none), say the request, and forget the connection before it."""

    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Send:
    """Send a packed frame; what arrives meanwhile is kept, so that both ends may send at once."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Receive:
    """Give the next frame, or None when the keeper has gone."""


@dataclass(frozen=True, slots=True)
class Give:
    """Give one item to whoever iterates."""

    item: Any


@dataclass(frozen=True, slots=True)
class Run:
    """Call a function of the user (awaited if it is one to await), or with `blocking` one that may block."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait, in seconds."""

    seconds: float


Step = Open | Send | Receive | Give | Run | Sleep
RECEIVE = Receive()


def begin(request: dict[str, Any]) -> Op[None]:
    """Say a request and return when the keeper has taken it.

    Until its HELLO nothing has run, so one that ends itself (idle, or of another version) is asked again.
    """
    for attempt in range(_TRIES):
        yield Open(request)
        frame = yield RECEIVE
        if frame is not None and frame[0] == wire.Type.HELLO:
            return
        if frame is not None:
            raise wire.unpack_error(wire.unpack_json(frame[1])["error"])
        yield Sleep(0.01 * 2**attempt)
    raise KeeperGone(what=request["op"])


def document(frame: wire.Frame | None, what: str) -> Mapping[str, Any]:
    """Return the JSON of a frame. Raises the error it carries, or KeeperGone."""
    if frame is None:
        raise KeeperGone(what=what)
    answer = wire.unpack_json(frame[1])
    if "error" in answer:
        raise wire.unpack_error(answer["error"])
    return answer


def ask(request: dict[str, Any], *, progress: Callable[[str, int, int], None] | None = None) -> Op[Any]:
    """Say a request without input and return the `ok` of its answer."""
    yield from begin(request)
    while True:
        answer = document((yield RECEIVE), request["op"])
        if "ok" in answer:
            return answer["ok"]
        if progress is not None and answer.get("event") == "progress":
            yield Run(progress, (answer["what"], answer["done"], answer["total"]))
