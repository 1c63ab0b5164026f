"""Ask Codex's own server which hooks it sees, and have it record that they are trusted, as its dialogue would.

Does not cover: trusting a project folder, which is its owner's word to give.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from takeback.app.agents.places import MARK
from takeback.host import process

_PATIENCE = 30.0
_PASSED = ("CODEX_HOME", "PATH", "HOME")


class NoAnswer(Exception):
    """Codex did not answer, or not as expected; in words."""


class _Server:
    """`codex app-server`: one JSON object a line, both ways."""

    def __init__(self, program: str, folder: Path, environ: Mapping[str, str]) -> None:
        env = process.clean_environment({name: environ[name] for name in _PASSED if name in environ})
        try:
            self._pipe = process.pipe([program, "app-server"], env=env, cwd=str(folder))
        except OSError as error:
            raise NoAnswer(error.strerror or str(error)) from error
        self._timer = threading.Timer(_PATIENCE, self._pipe.kill)
        self._timer.start()
        self._count = 0

    def __enter__(self) -> _Server:
        try:
            who = {"name": "takeback", "title": "takeback", "version": "0"}
            self.call("initialize", {"clientInfo": who})
            self._send({"method": "initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        process.end(self._pipe)

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a call. Raises NoAnswer."""
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        assert self._pipe.stdout is not None
        for line in self._pipe.stdout:
            try:
                reply = json.loads(line)
            except ValueError:
                continue
            if isinstance(reply, dict) and reply.get("id") == self._count and "method" not in reply:
                if not isinstance(reply.get("result"), dict):
                    raise NoAnswer(f"{method}: {json.dumps(reply.get('error'))[:200]}")
                result: dict[str, Any] = reply["result"]
                return result
        raise NoAnswer(f"it ended at {method}")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._pipe.stdin is not None
        try:
            self._pipe.stdin.write(json.dumps(message).encode() + b"\n")
            self._pipe.stdin.flush()
        except OSError as error:
            raise NoAnswer(error.strerror or str(error)) from error


def _hooks(server: _Server, folder: Path, file: Path) -> list[dict[str, Any]]:
    """Return takeback's hooks in a file; their keys are FILE:EVENT:GROUP:HOOK."""
    rows = server.call("hooks/list", {"cwds": [str(folder)]}).get("data", [])
    found = [hook for row in rows for hook in row.get("hooks", []) if MARK in json.dumps(hook)]
    return [hook for hook in found if _real(str(hook.get("key")).rsplit(":", 3)[0]) == _real(file)]


def _real(path: str | Path) -> str:
    return os.path.realpath(path)


def trust(program: str, folder: Path, file: Path, environ: Mapping[str, str]) -> int:
    """Record that the hooks of takeback's in `file` are trusted; returns how many there are. Raises NoAnswer."""
    with _Server(program, folder, environ) as server:
        state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in _hooks(server, folder, file)}
        if state:
            edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
            server.call("config/batchWrite", {"edits": [edit]})
        return len(state)


def states(program: str, folder: Path, file: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the trust of each of takeback's hooks in `file`, in Codex's words. Raises NoAnswer."""
    with _Server(program, folder, environ) as server:
        hooks = _hooks(server, folder, file)
        return [str(hook.get("trustStatus")) if hook.get("enabled", True) else "disabled" for hook in hooks]
