"""Reads statements in the order they run: commands, lists, branches, loops, subshells, functions.

    cd /etc && X=hosts; (cd /; rm $X)          the folder and the constants go on behind `;` and `&&`,
    ------------------  -------------          and what a subshell changes ends with it
Does not cover: what flows between commands (`streams`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from takeback.guard import broken, command, streams
from takeback.guard.model import Class, Effect, Part, What
from takeback.guard.parse import text_of
from takeback.guard.variables import environment
from takeback.guard.walk import DEEPEST, MOST_COMMANDS, Grammar, Visitor, Walk
from takeback.guard.words import UNKNOWN, VALUES

if TYPE_CHECKING:
    from tree_sitter import Node


def _command(walk: Walk, node: Node) -> None:
    walk.count += 1
    if walk.count > MOST_COMMANDS or walk.depth > DEEPEST:
        walk.add(Effect(Class.OUTSIDE, What.CODE, "too much to be read"))
        return
    assigned: list[tuple[str, str]] = []
    words: list[str] = []
    expander = walk.expander()
    end = -1
    for child in node.children:
        kind = child.type
        if kind == "variable_assignment":
            assigned.append(_assignment(walk, child))
        elif kind == "herestring_redirect":
            streams.herestring(walk, child, expander)
        elif kind == "file_redirect":
            streams.redirect(walk, child, expander)
        elif kind == "subshell":
            _subshell(walk, child)
        elif kind in ("(", ")", "comment"):
            continue
        else:
            made = expander.words(child)
            # A backslash at the end of a line joins what the grammar gives as two words.
            if made and words and end >= 0 and child.start_byte == end + 2 and _joined(node, end):
                words[-1] += made.pop(0)
            words.extend(made)
        end = child.end_byte
    text = text_of(node)
    command.simple(walk, words, assigned, text)


def _assignment(walk: Walk, node: Node) -> tuple[str, str]:
    name = text_of(node.children[0]).partition("[")[0]
    value = node.children[-1]
    if len(node.children) < 3:
        return name, ""
    if value.type == "array":
        for child in value.named_children:
            walk.expander().words(child)
        return name, UNKNOWN
    text = walk.expander().text(value)
    if node.children[1].type == "+=":
        text = walk.scope.variables.get(name, UNKNOWN) + text
    return name, text if node.children[0].type == "variable_name" else UNKNOWN


def _assign(walk: Walk, node: Node) -> None:
    name, value = _assignment(walk, node)
    walk.part.parts.append(Part(text_of(node)))
    walk.scope.variables[name] = value
    with walk.at(walk.part.parts[-1]):
        environment(walk, name, value)


def _declare(walk: Walk, node: Node) -> None:
    for child in node.named_children:
        if child.type == "variable_assignment":
            _assign(walk, child)
        else:
            walk.expander().words(child)


def _unset(walk: Walk, node: Node) -> None:
    for child in node.named_children:
        name = text_of(child)
        walk.scope.variables.pop(name, None)
        environment(walk, name, "")


def _list(walk: Walk, node: Node) -> None:
    before = walk.scope.copy()
    _chain(walk, node)
    walk.merge(before, follow=True)


def _chain(walk: Walk, node: Node) -> None:
    """`a && b || c`: what follows `&&` sees what came before; what follows `||` may not have run."""
    alternative = False
    for child in node.children:
        if child.type == "||":
            alternative = True
        elif child.is_named:
            before = walk.scope.copy()
            if child.type == "list":
                _chain(walk, child)
            else:
                walk.visit(child)
            if alternative:
                walk.merge(before)


def _branch(walk: Walk, node: Node) -> None:
    before = walk.scope.copy()
    for child in node.named_children:
        walk.visit(child)
    walk.merge(before)


def _for(walk: Walk, node: Node) -> None:
    before = walk.scope.copy()
    name, values, body = "", [], None
    expander = walk.expander()
    for number, child in enumerate(node.children):
        role = node.field_name_for_child(number)
        if role == "variable":
            name = text_of(child)
        elif role == "value":
            values.extend(expander.words(child))
        elif role == "body" or child.type == "do_group":
            body = child
        elif child.is_named:
            walk.visit(child)
    if body is not None:
        for value in values if 0 < len(values) <= 4 else [UNKNOWN]:
            walk.scope.variables[name] = value
            walk.visit(body)
    walk.merge(before)
    if name:
        walk.scope.variables[name] = UNKNOWN


def _case(walk: Walk, node: Node) -> None:
    for child in node.named_children:
        if child.type == "case_item":
            before = walk.scope.copy()
            for inner in child.named_children:
                if inner.type in VALUES:
                    walk.expander().words(inner)
                else:
                    walk.visit(inner)
            walk.merge(before)
        else:
            walk.expander().words(child)


def _subshell(walk: Walk, node: Node) -> None:
    outer = walk.scope
    walk.scope = outer.copy()
    try:
        for child in node.named_children:
            walk.visit(child)
    finally:
        walk.scope = outer


def _function(walk: Walk, node: Node) -> None:
    name = node.child_by_field_name("name")
    body = node.child_by_field_name("body")
    if name is not None and body is not None:
        walk.scope.functions[text_of(name)] = body


def _test(walk: Walk, node: Node) -> None:
    """Read `[ .. ]` and `(( .. ))`: only what is substituted in them does something."""
    for child in node.named_children:
        if child.type in VALUES:
            walk.expander().words(child)
        else:
            _test(walk, child)


def _joined(node: Node, end: int) -> bool:
    text = node.text or b""
    at = end - node.start_byte
    return text[at : at + 2] == b"\\\n"


_STATEMENTS: Mapping[str, Visitor] = {
    "command": _command,
    "variable_assignment": _assign,
    "declaration_command": _declare,
    "unset_command": _unset,
    "list": _list,
    **dict.fromkeys(
        ("if_statement", "elif_clause", "else_clause", "while_statement", "c_style_for_statement"), _branch
    ),
    "for_statement": _for,
    "case_statement": _case,
    "subshell": _subshell,
    "function_definition": _function,
    **dict.fromkeys(("test_command", "binary_expression", "unary_expression"), _test),
    "pipeline": streams.pipeline,
    "redirected_statement": streams.redirected,
    "comment": lambda walk, node: None,
    **dict.fromkeys(VALUES, lambda walk, node: (walk.expander().words(node), None)[1]),
}

GRAMMAR = Grammar(_STATEMENTS, streams.substitution, broken.read)
