"""Do installed hooks run? Each is fired once with an event that records nothing, as its host would start it.

Does not cover: what a host skips without a word beyond what `Agent.switches` can find out.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from takeback.app.agents import jsontext
from takeback.app.agents.installed import Entry, Installed
from takeback.app.agents.installing import AGENTS, where
from takeback.app.agents.places import Where, is_ours
from takeback.host import process
from takeback.model import Finding

_PATIENCE = 60.0
PROBE = "takeback_probe"  # as `takeback.hooks` reads it


def findings(data: Path, home: Path, environ: dict[str, str], root: Path | None) -> list[Finding]:
    """Return a line for every agent that was set up for this person or this project."""
    result = []
    entries = list(Installed(data).entries.values())
    for whose in sorted({(one.agent, one.root) for one in entries if one.root in ("", os.fspath(root or ""))}):
        agent, place = AGENTS[whose[0]], where(home, environ, Path(whose[1]) if whose[1] else None)
        mine = [one for one in entries if (one.agent, one.root) == whose]
        result += [_look(one, place, root) for one in mine if one.has_hooks]
        result += agent.switches(place)
    return result


def _look(entry: Entry, place: Where, root: Path | None) -> Finding:
    name = f"{entry.agent} hooks"
    again = f"takeback init --agent {entry.agent} {'--project' if entry.root else '--user'}"
    path = Path(entry.path)
    try:
        text = path.read_text("utf-8")
        lines = list(_commands(text, path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Finding(name, False, f"{path}: {why}", again)
    missing = _events(entry, place) - {event for event, _ in lines}
    if missing:
        return Finding(name, False, f"{path} lacks takeback's hooks for {', '.join(sorted(missing))}", again)
    failed = {event: why for event, line in lines if (why := _fire(line, root or place.home)) is not None}
    if failed:
        event, why = next(iter(failed.items()))
        return Finding(name, False, f"{len(failed)} of {len(lines)} in {path} did not run; {event}: {why}", again)
    return Finding(name, True, f"{len(lines)} in {path}, each fired once, and all ran")


def _events(entry: Entry, place: Where) -> set[str]:
    pieces = AGENTS[entry.agent].pieces(place)
    return {event for piece in pieces if os.fspath(piece.path) == entry.path for event in piece.hooks or ()}


def _commands(text: str, path: Path) -> Iterable[tuple[str, str]]:
    """Yield the event and the shell command of each of takeback's hooks in a file."""
    if path.suffix != ".json":
        found = re.search(r'^const hook = (".*")$', text, re.MULTILINE)
        if found is None:
            raise ValueError("it is not takeback's plugin any more")
        program = "'" + json.loads(found[1]).replace("'", "'\\''") + "'"
        yield from (
            (event, f"{program} opencode {event}") for event in ("session", "prompt", "before", "after", "stop")
        )
        return
    hooks = jsontext.parse(text).get("hooks")
    for event, groups in (hooks.value if hooks is not None and isinstance(hooks.value, dict) else {}).items():
        for group in groups if isinstance(groups, list) else ():
            if is_ours(group):
                yield from ((event, str(one["command"])) for one in group["hooks"] if "command" in one)


def _fire(line: str, folder: Path) -> str | None:
    """Run a hook's command with a probe; returns why it did not run, None when it did."""
    nonce = secrets.token_hex(8)
    feed = json.dumps({PROBE: nonce}).encode()
    try:
        child = process.start(["/bin/sh", "-c", line], env=process.clean_environment(), cwd=str(folder), feed=feed)
        done = child.finish(_PATIENCE)
    except process.TimeoutExpired:
        return f"no answer within {_PATIENCE:g} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.code == 0 and nonce.encode() in done.out:
        return None
    said = (done.err or done.out).decode("utf-8", "replace").strip().splitlines()
    return f"exit code {done.code}" + (f": {said[-1]}" if said else "")
