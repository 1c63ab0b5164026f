"""What should be seen about an attempt although its checks pass: tests weakened, instructions edited, nothing done.

Judged from two git trees, never from an agent's words.
Does not cover: writes outside the worktree (`outside`), or whether the checks pass (`attempt`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from takeback.host.usergit import UserGit
from takeback.tasks.formatting import only_formatting
from takeback.tasks.model import Flag
from takeback.tasks.settings import TaskSettings

_LINK, _GITLINK = "120000", "160000"
# What begins one test, and what switches one off, in the languages people test in.
_TEST = re.compile(
    rb"^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*|^[ \t]*(?:it|test|specify)(?:\.each\b[^\n]*?)?[ \t]*[(\[`]"
    rb"|^[ \t]*(?:it|specify|test)[ \t]+['\"]|#\[(?:\w+::)?test\b|^func[ \t]+Test\w*|@(?:Test|ParameterizedTest)\b"
    rb"|\[(?:Fact|Theory|Test|TestMethod|TestCase)\b|^[ \t]*(?:public[ \t]+)?function[ \t]+test\w*|^@test\b"
    rb"|^[ \t]*func[ \t]+test\w*|\bTEST(?:_F|_P)?[ \t]*\(",
    re.MULTILINE,
)
_OFF = re.compile(
    rb"@(?:pytest\.mark|unittest)\.skip\w*|@(?:pytest\.mark\.xfail|unittest\.expectedFailure)|pytest\.skip\("
    rb"|\b(?:it|test|describe)\.(?:skip|todo)\b|^[ \t]*(?:xit|xtest|xdescribe)[ \t]*\(|\bt\.Skip(?:Now|f)?\("
    rb"|@(?:Ignore|Disabled)\b|#\[ignore\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Changed:
    """One path that differs between two trees; modes and object names, empty where it is not there."""

    path: str
    status: str  # A, D, M or T
    old_mode: str
    new_mode: str
    old: str
    new: str


def changed(git: UserGit, before: str, after: str) -> list[Changed]:
    """Return what differs between two trees, renames as a deletion and an addition."""
    if before == after:
        return []
    out = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--no-abbrev", before, after)
    parts = out.split(b"\0")
    found = []
    for head, path in zip(parts[0::2], parts[1::2], strict=False):
        old_mode, new_mode, old, new, status = head.decode().lstrip(":").split(" ")
        empty = set("0")
        found.append(
            Changed(
                path.decode("utf-8", "surrogateescape"), status[:1], "" if set(old_mode) == empty else old_mode,
                "" if set(new_mode) == empty else new_mode, "" if set(old) == empty else old,
                "" if set(new) == empty else new,
            )
        )  # fmt: skip
    return found


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path fits one of the patterns: one without a slash is of names, `**/` stands for any folders."""
    name = path.rpartition("/")[2]
    for pattern in patterns:
        if "/" not in pattern:
            if fnmatchcase(name, pattern):
                return True
        elif any(fnmatchcase(path, one) for one in (pattern, f"*/{pattern}", pattern.removeprefix("**/"))):
            return True
    return False


def judge(git: UserGit, before: str, after: str, settings: TaskSettings) -> list[Flag]:
    """Return the flags of a change from one tree to another, without regard to what is allowed."""
    changes = changed(git, before, after)
    if not changes:
        return [Flag("no-edits", detail="the tree is as it was before the task")]
    tests = [one for one in changes if matches(one.path, settings.tests)]
    found = []
    if edited := [one.path for one in tests if one.status in "MT"]:
        found.append(Flag("edited-tests", tuple(edited)))
    if deleted := [one.path for one in tests if one.status == "D"]:
        found.append(Flag("deleted-tests", tuple(deleted)))
    if tests:
        contents = _contents(git, [oid for one in tests for oid in (one.old, one.new) if oid])
        was = sum(_count(contents.get(one.old, b"")) for one in tests)
        now = sum(_count(contents.get(one.new, b"")) for one in tests)
        if now < was:
            fewer = [
                one.path for one in tests if _count(contents.get(one.new, b"")) < _count(contents.get(one.old, b""))
            ]
            found.append(Flag("fewer-tests", tuple(fewer), f"{was} tests before, {now} now, in the files that changed"))
    if told := [one.path for one in changes if matches(one.path, settings.instructions)]:
        found.append(Flag("edited-instructions", tuple(told)))
    if nested := [one.path for one in changes if one.new_mode == _GITLINK and one.status in "AT"]:
        found.append(Flag("nested-repository", tuple(nested), "a commit would name it without what is in it"))
    if _formatting(git, changes):
        found.append(Flag("only-formatting", tuple(one.path for one in changes)))
    return found


def weigh(flags: Sequence[Flag], allowed: Collection[str]) -> list[Flag]:
    """Return the flags, those that are allowed as remarks that fail nothing."""
    return [replace(flag, fails=False) if flag.name in allowed else flag for flag in flags]


def _formatting(git: UserGit, changes: Sequence[Changed]) -> bool:
    if any(one.status != "M" or one.old_mode != one.new_mode or one.new_mode in (_LINK, _GITLINK) for one in changes):
        return False
    if len(changes) > 500:
        return False
    contents = _contents(git, [oid for one in changes for oid in (one.old, one.new)])
    return all(only_formatting(one.path, contents.get(one.old, b""), contents.get(one.new, b"x")) for one in changes)


def _contents(git: UserGit, oids: Sequence[str]) -> dict[str, bytes]:
    """Return the bytes of blobs, as git keeps them; what is no blob is left out."""
    names = list(dict.fromkeys(oids))
    if not names:
        return {}
    out = git.run("cat-file", "--batch", feed="\n".join(names).encode() + b"\n")
    found: dict[str, bytes] = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        words = out[at:end].decode().split(" ")
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            if words[1] == "blob":
                found[words[0]] = out[at : at + size]
            at += size + 1
    return found


def _count(content: bytes) -> int:
    return max(0, len(_TEST.findall(content)) - len(_OFF.findall(content)))
