"""`takeback run`: do one step that can be taken back."""

from __future__ import annotations

import click

from takeback.cli import draw, jsonable, options
from takeback.cli.output import Face
from takeback.cli.values import format_span
from takeback.cli.values import timeout as as_timeout

_STDOUT, _STDERR = 1, 2


@click.command(
    "run",
    cls=options.Command,
    short_help="Run a command as one step that can be taken back.",
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("takeback run -- npm install left-pad", "several words: run as they are, without a shell"),
        ("takeback run 'rm -rf build && make'", "one word: shell source"),
        ("takeback run --timeout 10m -m 'the migration' -- ./migrate.sh", "ended after ten minutes, exit code 124"),
    ],
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
@click.option("--session", metavar="NAME", help="The session the step belongs to.")
@click.option("--task", metavar="ID", help="The task the step belongs to.")
@click.option("-m", "--message", default="", metavar="TEXT", help="What the step does; else the command itself.")
@click.option("--timeout", callback=as_timeout, metavar="T", help="End the step after this time: 30s, 10m.")
@click.option("--no-state", is_flag=True, help="Do not save what git ignores.")
@options.speaking
def command(
    face: Face,
    words: tuple[str, ...],
    session: str | None,
    task: str | None,
    message: str,
    timeout: float | None,
    no_state: bool,
) -> int:
    """Run CMD with a checkpoint before and after it, and record it as one step.

    The exit code is the command's own; 128+n when signal n ended it, 124 when --timeout did. With --json the command's
    stdout goes to stderr, so that stdout holds the JSON only.
    """
    with options.opened(face) as project:
        result = project.run(
            words,
            shell_source=words[0] if len(words) == 1 else None,
            session=session,
            task=task,
            message=message,
            timeout=timeout,
            state=not no_state,
            stdout_fd=_STDERR if face.json else _STDOUT,
        )
    face.answer(jsonable.document(**{name: getattr(result, name) for name in _FIELDS}))
    ending = "out of time" if result.timed_out else f"exit code {result.exit}"
    changed = f"{draw.number(result.changed, 'path')} changed"
    # stdout belongs to the command that ran.
    if not face.json:
        face.note(f"{result.id}: {ending}, {changed} ({format_span(result.ms / 1000)})")
        if result.undo_with:
            face.note(f"Take this back with: {result.undo_with}")
    return result.exit


_FIELDS = ("id", "before", "after", "exit", "timed_out", "changed", "ms", "undo_with")
