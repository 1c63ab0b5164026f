"""`takeback explain`: how far a command reaches, and why."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, shown
from takeback.errors import UsageError

# Exit codes by class: none, files, state, machine, outside.
_CODES = (0, 10, 11, 12, 13)
_LONGEST = 4 << 20


@click.command(
    "explain",
    cls=options.Command,
    short_help="How far a command reaches, and how it could be taken back.",
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("takeback explain 'rm -rf build && git push'", "one word: shell source"),
        ("takeback explain -- git clean -fdx", "several words: a command as it is, without a shell"),
        ("takeback explain --tool-call - < call.json", "a tool call of an agent"),
    ],
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[CMD]...")
@click.option("--tool-call", metavar="FILE", help="Read a tool call of an agent as JSON from FILE (-: stdin).")
@options.speaking
def command(face: Face, words: tuple[str, ...], tool_call: str | None) -> int:
    """Say what CMD would do, without running it.

    The exit code is the class: 0 none (reads only), 10 files (what git sees), 11 state (also what git ignores),
    12 machine (anything else on this machine, or what cannot be seen), 13 outside (it leaves this machine).
    The same command is called `check`.
    """
    if bool(words) == (tool_call is not None):
        raise UsageError(detail="name a command, or a tool call with --tool-call")
    from takeback import guard, judge
    from takeback.guard import explain

    context, library = judge.context(face.project), judge.library()
    if tool_call is not None:
        verdict = guard.classify_tool(_call(tool_call), context, library)
    elif len(words) == 1:
        verdict = guard.classify(words[0], context, library)
    else:
        verdict = guard.classify_argv(words, context, library)
    face.answer(documents.redacted_document(**verdict.as_dict()))
    if not face.json:
        for line in explain.lines(verdict):
            face.data(shown(line))
    return _CODES[verdict.cls]


def _call(name: str) -> dict[str, Any]:
    try:
        if name == "-":
            text = sys.stdin.buffer.read(_LONGEST + 1)
        else:
            with open(name, "rb") as file:
                text = file.read(_LONGEST + 1)
    except OSError as error:
        raise UsageError(detail=f"cannot read {name}: {error.strerror}") from error
    if len(text) > _LONGEST:
        raise UsageError(detail=f"a tool call is longer than {_LONGEST} bytes")
    try:
        call = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(detail=f"the tool call is no JSON: {error}") from error
    if not isinstance(call, dict):
        raise UsageError(detail="the tool call is no JSON object")
    return call
