"""What flows between commands: pipes, redirections, heredocs, and what is substituted for `$(..)`.

Does not cover: statements (`statements`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from takeback.guard import places
from takeback.guard.parse import text_of
from takeback.guard.walk import Stdin, Walk
from takeback.guard.words import PRINTED, UNKNOWN, VALUES, Expander

if TYPE_CHECKING:
    from tree_sitter import Node

_PRINT_NOTHING_PRIVATE = frozenset(
    "date uuidgen git seq echo printf basename dirname nproc uname mktemp pwd which command type true expr".split()
)


def pipeline(walk: Walk, node: Node) -> None:
    _pipe(walk, [child for child in node.children if child.is_named], walk.stdin)


def _pipe(walk: Walk, commands: list[Node], stdin: Stdin | None) -> None:
    outer, outer_stdin = walk.scope, walk.stdin
    for child in commands:
        walk.scope, walk.stdin = outer.copy(), stdin
        mark = len(walk.part.parts)
        walk.visit(child)
        stdin = _output(walk, child, mark)
    walk.scope, walk.stdin = outer, outer_stdin


def _output(walk: Walk, node: Node, mark: int) -> Stdin:
    """Return what the command just read writes, where that is plain to see."""
    if node.type == "command" and len(walk.part.parts) > mark:
        expander = Expander(walk.scope.variables, walk.context.home, lambda inner: UNKNOWN)
        words = [
            word
            for child in node.named_children
            if child.type in ("command_name", *VALUES)
            for word in expander.words(child)
        ]
        return Stdin(_said(words), tuple(words))
    if node.type == "redirected_statement" and walk.heredoc is not None:
        return Stdin(walk.heredoc)
    return Stdin()


def redirected(walk: Walk, node: Node) -> None:
    outer = walk.stdin
    walk.heredoc = None
    expander = walk.expander()
    following: list[Node] = []
    body: Node | None = None
    for number, child in enumerate(node.children):
        kind = child.type
        if kind == "file_redirect":
            redirect(walk, child, expander)
        elif kind == "herestring_redirect":
            herestring(walk, child, expander)
        elif kind == "heredoc_redirect":
            following.extend(_heredoc(walk, child, expander))
        elif node.field_name_for_child(number) == "body":
            body = child
    text = walk.stdin.text if walk.stdin is not None and walk.stdin is not outer else None
    mark = len(walk.part.parts)
    if body is not None:
        walk.visit(body)
    said = None
    if body is not None and body.type == "command" and walk.part.parts[mark:]:
        said = text if (body.text or b"").split() == [b"cat"] else None
    _note_written(
        walk, node, said if said is not None else _output(walk, body, mark).text if body is not None else None
    )
    walk.stdin = outer
    for child in following:
        if child.type == "pipeline":
            _pipe(walk, [one for one in child.children if one.is_named], Stdin(said))
        else:
            walk.visit(child)
    walk.heredoc = said


def _note_written(walk: Walk, node: Node, text: str | None) -> None:
    """Keep the text of a file that this script writes, since it may run it next; forget what is no longer so."""
    inside = [one for child in node.children if child.type == "heredoc_redirect" for one in child.children]
    for child in (*node.children, *inside):
        if child.type != "file_redirect":
            continue
        target, operator = "", ""
        for part in child.children:
            if part.is_named and part.type != "file_descriptor":
                target = walk.expander().text(part)
            elif not part.is_named:
                operator = part.type
        whole = places.absolute(target, walk.scope.cwd) if target and UNKNOWN not in target else None
        if whole is None or operator not in (">", ">>", ">|"):
            continue
        if text is not None and operator != ">>":
            walk.written[whole] = text
        elif text is not None and whole in walk.written:
            walk.written[whole] += "\n" + text
        else:
            walk.written.pop(whole, None)


def _heredoc(walk: Walk, node: Node, expander: Expander) -> list[Node]:
    """Take the text of a heredoc as stdin; returns the statements the grammar has put inside it."""
    quoted, text, rest = False, "", []
    for child in node.children:
        kind = child.type
        if kind == "heredoc_start":
            quoted = any(mark in (child.text or b"") for mark in (b"'", b'"', b"\\"))
        elif kind == "heredoc_body":
            text = text_of(child)
            if not quoted:
                _body(walk, child, text, expander)
        elif kind == "file_redirect":
            redirect(walk, child, expander)
        elif child.is_named and kind not in ("heredoc_end", "file_descriptor"):
            if kind in VALUES:
                expander.words(child)
            else:
                rest.append(child)
    walk.stdin = Stdin(text)
    return rest


def _body(walk: Walk, node: Node, text: str, expander: Expander) -> None:
    for child in node.named_children:
        if child.type in VALUES and child.type != "word":
            expander.words(child)
    # The grammar does not show backticks here.
    for inner in _backticks(text):
        walk.shell(inner, "`..`")


def herestring(walk: Walk, node: Node, expander: Expander) -> None:
    for child in node.named_children:
        if child.type in VALUES:
            walk.stdin = Stdin(expander.text(child))


def redirect(walk: Walk, node: Node, expander: Expander) -> None:
    operator, target = "", ""
    for child in node.children:
        if child.is_named and child.type != "file_descriptor":
            target = " ".join(expander.words(child))
        elif not child.is_named:
            operator = child.type
    if operator in ("<", "<&", "<&-", ">&-"):
        if target.startswith(("/dev/tcp/", "/dev/udp/")):
            walk.write(target)
        elif operator == "<" and walk.stdin is None:
            walk.stdin = Stdin(made_by=("cat", target))
        return
    if operator == ">&" and target.rstrip("-").isdigit():
        return
    if target:
        walk.write(target)


def substitution(walk: Walk, node: Node) -> str:
    """Read `$(..)`, backticks or `<(..)`; returns what it prints where that is plain to see, else UNKNOWN."""
    outer, stdin = walk.scope, walk.stdin
    walk.scope = outer.copy()
    children = node.named_children
    try:
        raw = text_of(node)
        if raw.startswith("`"):
            how = "`..`"
            if "\\" in raw:
                # Backticks in backticks are escaped, and the grammar takes them for text.
                walk.shell(raw[1:-1].replace("\\`", "`").replace("\\\\", "\\").replace("\\$", "$"), how)
                return UNKNOWN
        else:
            how = "$(..)" if raw.startswith("$(") else raw[:2] + "..)"
        with walk.inside(how):
            for child in children:
                walk.visit(child)
            if len(children) == 1 and children[0].type == "command":
                said = _output(walk, children[0], -1)
                return _printed(walk, said)
    finally:
        walk.scope, walk.stdin = outer, stdin
    return PRINTED


def _printed(walk: Walk, said: Stdin) -> str:
    if said.text is not None:
        return said.text.rstrip("\n")
    if said.made_by[:1] == ("pwd",):
        return walk.scope.cwd or UNKNOWN
    if said.made_by[:1] == ("mktemp",):
        return "/tmp/made-by-mktemp"
    walk.printed_by = said.made_by[0] if said.made_by else ""
    if said.made_by[:3] == ("git", "rev-parse", "--show-toplevel") and places.at(walk.scope.cwd, walk.context):
        return walk.context.root
    return UNKNOWN if walk.printed_by in _PRINT_NOTHING_PRIVATE else PRINTED


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
