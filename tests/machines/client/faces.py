"""Both faces under one name: what is written for `AsyncSandbox` runs on `Sandbox` too.

Does not cover: blocking calls at the same time; they stand still together.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.connect import Client
from takeback.machines.client.files import Files
from takeback.machines.client.network import Network, PortForward, Previews
from takeback.machines.client.processes import Process, Terminal
from takeback.machines.client.sandbox import Sandbox

_WRAPPED = (Sandbox, Files, Process, Terminal, Network, PortForward, Previews)


class Awaited:
    """A blocking object whose methods are to be awaited."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, name)
        return _wrap(value) if not inspect.ismethod(value) else _method(value)

    async def __aenter__(self) -> Awaited:
        self._thing.__enter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._thing.__exit__(*error)


def _wrap(value: Any) -> Any:
    if isinstance(value, _WRAPPED):
        return Awaited(value)
    if isinstance(value, list):
        return [_wrap(one) for one in value]
    return value


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function):
        return lambda *args, **more: _items(function(*args, **more))

    async def call(*args: Any, **more: Any) -> Any:
        return _wrap(function(*args, **more))

    return call


async def _items(generator: Generator[Any, None, None]) -> AsyncIterator[Any]:
    try:
        for item in generator:
            yield item
    finally:
        generator.close()


class Face:
    """The class methods of one face, with the client of the test."""

    def __init__(self, client: Client, *, blocking: bool) -> None:
        self.client = client
        self._class: Any = Sandbox if blocking else AsyncSandbox
        self._blocking = blocking

    async def _call(self, method: str, *args: Any, **fields: Any) -> Any:
        answer = getattr(self._class, method)(*args, client=self.client, **fields)
        return _wrap(answer) if self._blocking else await answer

    async def create(self, **fields: Any) -> Any:
        return await self._call("create", **fields)

    async def get_or_create(self, name: str, **fields: Any) -> Any:
        return await self._call("get_or_create", name, **fields)

    async def connect(self, sandbox_id: str) -> Any:
        return await self._call("connect", sandbox_id)

    async def list(self, **fields: Any) -> Any:
        return await self._call("list", **fields)
