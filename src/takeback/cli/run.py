"""`takeback run`: do one step that can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face, printable
from takeback.cli.values import format_span
from takeback.cli.values import timeout as as_timeout
from takeback.errors import NotAPerson

if TYPE_CHECKING:
    from takeback.app.guarding import Judged
    from takeback.model import StepResult

_STDOUT, _STDERR = 1, 2


@click.command(
    "run",
    cls=options.Command,
    short_help="Run a command as one step that can be taken back.",
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("takeback run -- npm install left-pad", "several words: run as they are, without a shell"),
        ("takeback run --verify 'make test' 'rm -rf build && make'", "one word: shell source; taken back if it fails"),
        ("takeback run --timeout 10m -m 'the migration' -- ./migrate.sh", "ended after ten minutes, exit code 124"),
    ],
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
@click.option("--session", metavar="NAME", help="The session the step belongs to.")
@click.option("--task", metavar="ID", help="The task the step belongs to.")
@click.option("-m", "--message", default="", metavar="TEXT", help="What the step does; else the command itself.")
@click.option("--timeout", callback=as_timeout, metavar="T", help="End the step after this time: 30s, 10m.")
@click.option("--verify", multiple=True, metavar="CMD", help="A check after the step (shell source); may be repeated.")
@click.option("--no-rollback", is_flag=True, help="Leave a step that failed, or failed a check, as it is.")
@click.option("--no-state", is_flag=True, help="Do not save what git ignores.")
@options.speaking
def command(
    face: Face,
    words: tuple[str, ...],
    session: str | None,
    task: str | None,
    message: str,
    timeout: float | None,
    verify: tuple[str, ...],
    no_rollback: bool,
    no_state: bool,
) -> int:
    """Run CMD as one step, saved before as far as it reaches; a step that fails is taken back.

    A command that only reads is recorded without a checkpoint; what no checkpoint covers waits for a person
    (`takeback explain` shows how a command is read). The exit code is the command's own; 128+n when signal n ended
    it, 1 when only a check failed, 124 when --timeout ended it, 125 when it was refused, 126 when it is held. With
    --json the command's stdout goes to stderr, so that stdout holds the JSON only.
    """
    with options.opened(face) as project:
        result = project.guarded(
            words,
            shell_source=words[0] if len(words) == 1 else None,
            session=session,
            task=task,
            message=message,
            verify=verify,
            timeout=timeout,
            state=False if no_state else None,
            rollback=not no_rollback,
            ask=_ask if face.at_terminal and _is_person() else None,
            stdout_fd=_STDERR if face.json else _STDOUT,
        )
    face.answer(documents.step(result))
    if not face.json:
        _say(face, result)
    return result.exit


def _say(face: Face, result: StepResult) -> None:
    """Say how it went on stderr: stdout belongs to the command that ran."""
    for id in result.escapes:
        face.note(f"An earlier step changed more than was expected of it: `takeback show {id}`")
    if result.hold:
        face.note(f"{result.id}: ran once, when {result.hold} was approved, exit code {result.exit}; nothing ran now")
        return
    if not result.id:
        face.note("takeback is paused: the step was not recorded")
        return
    ending = "out of time" if result.timed_out else f"exit code {result.exit}"
    for check in result.checks:
        if check.exit:
            ending = f"the check {printable(check.cmd)!r} failed (exit code {check.exit})"
    changed = f"{draw.number(result.changed, 'path')} changed" if result.checkpoint else "only reads, no checkpoint"
    beyond = "; covers the project only" if result.covers == "project" else ""
    face.note(f"{result.id}: {ending}, {changed} ({format_span(result.ms / 1000)}{beyond})")
    if result.rolled_back:
        face.note(f"Taken back. See what it did: takeback show {result.id}; have it again: {result.undo_with}")
        if result.not_rolled_back:
            face.note(f"Not all of it: {printable(result.not_rolled_back)}")
    elif result.not_rolled_back:
        face.note(f"It could not be taken back: {printable(result.not_rolled_back)}")
        face.note(f"When that is mended: {result.undo_with}")
    elif result.undo_with and result.checkpoint:
        face.note(f"Take this back with: {result.undo_with}")


def _is_person() -> bool:
    from takeback.app.person import require_no_agent

    try:
        require_no_agent()
    except NotAPerson:
        return False
    return True


def _ask(judged: Judged) -> bool:
    click.echo(f"No checkpoint covers this: {printable(judged.decision.why)}.", err=True)
    return click.confirm("Run it?", err=True)
