"""Put takeback's hooks into the settings of agents, and take them out again: twice changes nothing, out leaves nothing.

A file that nobody else changed since gets back the very bytes it had; of another, only what is ours is taken out.
Does not cover: any single agent, or whether the hooks run (`checking`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from takeback.app.agents import claude, codex, gemini, jsontext, opencode
from takeback.app.agents.installed import Entry, Installed, digest, make_folders
from takeback.app.agents.places import MARK, Agent, Piece, Where, hook_program, is_ours
from takeback.errors import CannotWrite, UsageError
from takeback.host import atomic

AGENTS: Mapping[str, Agent] = {one.name: one for one in (claude.AGENT, codex.AGENT, gemini.AGENT, opencode.AGENT)}


@dataclass
class Done:
    """What was done to one file: `added`, `kept` (it was so already), `removed`, `left` (not ours), with its backup."""

    agent: str
    path: Path
    verb: str
    backup: Path | None = None
    notes: list[str] = field(default_factory=list)


def where(home: Path, environ: Mapping[str, str], root: Path | None) -> Where:
    """Return whose settings are meant."""
    return Where(home, environ, root, hook_program())


def install(data: Path, name: str, place: Where) -> list[Done]:
    """Put an agent's pieces in place. Raises CannotWrite, UsageError for settings that cannot be read."""
    if not os.access(place.hook, os.X_OK):
        raise CannotWrite(path=place.hook, why="the hook's program is not there", next="install takeback again")
    agent = AGENTS[name]
    known = Installed(data)
    here = agent.used(place)
    result = [_put(known, agent, place, piece) for piece in agent.pieces(place)]
    before = {path: _read(path) for path in agent.beside(place)}
    result[0].notes += agent.after_install(place)
    if not here and not result[0].notes:
        result[0].notes.append(f"{agent.title} was not found on this machine: its hooks wait for it.")
    for path, raw in before.items():
        _note_beside(known, agent, place, path, raw)
    return result


