"""`takeback doctor`: look for trouble, with the fix beside each line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from takeback import documents, model
from takeback.cli import options
from takeback.cli.output import Face
from takeback.errors import TakebackError


@click.command(
    "doctor",
    cls=options.Command,
    short_help="Look for trouble; every line comes with its fix.",
    examples=[
        ("takeback doctor", "is all well here?"),
        ("takeback doctor --fix", "clean what dead processes left behind"),
        ("takeback doctor --rebuild", "make the timeline again from the checkpoints"),
    ],
)
@click.option("--fix", is_flag=True, help="Mend what can be mended without losing anything.")
@click.option("--rebuild", is_flag=True, help="Make the timeline again from the store.")
@options.speaking
def command(face: Face, fix: bool, rebuild: bool) -> int:
    """Check git, free space, leftovers, locks, the store, hooks in agents, and what machines need once set up.

    The exit code is 1 when something is not well.
    """
    from takeback.app import machines, trusting
    from takeback.app.agents import setup

    root = None
    try:
        with options.opened(face, strict=False) as project:
            root = project.root
            findings: Sequence[model.Finding] = project.doctor(rebuild=rebuild, fix=fix)
    except TakebackError as error:
        # What keeps a project from opening is exactly what doctor is asked about.
        if fix or rebuild or face.project is not None:
            raise
        findings = [model.Finding("project", False, str(error), error.hint_text)]
    findings = [
        *findings, *trusting.findings(face.project), *setup.doctor(root, fix=fix), *machines.findings(),
    ]  # fmt: skip
    well = all(finding.ok for finding in findings)
    face.answer(documents.document(ok=well, findings=findings))
    options.tell(face, findings)
    return 0 if well else 1
