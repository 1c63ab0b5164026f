"""What is imported, and so how long it takes, before a command line is answered. No time is measured here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

import takeback.cli.main
from takeback._version import VERSION
from tests.support.cli import Home

OURS = {"takeback", "takeback.__main__", "takeback._version"}


def modules_after(*argv: str) -> set[str]:
    """Return the modules that a bare interpreter has imported after answering `takeback ARGV`."""
    source = (
        "import sys; before = set(sys.modules)\n"
        f"sys.argv = ['takeback', *{argv!r}]\n"
        "from takeback.__main__ import main\n"
        "main()\n"
        "loaded = sorted(set(sys.modules) - before)\n"
        "import json; print(); print(json.dumps(loaded))\n"
    )
    # -S, with the path given: the path files of other packages import modules of their own.
    path = os.pathsep.join(one for one in sys.path if one)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-S", "-c", source], env=env, capture_output=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_version_is_answered_before_anything_heavy_is_imported() -> None:
    loaded = modules_after("--version")
    assert {name for name in loaded if name.startswith("takeback")} == OURS
    assert not loaded & {"click", "rich", "platformdirs", "tomlkit", "sqlite3", "subprocess", "importlib.metadata"}


@pytest.mark.parametrize("argv", [("--help",), ("undo", "--help"), ("log", "--help")])
def test_help_is_answered_without_the_product_behind_it(argv: tuple[str, ...]) -> None:
    loaded = modules_after(*argv)
    assert "click" in loaded
    assert not loaded & {"takeback.app", "takeback.config", "rich", "sqlite3", "tomlkit", "platformdirs"}


def test_a_command_imports_no_other_command() -> None:
    loaded = modules_after("undo", "--help")
    commands = {f"takeback.cli.{name}" for name in takeback.cli.main.COMMANDS}
    assert loaded & commands == {"takeback.cli.undo"}


def test_the_version_is_that_of_the_installed_package(home: Home) -> None:
    assert home.tb(home.path, "--version", as_json=False).out.decode() == f"takeback {VERSION}\n"
    assert metadata.version("takeback") == VERSION


def test_the_version_is_answered_among_other_options_too(home: Home) -> None:
    assert home.tb(home.path, "-q", "--version", as_json=False).out.decode() == f"takeback {VERSION}\n"


@pytest.mark.parametrize("name", ["takeback", "tb"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_made_for_the_name_that_was_typed(home: Home, name: str, shell: str) -> None:
    source = f"import sys; sys.argv[0] = '/usr/bin/{name}'; from takeback.__main__ import main; sys.exit(main())"
    env = home.env({f"_{name.upper()}_COMPLETE": f"{shell}_source"})
    done = subprocess.run([sys.executable, "-c", source], env=env, capture_output=True, check=True)
    assert f"_{name.upper()}_COMPLETE={shell}_complete".encode() in done.stdout


def test_commands_complete(home: Home) -> None:
    env = {"_TAKEBACK_COMPLETE": "bash_complete", "COMP_WORDS": "takeback re", "COMP_CWORD": "1"}
    source = "import sys; sys.argv[0] = 'takeback'; from takeback.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", source], env=home.env(env), capture_output=True, check=True)
    assert done.stdout.decode().split() == ["plain,redo", "plain,restore", "plain,revert", "plain,resume"]
