"""The rules: every line can be read, every example is true, and users' own count more."""

from __future__ import annotations

from collections import Counter

import pytest

from takeback.guard import classify
from takeback.guard.deeds import HANDLERS, handler
from takeback.guard.rules import Example, RuleError, builtin
from takeback.guard.rules import library as libraries
from takeback.guard.rules.notation import blocks


def examples() -> list[Example]:
    library = builtin()
    return [example for name in library if library[name].names[0] == name for example in library[name].examples]


def test_every_line_of_the_rules_can_be_read() -> None:
    builtin().check(builtin())
    assert len(builtin()) > 2000


def test_every_deed_that_rules_may_name_has_a_handler() -> None:
    assert HANDLERS == libraries.HANDLERS
    assert all(callable(handler(name)) for name in HANDLERS)


def test_no_program_has_two_entries() -> None:
    names = Counter(
        name
        for text, where in libraries.texts()
        for block in blocks(text, where, libraries.MACROS)
        for name in block.names
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_example_of_a_rule_is_true() -> None:
    wrong = []
    for example in examples():
        verdict = classify(example.command)
        if (str(verdict.cls) == example.cls) is not example.fits:
            wrong.append((example.where, example.command, str(verdict.cls), verdict.why))
    assert wrong == []


OWN = """
@ deploy-tool
none: status
outside: .
@ rm
opaque: .
"""


def test_own_rules_add_programs_and_count_more_than_those_that_come_with_takeback() -> None:
    library = libraries.with_own([(OWN, "mine")])
    assert str(classify("deploy-tool status", library=library).cls) == "none"
    assert str(classify("deploy-tool now", library=library).cls) == "outside"
    assert str(classify("rm x", library=library).cls) == "machine"
    assert str(classify("git status", library=library).cls) == "none"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("none: .", "mine, line 1: no entry begins before this line"),
        ("@ x\nnothing here", "mine, line 2: a rule is DEED: PATTERN"),
        ("@ x\nharmless: .", "mine, line 2: there is no deed 'harmless'"),
        ("@ x\nnone: a|-b", "mine, line 2: 'a|-b' mixes operands with options"),
        ("@ x\nnone: $unknown", "mine, line 2: there is no `let unknown` before this line"),
        ("@ x\nlike nobody", "mine, line 2: there is no entry 'nobody'"),
        ("@ x\nstop now", "mine, line 2: `stop` needs a number"),
        ("@ x\nvalue -a", "mine, line 1: the entry 'x' says nothing"),
    ],
)
def test_a_rule_that_cannot_be_read_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=said.replace("|", r"\|").replace("$", r"\$")):
        libraries.with_own([(text, "mine")])


def test_every_entry_has_an_example() -> None:
    library = builtin()
    assert [name for name in library if not library[name].examples] == []
