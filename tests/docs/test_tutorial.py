"""The tutorial: every command in it is run, and says what the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.docs.tutorial import Shell, commands, matches
from tests.support.cli import Home

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


def test_every_command_of_the_tutorial_says_what_the_page_shows(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "tutorial"
    place.mkdir()
    shell = Shell(home, place, tmp_path / "programs")
    walk = list(commands(PAGE.read_text("utf-8")))
    assert len(walk) > 30
    for command, shown in walk:
        said = shell.run(command)
        assert matches(shown, said), (
            f"$ {command}\nthe page shows:\n{chr(10).join(shown)}\nit said:\n{chr(10).join(said)}"
        )


def test_the_comparison_sees_a_difference_and_only_that() -> None:
    assert matches(["Saved before as c2."], ["Saved before as c2."])
    assert not matches(["Saved before as c2."], ["Saved before as c3."])
    assert not matches(["one"], ["one", "two"])
    assert not matches([], ["one"])
    assert matches(["one", "...", "four"], ["one", "two", "three", "four"])
    assert matches(["Undo s1 (just now): rm", "s1  2.1 s ago"], ["Undo s1 (1.3 s ago): rm", "s1 just now"])
    assert matches(["project   ..."], ["project   /some/where"])
