"""What `import takeback` gives is written down; a change of it is a change of a file here.

`pytest tests/cli tests/test_public_api.py --update-golden` writes the list anew.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import takeback
from takeback._version import VERSION
from tests.cli.golden_file import Golden

GOLDEN = Path(__file__).parent / "golden"


def listing() -> str:
    """Return one line per public name, and below a class one per public method."""
    lines = []
    for name in takeback.__all__:
        thing = getattr(takeback, name)
        if not inspect.isclass(thing):
            lines.append(name)
            continue
        lines.append(f"class {name}")
        members: dict[str, object] = {}
        for kind in reversed(thing.__mro__):  # what a class inherits from one of ours is its own
            members |= vars(kind) if kind.__module__.split(".")[0] == "takeback" else {}
        for member, function in sorted(members.items()):
            if member.startswith("_"):
                continue
            plain = function.__func__ if isinstance(function, (classmethod, staticmethod)) else function
            if inspect.isfunction(plain):
                lines.append(f"    {member}{parameters(plain)}")
            elif isinstance(function, property):
                lines.append(f"    {member}")
    return "\n".join(lines) + "\n"


def parameters(function: object) -> str:
    """Return the parameters' names, kinds and defaults; how a type is spelled may change."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(bare))


def test_the_public_names_and_methods_are_those_written_down(request: pytest.FixtureRequest) -> None:
    Golden.of(request.config, GOLDEN).check("public_api.txt", listing())


def test_the_list_of_public_names_is_sorted_and_each_is_there() -> None:
    assert list(takeback.__all__) == sorted(set(takeback.__all__))
    assert all(hasattr(takeback, name) for name in takeback.__all__)


def test_nothing_else_is_public() -> None:
    others = {
        name
        for name in dir(takeback)
        if not name.startswith("_")
        and name not in takeback.__all__
        and not isinstance(getattr(takeback, name), ModuleType)
    }
    assert others <= {"annotations", "TYPE_CHECKING", "Any"}


def test_the_version_is_public() -> None:
    assert takeback.__version__ == VERSION


def test_every_public_function_and_class_says_what_it_is() -> None:
    silent = [
        name
        for name in takeback.__all__
        if callable(getattr(takeback, name)) and not inspect.getdoc(getattr(takeback, name))
    ]
    assert silent == []


def test_types_are_shipped() -> None:
    assert (Path(takeback.__file__).parent / "py.typed").exists()


def test_importing_the_package_loads_nothing_until_a_name_is_used() -> None:
    source = (
        "import sys, takeback, json; print(json.dumps([name for name in sys.modules if name.startswith('takeback')]))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    assert set(json.loads(done.stdout)) <= {"takeback", "takeback._version"}
