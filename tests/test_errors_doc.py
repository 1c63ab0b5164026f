"""docs/reference/errors.md tells exactly what `errors.py` declares.

`pytest tests/cli tests/test_errors_doc.py --update-golden` writes the table anew.
"""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

from takeback import errors
from takeback.errors import TakebackError, all_errors

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "reference" / "errors.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"

# Groups exist to be caught; nobody raises them.
FAMILIES = {
    "InvalidRequestError": (400, 413, 422), "PermissionDeniedError": (403,), "NotFoundError": (404,),
    "ConflictError": (409,), "ServiceUnavailableError": tuple(range(500, 600)),
}  # fmt: skip
GROUPS = {"error", "usage", "refused", "unable", *(getattr(errors, name).kind for name in FAMILIES)}


def raised() -> list[type[TakebackError]]:
    return [cls for cls in all_errors() if cls.kind not in GROUPS]


def cell(text: str) -> str:
    return text.replace("|", "\\|") or "—"


def table() -> str:
    """Return the table as Markdown, in the order of the tree in `errors.py`."""
    lines = ["| kind | class | exit | HTTP | message | hint |", "|---|---|---|---|---|---|"]
    for cls in raised():
        row = (f"`{cls.kind}`", f"`{cls.__name__}`", str(cls.exit_code), str(cls.http_status), cls.message, cls.hint)
        lines.append("| " + " | ".join(cell(text) for text in row) + " |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_table_of_every_error(request: pytest.FixtureRequest) -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    shown, after = rest.split(END)
    if request.config.getoption("--update-golden", default=False):
        PAGE.write_text(before + BEGIN + table() + END + after, encoding="utf-8")
        shown = table()
    assert shown == table(), "pytest tests/cli tests/test_errors_doc.py --update-golden"


def test_a_kind_names_one_error() -> None:
    kinds = [cls.kind for cls in all_errors()]
    assert len(kinds) == len(set(kinds))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", kind) for kind in kinds)


@pytest.mark.parametrize("cls", raised(), ids=lambda cls: cls.kind)
def test_an_error_says_itself_and_the_next_step(cls: type[TakebackError]) -> None:
    fields = {name: Filler() for template in (cls.message, cls.hint) for name in fields_of(template)}
    error = cls(**fields)
    assert str(error)
    assert error.hint_text, "an error without a next step"
    assert "{" not in str(error) + error.hint_text


@pytest.mark.parametrize("cls", all_errors(), ids=lambda cls: cls.kind)
def test_exit_codes_and_statuses_are_those_of_the_page(cls: type[TakebackError]) -> None:
    assert cls.exit_code in (1, 2) or cls.kind in ("step-denied", "step-held", "step-under-way")
    assert 400 <= cls.http_status < 600
    assert (cls.exit_code == 2) == (400 <= cls.http_status < 500 and "usage" in {base.kind for base in parents(cls)})


@pytest.mark.parametrize("cls", raised(), ids=lambda cls: cls.kind)
def test_programs_of_the_hosted_client_catch_an_error_by_its_status(cls: type[TakebackError]) -> None:
    caught = {name for name in FAMILIES if issubclass(cls, getattr(errors, name))}
    wanted = {name for name, statuses in FAMILIES.items() if cls.http_status in statuses}
    # What a command ended with, and no answer at all, are neither there.
    assert caught == (set() if issubclass(cls, (errors.CommandError, errors.KeeperGone)) else wanted)


def test_an_error_that_was_raised_has_its_texts_as_the_hosted_client_has_them() -> None:
    error = errors.SandboxNotFound(id="x")
    assert error.message == str(error) == "there is no sandbox 'x'" and error.hint == error.hint_text != ""
    assert (error.code, error.status, error.details) == ("not_found", 404, {"id": "x"})
    assert (error.retryable, error.request_id, error.retry_after_ms) == (False, None, None)
    assert errors.KeeperGone(what="exec").retryable


def test_errors_are_declared_in_one_module_only() -> None:
    known = {cls.__name__ for cls in all_errors()}
    elsewhere = [
        f"{path.name}: {node.name}"
        for path in (TOP / "src" / "takeback").rglob("*.py")
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).split(".")[-1] in known for base in node.bases)
    ]
    assert elsewhere == []


def fields_of(template: str) -> list[str]:
    return [re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(template) if name]


class Filler(float):
    """Fits every format a message uses: as text, with !r, as a number, as a percentage."""

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else "filled"


def parents(cls: type[TakebackError]) -> list[type[TakebackError]]:
    return [base for base in cls.__mro__ if issubclass(base, TakebackError)]
