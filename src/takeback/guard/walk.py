"""Walks the tree of a script in the order it runs: lists, pipelines, branches, functions, folders, constants.

    cd /etc && X=hosts; (cd /; rm $X)          the folder and the constants go on behind `;` and `&&`,
    ------------------  -------------          and what a subshell changes ends with it
Does not cover: what a single command does (`command`), or text that has no tree (`broken`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from takeback.guard import places
from takeback.guard.context import Context
from takeback.guard.model import Class, Deed, Effect, Part, Reason, What
from takeback.guard.parse import LONGEST, encode, has_coprocess, parse
from takeback.guard.words import PRINTED, UNKNOWN, Expander

if TYPE_CHECKING:
    from tree_sitter import Node

    from takeback.guard.rules import Library

DEEPEST = 40  # scripts in scripts
MOST_COMMANDS = 5_000

# Programs that print shell for `eval`, to set up a session.
_PRINT_SETTINGS = frozenset(
    "ssh-agent keychain direnv pyenv rbenv nodenv jenv goenv fnm nvm volta mise asdf rtx brew starship zoxide conda mamba micromamba"
    " dircolors lesspipe opam register-python-argcomplete minikube docker-machine luarocks atuin thefuck fzf pixi".split()
)
_PRINT_NOTHING_PRIVATE = frozenset(
    "date uuidgen git seq echo printf basename dirname nproc uname mktemp pwd which command type true expr".split()
)
_VALUES = ("word", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion", "number",
           "command_substitution", "process_substitution", "arithmetic_expansion", "brace_expression",
           "translated_string", "extglob_pattern", "regex")  # fmt: skip


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


class Walk:
    """One reading of a script, and of all that runs inside it."""

    def __init__(self, context: Context, library: Library) -> None:
        self.context = context
        self.library = library
        self.scope = Scope(context.start, {"HOME": context.home, "PWD": context.start, "TMPDIR": "/tmp"})
        self.part = Part("")
        self.stdin: Stdin | None = None
        self.depth = 0
        self.elevated = False  # as another user, so packages go to the machine
        self._count = 0
        self._active: list[str] = []  # functions being followed
        self._called: set[str] = set()
        self._printed_by = ""

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
        if self._printed_by in _PRINT_SETTINGS:
            self.class_of(Deed.OPAQUE, f"runs what {self._printed_by} prints")
        else:
            self.class_of(Deed.OUTSIDE, "runs a command that cannot be seen")

    def _source(self, source: str) -> None:
        raw = encode(source)
        root = parse(raw)
        if root is None:
            from takeback.guard.broken import read

            read(self, source)
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
        visitor = _VISITORS.get(node.type)
        if visitor is not None:
            visitor(self, node)
            return
        for child in node.named_children:
            self.visit(child)

    def _command(self, node: Node) -> None:
        from takeback.guard import command

        self._count += 1
        if self._count > MOST_COMMANDS or self.depth > DEEPEST:
            self.add(Effect(Class.OUTSIDE, What.CODE, "too much to be read"))
            return
        assigned: list[tuple[str, str]] = []
        words: list[str] = []
        expander = self.expander()
        end = -1
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                assigned.append(self._assignment(child))
            elif kind == "herestring_redirect":
                self._herestring(child, expander)
            elif kind == "file_redirect":
                self._redirect(child, expander)
            elif kind == "subshell":
                self._subshell(child)
            elif kind in ("(", ")", "comment"):
                continue
            else:
                made = expander.words(child)
                # A backslash at the end of a line joins what the grammar gives as two words.
                if made and words and end >= 0 and child.start_byte == end + 2 and _joined(node, end):
                    words[-1] += made.pop(0)
                words.extend(made)
            end = child.end_byte
        text = (node.text or b"").decode("utf-8", "replace")
        command.simple(self, words, assigned, text)

    def expander(self) -> Expander:
        """Return what turns nodes into words here and now."""
        return Expander(self.scope.variables, self.context.home, self.substitution)

    def _assignment(self, node: Node) -> tuple[str, str]:
        name = (node.children[0].text or b"").decode("utf-8", "replace").partition("[")[0]
        value = node.children[-1]
        if len(node.children) < 3:
            return name, ""
        if value.type == "array":
            for child in value.named_children:
                self.expander().words(child)
            return name, UNKNOWN
        text = self.expander().text(value)
        if node.children[1].type == "+=":
            text = self.scope.variables.get(name, UNKNOWN) + text
        return name, text if node.children[0].type == "variable_name" else UNKNOWN

    def _assign(self, node: Node) -> None:
        from takeback.guard import command

        name, value = self._assignment(node)
        self.part.parts.append(Part((node.text or b"").decode("utf-8", "replace")))
        self.scope.variables[name] = value
        with self.at(self.part.parts[-1]):
            command.environment(self, name, value)

    @contextmanager
    def at(self, part: Part) -> Iterator[None]:
        """Make `part` the current one."""
        outer, self.part = self.part, part
        try:
            yield
        finally:
            self.part = outer

    def _declare(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child)
            else:
                self.expander().words(child)

    def _unset(self, node: Node) -> None:
        from takeback.guard import command

        for child in node.named_children:
            name = (child.text or b"").decode("utf-8", "replace")
            self.scope.variables.pop(name, None)
            command.environment(self, name, "")

    def _list(self, node: Node) -> None:
        before = self.scope.copy()
        self._chain(node)
        self._merge(before, follow=True)

    def _chain(self, node: Node) -> None:
        """`a && b || c`: what follows `&&` sees what came before; what follows `||` may not have run."""
        alternative = False
        for child in node.children:
            if child.type == "||":
                alternative = True
            elif child.is_named:
                before = self.scope.copy()
                if child.type == "list":
                    self._chain(child)
                else:
                    self.visit(child)
                if alternative:
                    self._merge(before)

    def _merge(self, before: Scope, *, follow: bool = False) -> None:
        """Put two ways together: a variable that differs is not known, a folder outside the project stays."""
        now = self.scope.variables
        for name in [name for name in now if name in before.variables and now[name] != before.variables[name]]:
            now[name] = UNKNOWN
        if not follow and before.cwd != self.scope.cwd:
            stays = places.at(before.cwd, self.context) and places.at(self.scope.cwd, self.context)
            if not stays and places.at(self.scope.cwd, self.context):
                self.scope.cwd = before.cwd

    def _branch(self, node: Node) -> None:
        before = self.scope.copy()
        for child in node.named_children:
            self.visit(child)
        self._merge(before)

    def _for(self, node: Node) -> None:
        before = self.scope.copy()
        name, values, body = "", [], None
        expander = self.expander()
        for number, child in enumerate(node.children):
            role = node.field_name_for_child(number)
            if role == "variable":
                name = (child.text or b"").decode("utf-8", "replace")
            elif role == "value":
                values.extend(expander.words(child))
            elif role == "body" or child.type == "do_group":
                body = child
            elif child.is_named:
                self.visit(child)
        if body is not None:
            for value in values if 0 < len(values) <= 4 else [UNKNOWN]:
                self.scope.variables[name] = value
                self.visit(body)
        self._merge(before)
        if name:
            self.scope.variables[name] = UNKNOWN

    def _case(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "case_item":
                before = self.scope.copy()
                for inner in child.named_children:
                    if inner.type in _VALUES:
                        self.expander().words(inner)
                    else:
                        self.visit(inner)
                self._merge(before)
            else:
                self.expander().words(child)

    def _subshell(self, node: Node) -> None:
        outer = self.scope
        self.scope = outer.copy()
        try:
            for child in node.named_children:
                self.visit(child)
        finally:
            self.scope = outer

    def _pipeline(self, node: Node) -> None:
        self._pipe([child for child in node.children if child.is_named], self.stdin)

    def _pipe(self, commands: list[Node], stdin: Stdin | None) -> None:
        outer, outer_stdin = self.scope, self.stdin
        for child in commands:
            self.scope, self.stdin = outer.copy(), stdin
            mark = len(self.part.parts)
            self.visit(child)
            stdin = self._output(child, mark)
        self.scope, self.stdin = outer, outer_stdin

    def _output(self, node: Node, mark: int) -> Stdin:
        """Return what the command just read writes, where that is plain to see."""
        if node.type == "command" and len(self.part.parts) > mark:
            expander = Expander(self.scope.variables, self.context.home, lambda inner: UNKNOWN)
            words = [word for child in node.named_children if child.type in ("command_name", *_VALUES)
                     for word in expander.words(child)]  # fmt: skip
            return Stdin(_said(words), tuple(words))
        if node.type == "redirected_statement" and self._heredoc_text is not None:
            return Stdin(self._heredoc_text)
        return Stdin()

    _heredoc_text: str | None = None

    def _redirected(self, node: Node) -> None:
        outer = self.stdin
        self._heredoc_text = None
        expander = self.expander()
        following: list[Node] = []
        body: Node | None = None
        for number, child in enumerate(node.children):
            kind = child.type
            if kind == "file_redirect":
                self._redirect(child, expander)
            elif kind == "herestring_redirect":
                self._herestring(child, expander)
            elif kind == "heredoc_redirect":
                following.extend(self._heredoc(child, expander))
            elif node.field_name_for_child(number) == "body":
                body = child
        text = self.stdin.text if self.stdin is not None and self.stdin is not outer else None
        mark = len(self.part.parts)
        if body is not None:
            self.visit(body)
        said = None
        if body is not None and body.type == "command" and self.part.parts[mark:]:
            said = text if (body.text or b"").split() == [b"cat"] else None
        self.stdin = outer
        for child in following:
            if child.type == "pipeline":
                self._pipe([one for one in child.children if one.is_named], Stdin(said))
            else:
                self.visit(child)
        self._heredoc_text = said

    def _heredoc(self, node: Node, expander: Expander) -> list[Node]:
        """Take the text of a heredoc as stdin; returns the statements the grammar has put inside it."""
        quoted, text, rest = False, "", []
        for child in node.children:
            kind = child.type
            if kind == "heredoc_start":
                quoted = any(mark in (child.text or b"") for mark in (b"'", b'"', b"\\"))
            elif kind == "heredoc_body":
                text = (child.text or b"").decode("utf-8", "surrogateescape")
                if not quoted:
                    self._body(child, text, expander)
            elif kind == "file_redirect":
                self._redirect(child, expander)
            elif child.is_named and kind not in ("heredoc_end", "file_descriptor"):
                if kind in _VALUES:
                    expander.words(child)
                else:
                    rest.append(child)
        self.stdin = Stdin(text)
        return rest

    def _body(self, node: Node, text: str, expander: Expander) -> None:
        for child in node.named_children:
            if child.type in _VALUES and child.type != "word":
                expander.words(child)
        # The grammar does not show backticks here.
        for inner in _backticks(text):
            self.shell(inner, "`..`")

    def _herestring(self, node: Node, expander: Expander) -> None:
        for child in node.named_children:
            if child.type in _VALUES:
                self.stdin = Stdin(expander.text(child))

    def _redirect(self, node: Node, expander: Expander) -> None:
        operator, target = "", ""
        for child in node.children:
            if child.is_named and child.type != "file_descriptor":
                target = " ".join(expander.words(child))
            elif not child.is_named:
                operator = child.type
        if operator in ("<", "<&", "<&-", ">&-"):
            if target.startswith(("/dev/tcp/", "/dev/udp/")):
                self.write(target)
            elif operator == "<" and self.stdin is None:
                self.stdin = Stdin(made_by=("cat", target))
            return
        if operator == ">&" and target.rstrip("-").isdigit():
            return
        if target:
            self.write(target)

    def write(self, path: str) -> None:
        """Note that `path` is written by a redirection."""
        for effect in places.touch(path, self.scope.cwd, self.context):
            self.add(effect)

    def substitution(self, node: Node) -> str:
        """Read `$(..)`, backticks or `<(..)`; returns what it prints where that is plain to see, else UNKNOWN."""
        outer, stdin = self.scope, self.stdin
        self.scope = outer.copy()
        children = node.named_children
        try:
            raw = (node.text or b"").decode("utf-8", "surrogateescape")
            if raw.startswith("`"):
                how = "`..`"
                if "\\" in raw:
                    # Backticks in backticks are escaped, and the grammar takes them for text.
                    self.shell(raw[1:-1].replace("\\`", "`").replace("\\\\", "\\").replace("\\$", "$"), how)
                    return UNKNOWN
            else:
                how = "$(..)" if raw.startswith("$(") else raw[:2] + "..)"
            with self.inside(how):
                for child in children:
                    self.visit(child)
                if len(children) == 1 and children[0].type == "command":
                    said = self._output(children[0], -1)
                    return self._printed(said)
        finally:
            self.scope, self.stdin = outer, stdin
        return PRINTED

    def _printed(self, said: Stdin) -> str:
        if said.text is not None:
            return said.text.rstrip("\n")
        if said.made_by[:1] == ("pwd",):
            return self.scope.cwd or UNKNOWN
        if said.made_by[:1] == ("mktemp",):
            return "/tmp/made-by-mktemp"
        self._printed_by = said.made_by[0] if said.made_by else ""
        if said.made_by[:3] == ("git", "rev-parse", "--show-toplevel") and places.at(self.scope.cwd, self.context):
            return self.context.root
        return UNKNOWN if self._printed_by in _PRINT_NOTHING_PRIVATE else PRINTED

    # -- functions ---------------------------------------------------------------------------------------------------

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is not None and body is not None:
            self.scope.functions[(name.text or b"").decode("utf-8", "replace")] = body

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

    def test(self, node: Node) -> None:
        """Read `[ .. ]` and `(( .. ))`: only what is substituted in them does something."""
        for child in node.named_children:
            if child.type in _VALUES:
                self.expander().words(child)
            else:
                self.test(child)

    def class_of(self, deed: Deed, why: str, what: What = What.CODE, target: str = "", method: str = "") -> None:
        """Note a deed of a class that does not depend on a path."""
        cls, reason = deed.value
        self.add(Effect(cls, what, why, target, method, reason))


def _joined(node: Node, end: int) -> bool:
    text = node.text or b""
    at = end - node.start_byte
    return text[at : at + 2] == b"\\\n"


def _said(words: list[str]) -> str | None:
    """Return what `echo` and `printf` of constants print."""
    if not words or any(UNKNOWN in word for word in words):
        return None
    if words[0] == "echo":
        rest = words[1:]
        while rest and rest[0] in ("-n", "-e", "-E", "-ne", "-en"):
            rest = rest[1:]
        text = " ".join(rest)
        return text if "\\" not in text and "*" not in text else None
    if words[0] == "printf" and len(words) > 1 and "%" not in words[1].replace("%s", "").replace("\\n", ""):
        form = words[1].replace("\\n", "\n")
        if "\\" in form:
            return None
        arguments = words[2:] or [""]
        if "%s" not in form:
            return form
        return "".join(form.replace("%s", argument) for argument in arguments)
    return None


def _backticks(text: str) -> Iterator[str]:
    position = 0
    while True:
        start = text.find("`", position)
        while start > 0 and text[start - 1] == "\\":
            start = text.find("`", start + 1)
        end = text.find("`", start + 1) if start >= 0 else -1
        if end < 0:
            return
        yield text[start + 1 : end]
        position = end + 1


_VISITORS: dict[str, Callable[[Walk, Node], None]] = {
    "command": Walk._command,
    "variable_assignment": Walk._assign,
    "declaration_command": Walk._declare,
    "unset_command": Walk._unset,
    "list": Walk._list,
    "if_statement": Walk._branch,
    "elif_clause": Walk._branch,
    "else_clause": Walk._branch,
    "while_statement": Walk._branch,
    "c_style_for_statement": Walk._branch,
    "for_statement": Walk._for,
    "case_statement": Walk._case,
    "subshell": Walk._subshell,
    "pipeline": Walk._pipeline,
    "redirected_statement": Walk._redirected,
    "function_definition": Walk._function,
    "test_command": Walk.test,
    "binary_expression": Walk.test,
    "unary_expression": Walk.test,
    "comment": lambda walk, node: None,
    **dict.fromkeys(_VALUES, lambda walk, node: (walk.expander().words(node), None)[1]),
}
