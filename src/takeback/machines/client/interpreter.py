"""`sandbox.interpreter`: Python cells whose variables stay, in both faces.

Does not cover: how a cell is run (`interpreting`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from takeback.errors import InvalidRequest
from takeback.machines.client import interpreting
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import arun, run

Record = dict[str, Any]
Records = list[Record]
Callback = Callable[[Any], Any] | None


class _Base:
    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._id = sandbox

    def result(self, ref: Record | str) -> NoReturn:
        """Raise InvalidRequest: every result travels whole, none is kept in a file."""
        raise InvalidRequest(detail=f"{ref!r} is no result in a file", next="results[...]['data'] holds all of it")


class InterpreterContexts:
    """The contexts of one sandbox, each with variables, a folder and an environment of its own."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._id = sandbox

    def create(
        self,
        *,
        id: str | None = None,
        language: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Record:
        """Start one. Raises Unsupported for another language than Python."""
        return run(self._client, interpreting.create(self._id, id, language, cwd, env))

    def list(self) -> Records:
        """Return those there are: id, language, cwd, processId."""
        return run(self._client, interpreting.contexts(self._id))

    def restart(self, context_id: str) -> Record:
        """Start one again with nothing in it."""
        return run(self._client, interpreting.restart(self._id, context_id))

    def interrupt(self, context_id: str) -> bool:
        """Stop the cell that runs, as Ctrl-C would; variables stay."""
        return run(self._client, interpreting.interrupt(self._id, context_id))

    def remove(self, context_id: str) -> bool:
        """End one, and return whether there was one."""
        return run(self._client, interpreting.remove(self._id, context_id))


class Interpreter(_Base):
    """Runs cells of Python in a sandbox; its `contexts` are processes there, and are copied with it."""

    @property
    def contexts(self) -> InterpreterContexts:
        """The interpreters there are, and more of them."""
        return InterpreterContexts(self._client, self._id)

    def run(
        self,
        code: str,
        *,
        language: str | None = None,
        context: str | None = None,
        timeout_ms: int | None = None,
        on_stdout: Callback = None,
        on_stderr: Callback = None,
        on_result: Callback = None,
        on_error: Callback = None,
        idempotency_key: str | None = None,
        interrupt_on_disconnect: bool | None = None,
    ) -> Record:
        """Run a cell and return its execution: status, stdout, stderr, results, error, executionCount.

        `status` is ok, error or timeout. A result is {"data": {MIME type: value}, "main", "refs"}: the value of the
        last expression, and what `display` showed. `timeout_ms` is a minute unless given, 0 for none.
        """
        callbacks = {"on_stdout": on_stdout, "on_stderr": on_stderr, "on_result": on_result, "on_error": on_error}
        op = interpreting.run_cell(
            self._id, code, language=language, context=context, timeout_ms=timeout_ms, callbacks=callbacks,
            interrupt=bool(interrupt_on_disconnect),
        )  # fmt: skip
        return run(self._client, op)


class AsyncInterpreterContexts:
    """The contexts of one sandbox, each with variables, a folder and an environment of its own."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._id = sandbox

    async def create(
        self,
        *,
        id: str | None = None,
        language: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Record:
        """Start one."""
        return await arun(self._client, interpreting.create(self._id, id, language, cwd, env))

    async def list(self) -> Records:
        """Return those there are."""
        return await arun(self._client, interpreting.contexts(self._id))

    async def restart(self, context_id: str) -> Record:
        """Start one again with nothing in it."""
        return await arun(self._client, interpreting.restart(self._id, context_id))

    async def interrupt(self, context_id: str) -> bool:
        """Stop the cell that runs; variables stay."""
        return await arun(self._client, interpreting.interrupt(self._id, context_id))

    async def remove(self, context_id: str) -> bool:
        """End one, and return whether there was one."""
        return await arun(self._client, interpreting.remove(self._id, context_id))


class AsyncInterpreter(_Base):
    """Runs cells of Python in a sandbox; callbacks may be coroutine functions."""

    @property
    def contexts(self) -> AsyncInterpreterContexts:
        """The interpreters there are, and more of them."""
        return AsyncInterpreterContexts(self._client, self._id)

    async def run(
        self,
        code: str,
        *,
        language: str | None = None,
        context: str | None = None,
        timeout_ms: int | None = None,
        on_stdout: Callback = None,
        on_stderr: Callback = None,
        on_result: Callback = None,
        on_error: Callback = None,
        idempotency_key: str | None = None,
        interrupt_on_disconnect: bool | None = None,
    ) -> Record:
        """Run a cell and return its execution."""
        callbacks = {"on_stdout": on_stdout, "on_stderr": on_stderr, "on_result": on_result, "on_error": on_error}
        op = interpreting.run_cell(
            self._id, code, language=language, context=context, timeout_ms=timeout_ms, callbacks=callbacks,
            interrupt=bool(interrupt_on_disconnect),
        )  # fmt: skip
        return await arun(self._client, op)
