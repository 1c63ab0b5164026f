"""Whatever the text, there is a verdict; and nothing harmless put around a command makes it lighter."""

from __future__ import annotations

import shlex
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.guard import Class, classify, classify_argv, classify_tool
from tests.guard.conftest import own_cases

COMMANDS = [case.command for case in own_cases()]
# One command each, without operators, quotes or anything a shell would expand.
SIMPLE = [text for text in COMMANDS if not set(text) & set(";&|<>()$`\"'\\*?[]{}~!#\n") and "=" not in text.split()[0]]
HARMLESS = [
    "true",
    "echo hi",
    "ls -la",
    "cd .",
    "UNUSED_HERE=1",
    "git status",
    "# a comment\ntrue",
    "test -f x",
    "export UNUSED_TOO=2",
]

commands = st.sampled_from(COMMANDS)
simple = st.sampled_from(SIMPLE)

WRAPPED = [
    "sudo {}",
    "nohup {}",
    "timeout 5 {}",
    "nice -n 5 {}",
    "env A=b {}",
    "time {}",
    "command {}",
    "stdbuf -oL {}",
    "A=b {}",
    "! {}",
    "({})",
    "{{ {}; }}",
    "if true; then {}; fi",
    "f() {{ {}; }}; f",
    "{} &",
    "echo $({})",
    'echo "`{}`"',
    "coproc {{ {}; }}",
    "time {{ {}; }}",
    "while true; do {}; done",
    "case x in x) {};; esac",
    "[ -f x ] && {}",
    "cat <({})",
    "trap '{}' EXIT",
    "eval '{}'",
    "bash -c '{}'",
    "bash <<'EOF'\n{}\nEOF",
    "sh <<< '{}'",
    "cat <<EOF\n$({})\nEOF",
    "for i in 1 2 3 4 5 6; do {}; done",
    "X=$({})",
    "{} 2>&1",
    "{} > /dev/null",
]


def weight(source: str) -> Class:
    return classify(source).cls


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_text_has_a_verdict(text: str) -> None:
    assert classify(text).cls in Class
    assert classify_argv(text.split(" ")).cls in Class


pieces = st.sampled_from(
    [
        *"|&;<>(){}$`'\"\\\n \t*?[]!#=~",
        "<<EOF\n",
        "EOF\n",
        "$(",
        "${",
        "$((",
        "))",
        "<(",
        "<<<",
        "if ",
        "then ",
        "fi ",
        "for x in ",
        "do ",
        "done ",
        "case ",
        "esac ",
        "time ",
        "coproc ",
        "git push",
        "rm -rf ",
        "eval ",
        "sh -c ",
        "x=1 ",
        "f() ",
        "\0",
        "\ud800",
        "\ue000",
        "é",
        "xargs ",
        "find . -exec ",
    ]
)


@given(st.lists(pieces, max_size=40))
@settings(max_examples=166, deadline=None)
def test_any_row_of_pieces_of_shell_has_a_verdict(row: list[str]) -> None:
    assert classify("".join(row)).cls in Class


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    ["Bash", "Edit", "Write", "apply_patch", "exec", "mcp__x__y", "WebFetch", "shell", "Read"]
) | st.text(max_size=12)
keys = st.sampled_from(
    ["command", "cmd", "file_path", "path", "input", "edits", "url", "workdir", "code", "prompt"]
) | st.text(max_size=8)


@given(names, st.dictionaries(keys, values, max_size=4) | values)
@settings(max_examples=100, deadline=None)
def test_any_tool_call_has_a_verdict(name: str, given_input: object) -> None:
    assert classify_tool({"tool_name": name, "tool_input": given_input}).cls in Class


@given(st.sampled_from(HARMLESS), st.sampled_from([" && ", "; ", "\n", " & "]), commands)
@settings(max_examples=100, deadline=None)
def test_a_harmless_command_before_it_makes_no_command_lighter(before: str, operator: str, command: str) -> None:
    assert weight(before + operator + command) >= weight(command)


@given(commands, st.sampled_from([" && ", "\n", " || "]), st.sampled_from(HARMLESS))
@settings(max_examples=66, deadline=None)
def test_a_harmless_command_after_it_makes_no_command_lighter(command: str, operator: str, after: str) -> None:
    assert weight(command + operator + after) >= weight(command)


@given(commands, commands)
@settings(max_examples=100, deadline=None)
def test_two_commands_are_as_heavy_as_the_heavier_one(one: str, other: str) -> None:
    assert weight(f"({one}\n)\n({other}\n)") >= max(weight(one), weight(other))


@given(st.sampled_from(WRAPPED), simple)
@settings(max_examples=200, deadline=None)
def test_a_wrapper_makes_no_command_lighter(wrapper: str, command: str) -> None:
    assert weight(wrapper.format(command)) >= weight(command)


def quoted(word: str, how: int) -> str:
    if how == 0:
        return f"'{word}'"
    if how == 1:
        return f'"{word}"'
    if how == 2:
        return "".join("\\" + char if char in string.ascii_letters else char for char in word)
    if how == 3:
        return "$'" + "".join(f"\\x{ord(char):02x}" if ord(char) < 128 else char for char in word) + "'"
    return f"{word[:1]}''{word[1:]}" if how == 4 else word


@given(simple, st.lists(st.integers(0, 5), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_quotes_change_no_class(command: str, hows: list[int]) -> None:
    words = [quoted(word, hows[number % len(hows)]) for number, word in enumerate(command.split())]
    assert weight(" ".join(words)) == weight(command)


@given(simple)
@settings(max_examples=66, deadline=None)
def test_without_a_shell_the_class_is_the_same(command: str) -> None:
    assert classify_argv(shlex.split(command)).cls == weight(command)


def test_what_is_too_much_to_read_is_outside() -> None:
    for text in (
        "rm x; " * 200_000,
        "$(" * 5000 + "ls" + ")" * 5000,
        "sudo " * 3000 + "ls",
        "(" * 3000 + "ls" + ")" * 3000,
    ):
        assert weight(text) is Class.OUTSIDE


def test_a_megabyte_and_nul_bytes_are_no_way_through() -> None:
    assert weight("\0" * 1_000_000) is Class.OUTSIDE
    assert weight("echo \0 x; git pu\0sh") is Class.OUTSIDE
    assert weight("echo x\0") is Class.MACHINE
    assert weight("echo " + "a" * 1_000_000) is Class.OUTSIDE
