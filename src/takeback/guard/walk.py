"""The state of one reading: folder, constants, functions, and the parts that have been read.

Does not cover: what kinds of statements mean (`statements`, `streams`) or what a command does (`command`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from takeback.guard import places
from takeback.guard.context import Context
from takeback.guard.model import Class, Deed, Effect, Part, Reason, What
from takeback.guard.parse import LONGEST, encode, has_coprocess, parse
from takeback.guard.words import UNKNOWN, Expander

if TYPE_CHECKING:
    from tree_sitter import Node

    from takeback.guard.rules import Library

DEEPEST = 40  # scripts in scripts
MOST_COMMANDS = 5_000

# Programs that print shell for `eval`, to set up a session.
_PRINT_SETTINGS = frozenset(
    "ssh-agent keychain direnv pyenv rbenv nodenv jenv goenv fnm nvm volta mise asdf rtx brew starship zoxide "
    "conda mamba micromamba"
    " dircolors lesspipe opam register-python-argcomplete minikube docker-machine luarocks atuin thefuck fzf "
    "pixi".split()
)


@dataclass(frozen=True, slots=True)
class Stdin:
    """What a command reads: text that is known, or the words of the command that makes it."""

    text: str | None = None
    made_by: tuple[str, ...] = ()


@dataclass(slots=True)
class Scope:
    """What a subshell has of its own."""

    cwd: str | None
    variables: dict[str, str]
    functions: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Scope:
        """Return what a subshell begins with."""
        return Scope(self.cwd, dict(self.variables), dict(self.functions), dict(self.aliases))


Visitor = Callable[["Walk", "Node"], None]


class Grammar(NamedTuple):
    """How the kinds of nodes are read."""

    statements: Mapping[str, Visitor]
    substitution: Callable[[Walk, Node], str]
    broken: Callable[[Walk, str], None]


class Walk:
    """One reading of a script, and of all that runs inside it."""

    def __init__(self, context: Context, library: Library, grammar: Grammar) -> None:
        self._grammar = grammar
        self.context = context
        self.library = library
        self.scope = Scope(
            context.start, {"HOME": context.home, "PWD": context.start, "TMPDIR": "/tmp", "IFS": " \t\n"}
        )
        self.part = Part("")
        self.stdin: Stdin | None = None
        self.depth = 0
        self.prefixed: dict[str, str] = {}  # variables set for the command being read
        self.elevated = False  # as another user, so packages go to the machine
        self.written: dict[str, str] = {}  # the text of files that this script has written, by absolute path
        self.printed_by = ""  # the program whose output was last put into a word
        self.heredoc: str | None = None  # what the statement just read passes on of its heredoc
        self.count = 0
        self._active: list[str] = []  # functions being followed
        self._called: set[str] = set()

    # -- scripts -----------------------------------------------------------------------------------------------------

    def shell(self, source: str, how: str = "") -> None:
        """Read shell source and add what it does to the current part."""
        if len(source) > LONGEST:
            self.add(Effect(Class.OUTSIDE, What.CODE, f"{len(source)} characters of shell, too long to be read"))
            return
        with self.inside(how):
            if source.lstrip().startswith(UNKNOWN):
                self._unseen(source)
            elif UNKNOWN in source and how:
                self.class_of(Deed.OPAQUE, "runs shell that is put together at run time")
            self._source(source)

    def _unseen(self, source: str) -> None:
        if self.printed_by in _PRINT_SETTINGS:
            self.class_of(Deed.OPAQUE, f"runs what {self.printed_by} prints")
        else:
            self.class_of(Deed.OUTSIDE, "runs a command that cannot be seen")

    def _source(self, source: str) -> None:
        raw = encode(source)
        root = parse(raw)
        if root is None:
            self._grammar.broken(self, source)
            return
        if has_coprocess(raw):
            self.add(Effect(Class.MACHINE, What.CODE, "starts a coprocess", reason=Reason.OPAQUE))
        before = set(self.scope.functions)
        self.visit(root)
        # A function nobody called here may still be called by name that is made at run time.
        for name in [one for one in self.scope.functions if one not in before and one not in self._called]:
            self.call(name, [])

    @contextmanager
    def inside(self, how: str) -> Iterator[Part]:
        """Go one level down, with `how` it is reached; too deep is opaque."""
        if not how:
            yield self.part
            return
        outer, part = self.part, Part("", how)
        outer.parts.append(part)
        self.part, self.depth = part, self.depth + 1
        try:
            yield part
        finally:
            self.part, self.depth = outer, self.depth - 1

    def add(self, effect: Effect) -> None:
        """Note an effect of the current part."""
        self.part.effects.append(effect)

    # -- the tree ----------------------------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """Read one statement."""
        visitor = self._grammar.statements.get(node.type)
        if visitor is not None:
            visitor(self, node)
            return
        for child in node.named_children:
            self.visit(child)

    def expander(self) -> Expander:
        """Return what turns nodes into words here and now."""
        return Expander(self.scope.variables, self.context.home, lambda node: self._grammar.substitution(self, node))

    @contextmanager
    def at(self, part: Part) -> Iterator[None]:
        """Make `part` the current one."""
        outer, self.part = self.part, part
        try:
            yield
        finally:
            self.part = outer

    def merge(self, before: Scope, *, follow: bool = False) -> None:
        """Put two ways together: a variable that differs is not known, a folder outside the project stays."""
        now = self.scope.variables
        for name in [name for name in now if name in before.variables and now[name] != before.variables[name]]:
            now[name] = UNKNOWN
        if not follow and before.cwd != self.scope.cwd:
            stays = places.at(before.cwd, self.context) and places.at(self.scope.cwd, self.context)
            if not stays and places.at(self.scope.cwd, self.context):
                self.scope.cwd = before.cwd

    def write(self, path: str) -> None:
        """Note that `path` is written by a redirection."""
        for effect in places.touch(path, self.scope.cwd, self.context):
            self.add(effect)

    # -- functions ---------------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: list[str]) -> bool:
        """Follow a function of this script; False when there is none of this name (or it calls itself)."""
        body = self.scope.functions.get(name)
        if body is None:
            return False
        if name in self._active:
            self.class_of(Deed.OPAQUE, f"{name} calls itself")
            return True
        self._called.add(name)
        self._active.append(name)
        outer = dict(self.scope.variables)
        self.scope.variables.update({str(number): word for number, word in enumerate(arguments, 1)})
        self.scope.variables.update({"@": " ".join(arguments), "*": " ".join(arguments)} if arguments else {})
        try:
            with self.inside(f"{name}()"):
                self.visit(body)
        finally:
            self._active.pop()
            for key in [key for key in self.scope.variables if key.isdigit() or key in "@*"]:
                del self.scope.variables[key]
            self.scope.variables.update({key: value for key, value in outer.items() if key.isdigit() or key in "@*"})
        return True

    def change_folder(self, target: str | None) -> None:
        """Follow `cd`; None is a folder that cannot be known."""
        before = self.scope.cwd
        if target is None or UNKNOWN in target:
            self.scope.cwd = None
        elif target == "-":
            old = self.scope.variables.get("OLDPWD", UNKNOWN)
            self.scope.cwd = None if UNKNOWN in old else old
        elif target.startswith("/"):
            self.scope.cwd = posixpath.normpath(target)
        elif before is not None:
            self.scope.cwd = posixpath.normpath(posixpath.join(before, target))
        self.scope.variables["OLDPWD"] = before if before is not None else UNKNOWN
        self.scope.variables["PWD"] = self.scope.cwd if self.scope.cwd is not None else UNKNOWN

    def class_of(self, deed: Deed, why: str, what: What = What.CODE, target: str = "", method: str = "") -> None:
        """Note a deed of a class that does not depend on a path."""
        cls, reason = deed.value
        self.add(Effect(cls, what, why, target, method, reason))
