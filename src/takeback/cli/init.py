"""`takeback init`: put takeback into the agents people use, and take the first checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face, printable
from takeback.errors import HomeDirectory, NoProject

AGENTS = ("claude", "codex", "gemini", "opencode")

agent_option = click.option(
    "--agent", type=click.Choice([*AGENTS, "all"]), help="Only this agent; else those found on this machine."
)


@click.command(
    "init",
    cls=options.Command,
    short_help="Put undo into Claude Code, Codex, Gemini CLI, OpenCode.",
    examples=[
        ("takeback init", "for this project, in every agent found on this machine"),
        ("takeback init --agent claude --user", "in Claude Code, for all of my projects"),
        ("takeback uninstall --keep-checkpoints", "take it out again"),
    ],
)
@agent_option
@click.option("--user", is_flag=True, help="In my own settings, for all my projects; else in this project's.")
@options.speaking
def command(face: Face, agent: str | None, user: bool) -> int:
    """Put hooks into the settings of agents, so that every step of theirs can be taken back.

    Comments, order and layout of the settings stay, a backup is kept, and doing it twice changes nothing. Then the
    first checkpoint is taken, which takes longest.
    """
    from takeback.app.agents import setup

    made = None
    if user:
        done = setup.init(agent, None)
        try:
            with options.opened(face) as project:
                made = project.checkpoint(state=True)
        except (HomeDirectory, NoProject):
            pass  # in no project: each has its first checkpoint when an agent starts there
    else:
        with options.opened(face) as project:
            done = setup.init(agent, project.root)
            made = project.checkpoint(state=True)
    undo = f"takeback uninstall --keep-checkpoints{' --user' if user else ''}"
    face.answer(
        documents.document(
            installed=[shown(one) for one in done], checkpoint=made.id if made is not None else None, undo_with=undo
        )
    )
    tell(face, done)
    if made is not None:
        face.say(f"Checkpoint {made.id}: {draw.number(made.files, 'file')}. Undo is on: takeback undo")
    face.say(f"Take this back with: {undo}")
    return 0


options.project_may_be_named(command)


def shown(done: Any) -> dict[str, Any]:
    """Return what was done to one file, for JSON."""
    backup = str(done.backup) if done.backup is not None else None
    return {"agent": done.agent, "path": str(done.path), "done": done.verb, "backup": backup, "notes": done.notes}


def tell(face: Face, done: Iterable[Any]) -> None:
    """Write a line for each file, and what a person should know."""
    for one in done:
        kept = f" (as it was: {printable(str(one.backup))})" if one.backup is not None and face.verbose else ""
        face.say(f"{one.agent}: {one.verb} {printable(_short(str(one.path)))}{kept}")
        for note in one.notes:
            face.note(printable(note))


def _short(path: str) -> str:
    """Return a path as it is seen from here, where it is below."""
    here = os.path.relpath(path, os.path.realpath(os.curdir))
    return path if here.startswith("..") else here
