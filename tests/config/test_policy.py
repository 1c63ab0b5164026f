"""Reading `[policy]`: every key, and every mistake named with its line and the nearest right word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from takeback.config import document, load, policy
from takeback.errors import BadSetting
from takeback.guard.policy import Act, Rule

WHOLE = """\
[checkpoint]
keep = 3

[policy]
none = "allow"
state = "ask"
outside = "deny"  # for good
machine.system = "copy"
rollback_failed = true
on_error = "allow"
notify = "notify-send held"

[[policy.rule]]
match = "git push origin 'feature/*'"
act = "checkpoint"

[[policy.rule]]
match = "npm **"
class = "machine.system"
act = "hold"

[policy.hosts]
allow = ["*.staging.example.com"]
deny = ["*.prod.example.com"]
act = "ask"

[policy.branches]
protected = ["main", "release/*"]
commits = true
act = "deny"
"""


def said(tmp_path: Path, text: str | bytes) -> policy.Said:
    path = tmp_path / ".takeback.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return policy.read(path)


def problems(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    return [(str(one).partition(".toml, ")[2], one.hint_text) for one in said(tmp_path, text).problems]


def test_every_key_is_read_with_its_line(tmp_path: Path) -> None:
    found = said(tmp_path, WHOLE)
    level = found.level
    assert found.problems == () and level.trusted
    assert level.acts == {"none": "allow", "state": "ask", "outside": "deny", "machine.system": "copy"}
    assert level.rules == (
        Rule(("git", "push", "origin", "feature/*"), Act.CHECKPOINT, "", ".takeback.toml, line 14"),
        Rule(("npm", "**"), Act.HOLD, "machine.system", ".takeback.toml, line 18"),
    )
    assert (level.hosts.allow, level.hosts.deny, level.hosts.act) == (
        ("*.staging.example.com",),
        ("*.prod.example.com",),
        Act.ASK,
    )
    assert (level.branches.protected, level.branches.commits, level.branches.act) == (
        ("main", "release/*"),
        True,
        Act.DENY,
    )
    assert (found.rollback_failed, found.on_error, found.notify) == (True, Act.ALLOW, "notify-send held")
    assert [level.where(key) for key in ("outside", "machine.system")] == [
        ".takeback.toml, line 7",
        ".takeback.toml, line 8",
    ]
    assert level.hosts.where == ".takeback.toml, line 22"


def test_the_example_of_the_page_is_read_whole(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "policy.md"
    (example,) = re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    found = said(tmp_path, example)
    assert found.problems == ()
    assert [rule.text for rule in found.level.rules] == ["git push origin feature/*", "npm **"]


@pytest.mark.parametrize("text", ['machine = "ask"', 'machine = {opaque = "ask", system = "ask", destroys = "ask"}'])
def test_one_word_for_machine_is_one_for_its_reasons(tmp_path: Path, text: str) -> None:
    assert set(said(tmp_path, f"[policy]\n{text}\n").level.acts) == {
        "machine.opaque",
        "machine.system",
        "machine.destroys",
    }


def test_no_file_says_nothing(tmp_path: Path) -> None:
    found = policy.read(tmp_path / "none.toml")
    assert found.empty and found.digest == "" and found.problems == ()


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("\n[policy]\nfils = 'ask'", "line 3: unknown key `fils`", "did you mean `files`?"),
        ("[policy]\nfiles = 'aks'", "line 2: `files` cannot be 'aks'", "did you mean `ask`?"),
        ("[policy]\nfiles = 3", "line 2: `files` cannot be 3", "one of allow, checkpoint, copy, ask, hold, deny"),
        ("[policy]\nmachine.opak = 'ask'", "line 2: unknown key `opak`", "did you mean `opaque`?"),
        ("[policy.machine]\nsystem = 'x'", "line 2: `system` cannot be 'x'", "known are: "),
        ("[policy]\non_error = 'hold'", "line 2: `on_error` cannot be 'hold'", "deny or allow"),
        ("[policy]\nnotify = 3", "line 2: `notify` cannot be 3", "a command line, as text"),
        ("[policy]\nrollback_failed = 'yes'", "line 2: `rollback_failed` cannot be 'yes'", "true or false"),
        ("[policy]\nrule = 'x'", "line 2: `rule` must be a list of sections", "write [[policy.rule]] above each"),
        ("[policy.hosts]\nalow = []", "line 2: unknown key `alow`", "did you mean `allow`?"),
        ("[policy.hosts]\ndeny = 'x'", "line 2: `deny` must be a list of texts", 'such as deny = ["a", "b*"]'),
        ("[policy]\nhosts = 1", "line 2: `hosts` must be a section", "write [policy.hosts] on a line of its own"),
        ("[policy.branches]\nprotected = [1]", "line 2: `protected` must be a list of texts", "such as "),
        ("[policy.branches]\ncommits = 1", "line 2: `commits` cannot be 1", "true or false"),
        ("policy = 3", "line 1: `policy` must be a section", "write [policy] on a line of its own"),
        ("[polcy]\nfiles = 'ask'", "line 1: unknown section `polcy`", "did you mean `policy`?"),
        ("[[policy.rule]]\nmatch = 'a'\nact = 'ask'\n[[policy.rule]]\nmatch = 'b'\nakt = 'ask'\nact = 'ask'",
         "line 6: unknown key `akt`", "did you mean `act`?"),
        ("[[policy.rule]]\nact = 'ask'", "line 1: a rule without `match`", "a command such as "),
        ("[[policy.rule]]\nmatch = \"it's\"\nact = 'ask'", 'line 2: `match` cannot be "it\'s"', "a command such as "),
        ("[[policy.rule]]\nmatch = 'a'", "line 2: a rule without `act`", "one of allow, "),
        ("[[policy.rule]]\nmatch = 'a'\nact = 'ask'\nclass = 'fils'", "line 4: `class` cannot be 'fils'",
         "did you mean `files`?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_the_nearest_right_word(
    tmp_path: Path, text: str, problem: str, hint: str
) -> None:
    ((line, nearest),) = problems(tmp_path, text + "\n")
    assert line == problem
    assert nearest.startswith(hint)
    assert not said(tmp_path, text).level.trusted


def test_what_is_readable_beside_a_mistake_counts(tmp_path: Path) -> None:
    found = said(tmp_path, '[policy]\nfils = "deny"\noutside = "deny"\nfiles = "aks"\n')
    assert found.level.acts == {"outside": Act.DENY}
    assert len(found.problems) == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[policy]\noutside = "deny"\nfiles = = 3\nstate = "ask"\n', 3),
        ('[policy]\noutside = "deny"\n[policy.hosts\n[policy.branches]\nprotected = ["x"]\n', 3),
        ('[policy]\noutside = "deny"\nnotify = "never closed\n', 3),
        ('[policy]\noutside = "deny"\n[policy.hosts]\nallow = ["a",\n"b"\n', 5),
    ],
)
def test_of_a_file_that_is_no_toml_the_readable_lines_count(tmp_path: Path, text: str, line: int) -> None:
    found = said(tmp_path, text)
    assert found.level.acts["outside"] is Act.DENY
    assert not found.level.trusted
    assert "fils" not in str(found.problems[0])
    assert isinstance(found.problems[0], BadSetting)


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe", b"[" * 100_000, b"\0", b"a = 1\n" * 300_000, b"[policy]\n" + b"x = [" * 5_000]
)
def test_whatever_the_bytes_it_is_a_problem_and_no_crash(tmp_path: Path, raw: bytes) -> None:
    found = said(tmp_path, raw)
    assert found.problems and not found.level.trusted


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".takeback.toml").mkdir()
    found = policy.read(tmp_path / ".takeback.toml")
    assert [one.kind for one in found.problems] == ["cannot-read"]


def test_a_mistake_in_the_policy_keeps_nobody_from_the_settings_of_checkpoints(tmp_path: Path) -> None:
    (tmp_path / ".takeback.toml").write_text("[policy]\nfils = 3\n[checkpoint]\nkeep = 7\n")
    assert load({"HOME": str(tmp_path)}, bytes(tmp_path)).files.keep == 7
    (tmp_path / ".takeback.toml").write_text("[polcy]\n")
    with pytest.raises(BadSetting, match="unknown section `polcy`"):
        load({"HOME": str(tmp_path)}, bytes(tmp_path))


@pytest.mark.parametrize(
    "policy",
    ["[policy]\nfiles = = 3", "[[policy.rule]\nmatch = 'x'", "[policy]\nnotify = 'open", "[policy.hosts]\nallow = [1,"],
)
def test_policy_that_is_no_toml_keeps_nobody_from_the_other_settings(tmp_path: Path, policy: str) -> None:
    for text in (f"[checkpoint]\nkeep = 7\n{policy}\n", f"{policy}\n[checkpoint]\nkeep = 7\n"):
        (tmp_path / ".takeback.toml").write_text(text)
        assert load({"HOME": str(tmp_path)}, bytes(tmp_path)).files.keep == 7
        assert said(tmp_path, text).problems
    (tmp_path / ".takeback.toml").write_text(f"{policy}\n[checkpoint]\nkeep = = 7\n")
    with pytest.raises(BadSetting):
        load({"HOME": str(tmp_path)}, bytes(tmp_path))


def test_the_line_of_a_key_is_that_of_its_own_section(tmp_path: Path) -> None:
    text = "[a]\nx = 1\n[b]\nx = 2\n'c.d'.e = 3\nf = {g = 1}\n[[h]]\nx = 1\n[[h]]\nx = 2\n"
    found = document.parse(tmp_path / "x", text.encode())
    asked = [("a", "x"), ("b", "x"), ("b", "c", "d", "e"), ("b", "f", "g"), ("b",), ("none",)]
    assert [found.line(*keys) for keys in asked] == [2, 4, 5, 6, 3, "?"]
    assert [found.line("h", "x", nth=number) for number in (0, 1)] == [8, 10]