def remove(data: Path, names: list[str], root: Path | None) -> list[Done]:
    """Take out what was installed for these agents, in a project (`root`) or in a person's own settings (None)."""
    known = Installed(data)
    result = []
    made: set[str] = set()
    for path, entry in list(known.entries.items()):
        if entry.agent in names and entry.root == (os.fspath(root) if root else ""):
            result.append(_take_out(known, entry))
            made.update(entry.made)
            del known.entries[path]
            known.save()
    for folder in sorted(made, key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            pass  # others use it
    return result


def remove_unlisted(names: list[str], place: Where) -> list[Done]:
    """Take out what is ours by its text, where the list of what was installed is lost."""
    result = []
    for name in names:
        for piece in AGENTS[name].pieces(place):
            raw = _read(piece.path)
            if raw is not None and MARK.encode() in raw:
                after = _without(raw, piece.path)
                _replace(piece.path, after)
                result.append(Done(name, piece.path, "removed"))
    return result


def _put(known: Installed, agent: Agent, place: Where, piece: Piece) -> Done:
    raw = _read(piece.path)
    entry = known.entries.get(os.fspath(piece.path))
    if piece.hooks is None:
        if raw is not None and MARK.encode() not in raw and b"takeback" not in raw:
            return Done(agent.name, piece.path, "left", notes=[f"{piece.path} is somebody else's and stays as it is."])
        new = piece.text.encode()
    else:
        base = b"" if raw is None else _without(raw, piece.path)
        new = _with(base, piece)
        if raw is not None and _hooks_of(raw, piece.path) == _hooks_of(new, piece.path):
            new = raw
    if new == raw and entry is not None:
        return Done(agent.name, piece.path, "kept")
    if entry is not None and raw is not None and digest(raw) == entry.after:
        before, exact, made = entry.before, entry.exact, entry.made
    else:
        before = known.keep(raw) if raw is not None else None
        exact = raw is None or (MARK.encode() not in raw and piece.hooks is not None)
        made = []
    try:
        made = [*make_folders(piece.path.parent), *made]
        if new != raw:
            _write(piece.path, new)
    except OSError as error:
        raise CannotWrite(
            path=os.fspath(piece.path), why=error.strerror or str(error), next="make it writable and repeat"
        ) from error
    known.entries[os.fspath(piece.path)] = Entry(
        agent.name, os.fspath(place.root) if place.root else "", os.fspath(piece.path), before, digest(new), exact, made
    )
    known.save()
    return Done(agent.name, piece.path, "added" if new != raw else "kept", known.backup(before) if before else None)


def _note_beside(known: Installed, agent: Agent, place: Where, path: Path, raw: bytes | None) -> None:
    """Note a file that the agent itself changed for our hooks, with what it was before the first time."""
    now = _read(path)
    entry = known.entries.get(os.fspath(path))
    if now is None or now == raw:
        return
    before = known.keep(raw) if raw is not None else None
    if entry is not None and raw is not None and digest(raw) == entry.after:
        before = entry.before
    root = os.fspath(place.root) if place.root else ""
    known.entries[os.fspath(path)] = Entry(agent.name, root, os.fspath(path), before, digest(now))
    known.save()


def _take_out(known: Installed, entry: Entry) -> Done:
    path = Path(entry.path)
    raw = _read(path)
    if raw is None:
        return Done(entry.agent, path, "removed")
    after: bytes | None
    if digest(raw) == entry.after and entry.exact:
        after = known.kept(entry.before) if entry.before else None
        if entry.before and after is None:
            after = _without(raw, path)
    elif path.suffix == ".json":
        after = _without(raw, path)
        if not entry.before and after is not None and after.strip() in (b"", b"{}"):
            after = None
    elif path.suffix == ".toml":
        after = _stripped(AGENTS[entry.agent], raw, path)
    elif digest(raw) == entry.after:
        after = None  # a file of ours, put over an older one of ours
    else:
        note = f"{path} was changed since and stays: remove it if you do not want it."
        return Done(entry.agent, path, "left", notes=[note])
    _replace(path, after)
    return Done(entry.agent, path, "removed")


def _stripped(agent: Agent, raw: bytes, path: Path) -> bytes:
    try:
        return agent.stripped(raw.decode()).encode()
    except ValueError as error:
        raise UsageError(detail=f"{path} cannot be changed: {error}; mend it and repeat") from None


def _replace(path: Path, raw: bytes | None) -> None:
    try:
        if raw is None:
            path.unlink(missing_ok=True)
        elif raw != _read(path):
            _write(path, raw)
    except OSError as error:
        raise CannotWrite(path=os.fspath(path), why=error.strerror or str(error), next="make it writable") from error


def _write(path: Path, raw: bytes) -> None:
    # A link to a file elsewhere (dotfiles in a repository) stays one.
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode & 0o7777 if real.exists() else 0o644
    atomic.write_bytes(real, raw)
    os.chmod(real, mode)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotWrite(path=os.fspath(path), why=error.strerror or str(error), next="make it readable") from error


def _text(raw: bytes, path: Path) -> str:
    try:
        text = raw.decode()
        if text.strip():
            jsontext.parse(text)
        return text
    except ValueError as error:
        raise UsageError(detail=f"{path} cannot be changed: {error}; mend it and repeat") from None


def _hooks_of(raw: bytes, path: Path) -> object:
    text = _text(raw, path)
    found = jsontext.parse(text).get("hooks") if text.strip() else None
    groups = found.value if found is not None and isinstance(found.value, dict) else {}
    return {event: [one for one in rows if is_ours(one)] for event, rows in groups.items() if isinstance(rows, list)}


def _without(raw: bytes, path: Path) -> bytes:
    if path.suffix != ".json":
        return b""
    text = _text(raw, path)
    if not text.strip():
        return raw
    found = jsontext.parse(text).get("hooks")
    for event in list(found.value) if found is not None and isinstance(found.value, dict) else []:
        text = jsontext.remove(text, ("hooks", event), is_ours)
    return text.encode()


def _with(raw: bytes, piece: Piece) -> bytes:
    text = _text(raw, piece.path)
    try:
        for event, group in (piece.hooks or {}).items():
            text = jsontext.add(text, ("hooks", event), group)
    except ValueError as error:
        raise UsageError(detail=f"{piece.path} cannot be changed: {error}; mend it and repeat") from None
    return text.encode()
