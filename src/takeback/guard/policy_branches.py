"""Which branches a git command rewrites, deletes or adds to, so that a policy can protect some.

    git switch main && git reset --hard HEAD~3       rewrites main, whatever was checked out before

The branch that is checked out is told; a `git checkout X` may have been about a file, so both count from then on.
Does not cover: refs that are changed without git, other systems of version control, or what a hook or a server does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from takeback.guard.model import Part
from takeback.guard.policy_match import may_be
from takeback.guard.policy_model import Branches
from takeback.guard.words import UNKNOWN

_ANY = UNKNOWN  # a branch that is not known
_ELSEWHERE = ("-C", "--git-dir", "--work-tree")
_VALUED = {
    "": ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"),
    "rebase": ("--onto", "-x", "--exec", "-s", "--strategy", "-X", "--strategy-option", "-C"),
    "push": ("-o", "--push-option", "--repo", "--receive-pack", "--exec"),
    "commit": ("-m", "-F", "-C", "-c", "-t", "--message", "--file", "--author", "--date", "--fixup", "--squash"),
    "fetch": ("-o", "--server-option", "--depth", "--deepen", "-j", "--jobs", "--upload-pack", "--refmap"),
    "update-ref": ("-m",),
}
_GO_ON = ("--abort", "--continue", "--skip", "--quit", "--edit-todo", "--show-current-patch")
_ADDS = ("commit", "merge", "cherry-pick", "revert", "am", "pull")
_REVISION = re.compile(r".*[~^@].*|[0-9a-f]{7,40}|(origin|upstream)/.+|refs/.+|(ORIG|FETCH)_HEAD")


@dataclass(frozen=True)
class Reach:
    """A branch that a command reaches: `rewrites` or only adds to it; `label` is the command."""

    branch: str
    rewrites: bool
    label: str


def protected(part: Part, branch: str | None, branches: Branches) -> str:
    """Return in plain words how a step reaches for a protected branch, "" when it does not."""
    if not branches.protected:
        return ""
    for one in reached(part, branch):
        if one.rewrites or branches.commits:
            for pattern in branches.protected:
                if may_be(pattern, one.branch):
                    verb = "rewrites or deletes" if one.rewrites else "adds to"
                    name = pattern if UNKNOWN in one.branch else one.branch
                    may = "may be one that " if UNKNOWN in one.branch else ""
                    return f"{one.label} {may}{verb} {name}, a protected branch"
    return ""


def reached(part: Part, branch: str | None) -> Iterator[Reach]:
    """Yield the branches that the commands of a step reach, in their order; `branch` is checked out at first."""
    at = frozenset({_ANY} if branch is None else {branch} if branch else ())
    for one in part.walk():
        words = list(one.words)
        while len(words) > 1 and words[0] != "git" and re.match(r"[A-Za-z_]\w*=", words[0]):
            del words[0]
        if words[:1] != ["git"]:
            continue
        call = _Call.read(words[1:])
        if call is not None:
            here = frozenset({_ANY}) if call.elsewhere else at
            yield from call.reaches(here)
            at = at if call.elsewhere else call.after(at)


@dataclass(frozen=True)
class _Call:
    name: str
    options: tuple[str, ...]
    operands: tuple[str, ...]
    values: dict[str, str]
    elsewhere: bool  # in another repository
    paths: bool  # there was a `--`

    @classmethod
    def read(cls, words: list[str]) -> _Call | None:
        """Read the words behind `git`; None when there is no sub-command."""
        elsewhere = False
        while words and words[0].startswith("-"):
            first = words.pop(0)
            elsewhere = elsewhere or first.partition("=")[0] in _ELSEWHERE
            if first in _VALUED[""] and words:
                words.pop(0)
        if not words:
            return None
        name, *rest = words
        options, operands, values = [], [], {}
        valued = _VALUED.get(name, ())
        paths = False
        while rest:
            word = rest.pop(0)
            if word == "--":
                paths = True
                if name not in ("push", "branch"):
                    break  # what follows are paths
            elif word.startswith("-") and word != "-":
                option, _, value = word.partition("=")
                options.append(option)
                if option in valued and "=" not in word and rest:
                    value = rest.pop(0)
                values[option] = value
            else:
                operands.append(word)
        return cls(name, tuple(options), tuple(operands), values, elsewhere, paths)

    def has(self, *options: str) -> bool:
        """Whether one of these options is given, a short one also in a row such as `-fu`."""
        for one in self.options:
            if one in options:
                return True
            if re.fullmatch(r"-[A-Za-z]{2,}", one) and any(len(o) == 2 and o[1] in one[1:] for o in options):
                return True
            if one.startswith("--") and len(one) > 4 and any(o.startswith(one) for o in options):
                return True  # git takes the beginning of an option for the whole
        return False

    def after(self, at: frozenset[str]) -> frozenset[str]:
        """Return what may be checked out when this is done."""
        if not self.operands or self.paths:
            return at
        named = frozenset({_ANY if self.operands[0].startswith(("-", "@")) else self.operands[0]})
        if self.name == "switch":
            return frozenset() if self.has("--detach", "-d") else named
        if self.name == "checkout" and self.has("-b", "-B", "--orphan"):
            return named
        return at | named if self.name == "checkout" and len(self.operands) == 1 else at

    def reaches(self, at: frozenset[str]) -> Iterator[Reach]:
        """Yield what this command reaches when one of `at` is checked out."""
        label = f"git {self.name}"
        for name in self._rewritten(at):
            yield Reach(_short(name), True, label)
        for name in self._added(at):
            yield Reach(_short(name), False, label)

    def _rewritten(self, at: frozenset[str]) -> Iterator[str]:
        operands, has = self.operands, self.has
        if self.name == "reset" and self._moves():
            yield from at
        elif self.name == "rebase" and not has(*_GO_ON):
            second = operands[0:1] if has("--root") else operands[1:2]
            yield from second or at
        elif self.name == "commit" and has("--amend"):
            yield from at
        elif self.name in ("filter-branch", "filter-repo", "replace") and (self.name != "replace" or operands):
            yield _ANY
        elif self.name in ("checkout", "switch") and has("-B", "-C", "--force-create"):
            yield from operands[:1]
        elif self.name == "branch":
            yield from self._branch(at)
        elif self.name == "update-ref":
            yield from [_ANY] if has("--stdin") else at if operands[:1] == ("HEAD",) else operands[:1]
        elif self.name == "fetch" and len(operands) > 1:
            forced = has("-f", "--force")
            yield from (dst for plus, _, dst in map(_refspec, operands[1:]) if dst and (plus or forced))
        elif self.name == "push":
            yield from self._pushed(at, forced=True)

    def _added(self, at: frozenset[str]) -> Iterator[str]:
        if self.name in _ADDS and not self.has("--abort", "--quit", "--dry-run"):
            yield from at
        elif self.name == "fetch" and len(self.operands) > 1:
            yield from (dst for _, _, dst in map(_refspec, self.operands[1:]) if dst)
        elif self.name == "push":
            yield from self._pushed(at, forced=False)

    def _moves(self) -> bool:
        """Whether a reset moves the branch, and does not only unstage files or throw edits away."""
        if self.has("--hard", "--soft", "--mixed", "--keep", "--merge"):
            return self.operands not in ((), ("HEAD",))
        if self.paths or len(self.operands) != 1:
            return False
        return UNKNOWN in self.operands[0] or _REVISION.fullmatch(self.operands[0]) is not None

    def _branch(self, at: frozenset[str]) -> Iterator[str]:
        operands = self.operands
        if self.has("-d", "-D", "--delete"):
            yield from operands
        elif self.has("-m", "-M", "--move"):
            yield from operands if len(operands) > 1 else (*at, *operands)
        elif self.has("-f", "--force", "-C") and operands:
            yield operands[1] if self.has("-C") and len(operands) > 1 else operands[0]

    def _pushed(self, at: frozenset[str], *, forced: bool) -> Iterator[str]:
        if self.has("-n", "--dry-run"):
            return
        force = self.has("-f", "--force", "--force-with-lease", "--force-if-includes")
        if self.has("--mirror", "--prune") or (self.has("--all", "--branches") and (force or not forced)):
            yield _ANY
        specs = self.operands if "--repo" in self.options else self.operands[1:]
        if not specs and (force or not forced):
            yield from at
        for spec in specs:
            if UNKNOWN in spec:
                yield _ANY
                continue
            plus, src, dst = _refspec(spec)
            deletes = self.has("-d", "--delete") or (":" in spec and not src)
            if forced and not (force or plus or deletes):
                continue
            name = dst or src
            yield from at if name == "HEAD" else [name]


def _refspec(text: str) -> tuple[bool, str, str]:
    """Return whether it forces, its source and its destination ("" when that is the same)."""
    plus = text.startswith("+")
    src, _, dst = text.removeprefix("+").partition(":")
    return plus, src, dst


def _short(name: str) -> str:
    return name.removeprefix("refs/").removeprefix("heads/")
