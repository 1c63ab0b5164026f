"""`takeback uninstall`: take takeback out of agents again, and forget this project's checkpoints if that is meant."""

from __future__ import annotations

import os
from typing import Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.init import agent_option, shown, tell
from takeback.cli.output import Face
from takeback.errors import HomeDirectory, NoProject, UsageError


@click.command(
    "uninstall",
    cls=options.Command,
    short_help="Take takeback out of agents again.",
    examples=[
        ("takeback uninstall --keep-checkpoints", "out of the agents; what was saved stays"),
        ("takeback uninstall --yes", "and forget all checkpoints of this project"),
    ],
)
@agent_option
@click.option("--user", is_flag=True, help="Only from my own settings, not from this project's.")
@click.option("--keep-checkpoints", is_flag=True, help="Leave what was saved.")
@options.yes_option
@options.speaking
def command(face: Face, agent: str | None, user: bool, keep_checkpoints: bool, yes: bool) -> int:
    """Take out what `takeback init` put into the settings of agents, for this project and for all of mine.

    A settings file that nobody changed since is byte for byte what it was. Without --keep-checkpoints all that was
    saved of this project is removed too, which nothing brings back; the project's files are not touched.
    """
    from takeback.app import forgetting
    from takeback.app.agents import setup

    roots: list[bytes | None] = [None]
    if not user:
        try:
            with options.opened(face, strict=False) as project:
                roots.append(project.root)
        except (HomeDirectory, NoProject):
            keep_checkpoints = True
    forget = not keep_checkpoints and not user and agent is None
    if forget and not yes:
        if not face.at_terminal:
            raise UsageError(detail="say --keep-checkpoints, or --yes to remove all that was saved of this project")
        forget = click.confirm("Remove all that was saved of this project? Nothing brings it back", default=False)
    done = setup.uninstall(agent, roots)
    forgotten = forget and forgetting.forget(face.project)
    undo = _back(done, agent, [root for root in roots if root is not None])
    face.answer(documents.document(removed=[shown(one) for one in done], forgotten=forgotten, undo_with=undo))
    tell(face, done)
    if not done:
        face.say("nothing of takeback is in the settings of agents")
    if forgotten:
        face.say("All that was saved of this project is removed.")
    elif len(roots) > 1:
        face.say("What was saved stays: takeback log")
    if undo:
        face.say(f"{'Hooks come back' if forgotten else 'Take this back'} with: {undo}")
    return 0


def _back(done: list[Any], agent: str | None, roots: list[bytes]) -> str:
    """Return the command that puts back what was taken out: of this project, of a person's own settings, or both."""
    named = f" --agent {agent}" if agent is not None else ""
    below = [any(str(one.path).startswith(os.fsdecode(root) + os.sep) for root in roots) for one in done]
    mine = f"takeback init{named} --user" if not all(below) else ""
    return " && ".join(one for one in (f"takeback init{named}" if any(below) else "", mine) if one)


options.project_may_be_named(command)
