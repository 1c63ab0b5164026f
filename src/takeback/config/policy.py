"""Reads `[policy]` of a settings file: acts by class, rules, hosts, protected branches, and what hooks do.

A mistake never stops the reading: it is a problem with its line and the nearest right word, all that is readable
counts, and such a file can only make stricter. Does not cover: what follows from two files (`config.levels`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from takeback.config import document
from takeback.config.document import Document
from takeback.errors import BadSetting, CannotRead, TakebackError
from takeback.guard.policy_model import DEFAULTS, Act, Branches, Hosts, Level, Rule

_REASONS = ("opaque", "system", "destroys")
_CLASSES = ("none", "files", "state", "machine", "outside")
_NAMES = (*_CLASSES, *(f"machine.{reason}" for reason in _REASONS))
_KEYS = (*_NAMES, "rule", "hosts", "branches", "rollback_failed", "on_error", "notify")
_ACTS = tuple(act.value for act in Act)
_MOST_LINES = 50  # left out of a file that is no TOML, before it is given up
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Said:
    """What one file says, None where it says nothing; `digest` is of its bytes, "" when it is not there."""

    path: Path
    level: Level
    rollback_failed: bool | None = None
    on_error: Act | None = None
    notify: str | None = None
    problems: tuple[TakebackError, ...] = ()
    digest: str = ""
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.name

    @property
    def empty(self) -> bool:
        """Whether it says nothing of steps at all."""
        level = self.level
        others = (self.rollback_failed, self.on_error, self.notify)
        listed = (level.acts, level.rules, level.hosts.allow, level.hosts.deny, level.branches.protected, self.problems)
        return not any(listed) and all(one is None for one in others)


def read(path: Path) -> Said:
    """Read the policy in a settings file; never raises: what is wrong is in `problems`."""
    try:
        raw = document.read_bytes(path)
    except CannotRead as error:
        return Said(path, Level(path.name, trusted=False), problems=(error,))
    if not raw:
        return Said(path, Level(path.name))
    import hashlib  # a hook without settings starts without it

    digest = hashlib.sha256(raw).hexdigest()
    if len(raw) > _LONGEST:
        long = Document(path).bad("?", f"longer than {_LONGEST} bytes", "make it shorter")
        return Said(path, Level(path.name, trusted=False), problems=(long,), digest=digest)
    found, problems = _parse(path, raw)
    reader = _Reader(found, problems)
    return replace(reader.read(), digest=digest)


def _parse(path: Path, raw: bytes) -> tuple[Document, list[TakebackError]]:
    """Read the file, without the lines that cannot be read where there are such."""
    problems: list[TakebackError] = []
    lines = raw.split(b"\n")
    for _ in range(_MOST_LINES):
        try:
            return document.parse(path, b"\n".join(lines)), problems
        except BadSetting as error:
            problems = problems or [error]
            line = error.fields["line"]
            # The end is where the parser finds that something was left open: the last line goes, and so on backwards.
            at = int(line) - 1 if str(line).isdigit() and int(line) <= len(lines) else len(lines) - 1
            while at > 0 and not lines[at].strip():
                at -= 1
            if not lines[at].strip():
                break
            lines[at] = b""
    return Document(path), problems


class _Reader:
    def __init__(self, found: Document, problems: list[TakebackError]) -> None:
        self._document = found
        self._problems = problems
        self._places: dict[str, str] = {}

    def read(self) -> Said:
        """Return what the file says."""
        self._misspelled()
        found = self._document
        table = found.tables.get("policy", {})
        if not isinstance(table, dict):
            self._bad("`policy` must be a section", "write [policy] on a line of its own", "policy")
            table = {}
        for key in table:
            if key not in _KEYS:
                self._problems.append(found.unknown("key", key, _KEYS, "policy"))
        rollback = self._value(table, "rollback_failed", bool, "true or false")
        notify = self._value(table, "notify", str, "a command line, as text")
        on_error = self._act(table["on_error"], "policy", "on_error") if "on_error" in table else None
        if on_error is not None and on_error not in (Act.DENY, Act.ALLOW):
            self._bad(f"`on_error` cannot be {on_error.value!r}", "deny or allow", "policy", "on_error")
            on_error = None
        level = Level(
            found.path.name,
            self._acts(table),
            self._rules(table),
            self._hosts(table),
            self._branches(table),
            not self._problems,
            self._places,
        )
        places = {key: self._where("policy", key) for key in ("rollback_failed", "on_error", "notify") if key in table}
        return Said(found.path, level, rollback, on_error, notify, tuple(self._problems), places=places)

    def _misspelled(self) -> None:
        """Note a section that was meant to be this one: else its rules would be missing without a word."""
        for section in self._document.tables:
            if section not in ("policy", "checkpoint") and document.resembles(section, "policy"):
                self._problems.append(self._document.unknown("section", section, ["policy"]))

    def _acts(self, table: dict[str, Any]) -> dict[str, Act]:
        acts: dict[str, Act] = {}
        for name in _NAMES:
            value = table.get(name)
            if name == "machine" and isinstance(value, dict):
                for reason, inner in value.items():
                    if reason not in _REASONS:
                        self._problems.append(self._document.unknown("key", reason, _REASONS, "policy", "machine"))
                    else:
                        self._set(acts, f"machine.{reason}", self._act(inner, "policy", "machine", reason), reason)
            elif name in table:
                act = self._act(value, "policy", *name.split("."))
                for one in [f"machine.{reason}" for reason in _REASONS] if name == "machine" else [name]:
                    self._set(acts, one, act)
        return acts

    def _set(self, acts: dict[str, Act], name: str, act: Act | None, *below: str) -> None:
        if act is not None and name in DEFAULTS:
            acts[name] = act
            key = ("machine", *below) if below else tuple(name.split("."))
            self._places[name] = self._where("policy", *key)

    def _rules(self, table: dict[str, Any]) -> tuple[Rule, ...]:
        given = table.get("rule", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            self._bad("`rule` must be a list of sections", "write [[policy.rule]] above each", "policy", "rule")
            return ()
        rules = []
        for number, one in enumerate(given):
            for key in one:
                if key not in ("match", "act", "class"):
                    error = self._document.unknown("key", key, ("match", "act", "class"), "policy", "rule", nth=number)
                    self._problems.append(error)
            rule = self._rule(one, number)
            if rule is not None:
                rules.append(rule)
        return tuple(rules)

    def _rule(self, one: dict[str, Any], number: int) -> Rule | None:
        import shlex  # only where there are rules

        form: list[str] = []
        match = one.get("match")
        if isinstance(match, str):
            try:
                form = shlex.split(match)
            except ValueError:
                form = []
        if not form or not form[0]:
            problem = f"`match` cannot be {match!r}" if "match" in one else "a rule without `match`"
            self._bad(problem, "a command such as `git push origin feature/*`", "policy", "rule", "match", nth=number)
            return None
        if "act" not in one:
            self._bad("a rule without `act`", f"one of {', '.join(_ACTS)}", "policy", "rule", "match", nth=number)
            return None
        act = self._act(one["act"], "policy", "rule", "act", nth=number)
        cls = one.get("class", "")
        if cls and cls not in _NAMES:
            nearest = document.near(str(cls), _NAMES)
            self._bad(f"`class` cannot be {cls!r}", nearest, "policy", "rule", "class", nth=number)
            cls = ""  # for all classes then: this file can only make stricter now
        return None if act is None else Rule(tuple(form), act, cls, self._where("policy", "rule", "match", nth=number))

    def _hosts(self, table: dict[str, Any]) -> Hosts:
        given = self._table(table, "hosts", ("allow", "deny", "act"))
        hosts = Hosts(self._list(given, "hosts", "allow"), self._list(given, "hosts", "deny"))
        act = self._act(given["act"], "policy", "hosts", "act") if "act" in given else None
        return replace(hosts, act=act or hosts.act, where=self._where("policy", "hosts"))

    def _branches(self, table: dict[str, Any]) -> Branches:
        given = self._table(table, "branches", ("protected", "commits", "act"))
        branches = Branches(self._list(given, "branches", "protected"))
        act = self._act(given["act"], "policy", "branches", "act") if "act" in given else None
        commits = given.get("commits", False)
        if not isinstance(commits, bool):
            self._bad(f"`commits` cannot be {commits!r}", "true or false", "policy", "branches", "commits")
            commits = True
        return replace(branches, commits=commits, act=act or branches.act, where=self._where("policy", "branches"))

    def _table(self, table: dict[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any]:
        given = table.get(name, {})
        if not isinstance(given, dict):
            self._bad(f"`{name}` must be a section", f"write [policy.{name}] on a line of its own", "policy", name)
            return {}
        for key in given:
            if key not in known:
                self._problems.append(self._document.unknown("key", key, known, "policy", name))
        return given

    def _list(self, given: dict[str, Any], section: str, key: str) -> tuple[str, ...]:
        value = given.get(key, [])
        if isinstance(value, list):
            texts = tuple(one for one in value if isinstance(one, str) and one)
            if len(texts) == len(value):
                return texts
        self._bad(f"`{key}` must be a list of texts", f'such as {key} = ["a", "b*"]', "policy", section, key)
        return tuple(one for one in value if isinstance(one, str) and one) if isinstance(value, list) else ()

    def _value(self, table: dict[str, Any], key: str, kind: type, nearest: str) -> Any:
        value = table.get(key)
        if value is not None and not isinstance(value, kind):
            self._bad(f"`{key}` cannot be {value!r}", nearest, "policy", key)
            return None
        return value

    def _act(self, value: Any, *path: str, nth: int = 0) -> Act | None:
        if isinstance(value, str) and value in _ACTS:
            return Act(value)
        nearest = document.near(value, _ACTS) if isinstance(value, str) else f"one of {', '.join(_ACTS)}"
        self._bad(f"`{path[-1]}` cannot be {value!r}", nearest, *path, nth=nth)
        return None

    def _where(self, *path: str, nth: int = 0) -> str:
        return f"{self._document.path.name}, line {self._document.line(*path, nth=nth)}"

    def _bad(self, problem: str, nearest: str, *path: str, nth: int = 0) -> None:
        self._problems.append(self._document.bad(self._document.line(*path, nth=nth), problem, nearest))
