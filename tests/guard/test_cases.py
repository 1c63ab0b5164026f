"""Labelled commands of other projects: the numbers the classifier promises, and the rows it disputes in writing."""

from __future__ import annotations

import dataclasses

import pytest

from takeback.guard import Class, Context, classify
from tests.guard.conftest import LABELLED, Case, cls, labelled, own_cases

# Rows whose label is not what the command does, each with the reason. They are counted apart.
DISPUTED = {
    "bypass-054": "`data` is a link out of the project: that shows only when the file system is asked (tested below)",
    "ccsn-0018": "what `git reset` prints becomes the name of a file that is written: it cannot be known",
    "ccsn-0019": "as ccsn-0018",
    "ccsn-0027": "as ccsn-0018",
    "ccsn-0028": "as ccsn-0018",
    "ccsn-0029": "as ccsn-0018",
    "ccsn-0026": "arithmetic made of a backtick: the grammar reads an error, and an error is opaque",
    "ccsn-0055": "`command -v` and `-V` only print what a name is",
    "ccsn-0056": "as ccsn-0055",
    "ccsn-0057": "as ccsn-0055",
    "ccsn-0069": "`less` opens files named git and push; nothing is pushed",
    "ccsn-0158": "`git clean -f` deletes files; only its neighbour is a dry run",
    "ccsn-0204": "`git -- --help` is an error of git, not its help",
    "ccsn-0246": "7 is a file of the project, as 123 in ccsn-0247",
    "dcg-0008": "in double quotes the shell runs the backticks, and ruby runs what they print: an opaque payload",
}


needs_labels = pytest.mark.skipif(not LABELLED.is_dir(), reason="the labelled commands are not beside this repository")


@pytest.fixture(scope="module")
def answers() -> list[tuple[Case, Class]]:
    return [(case, classify(case.command).cls) for case in labelled()]


@needs_labels
def test_the_classes_of_labelled_commands_are_as_promised(answers: list[tuple[Case, Class]]) -> None:
    counted = [(case, got) for case, got in answers if case.id not in DISPUTED]
    exact = sum(str(got) == case.expected for case, got in counted)
    under = [case.command for case, got in counted if got < Class[case.expected.upper()]]
    none = [got for case, got in counted if case.expected == "none"]
    raised = sum(got is not Class.NONE for got in none)
    assert len(answers) > 1900
    assert exact / len(counted) >= 0.92
    assert len(under) / len(counted) <= 0.015, under
    assert raised / len(none) <= 0.06


@needs_labels
def test_few_rows_are_disputed_and_all_of_them_still_differ(answers: list[tuple[Case, Class]]) -> None:
    differ = {case.id for case, got in answers if str(got) != case.expected}
    assert len(DISPUTED) / len(answers) <= 0.03
    assert set(DISPUTED) <= differ


@pytest.mark.parametrize(
    "case", [case for case in labelled() if case.id.startswith("bypass")], ids=lambda case: case.id
)
def test_no_way_around_a_list_leads_around_the_classifier(case: Case) -> None:
    linked = dataclasses.replace(Context(), resolve=lambda path: path.replace("/work/project/data", "/var/lib/x"))
    assert cls(case.command, linked if case.id == "bypass-054" else None) == case.expected


def test_commands_of_real_work_have_their_class() -> None:
    cases = own_cases()
    wrong = [(case.command, case.expected, got) for case in cases if (got := cls(case.command)) != case.expected]
    assert len(cases) > 900
    assert wrong == []
