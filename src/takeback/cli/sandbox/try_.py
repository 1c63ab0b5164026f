"""`takeback sandbox try`: try a step in a copy of a sandbox, and keep it only if it passes."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common
from takeback.cli.sandbox.diff import _exact
from takeback.cli.values import timeout as as_timeout

_TEN_MINUTES = 600.0


@click.command(
    "try",
    cls=common.WithWords,
    short_help="Try a step in a copy, and keep it only if it passes.",
    examples=[
        ("takeback sandbox try --verify 'make test' db -- ./migrate.sh", "kept when both end with 0"),
        ("takeback sandbox try --online --timeout 30m db 'apt-get -y upgrade'", "one word: shell source"),
    ],
)
@common.id_argument
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
@click.option("--verify", metavar="CMD", help="The check, shell source: run in the copy after CMD.")
@click.option("--online", is_flag=True, help="The copy may reach what the sandbox may, not nothing.")
@click.option("--cwd", metavar="DIR", help="Where; the image's own folder, /workspace.")
@common.user_option
@click.option("--env", multiple=True, metavar="K=V", callback=common.pairs, help="A variable; repeatable.")
@click.option("--timeout", callback=as_timeout, metavar="T", help="For CMD and for the check: 30s, 1h (10m).")
@options.speaking
def command(
    face: Face,
    id: str,
    words: tuple[str, ...],
    verify: str | None,
    online: bool,
    cwd: str | None,
    user: str | None,
    env: dict[str, str],
    timeout: float | None,
) -> int:
    """Run CMD and the check in a copy of the sandbox. If both end with 0 the copy takes its place, else it is deleted.

    Ends with 1 when it did not pass. The sandbox is not touched until then, and whatever goes wrong it goes on. The
    copy that is kept has its name and labels and an id of its own; what was before is kept as a snapshot for a day.
    """
    from takeback.sandboxes import try_in_copy

    box = common.find(face, id)
    trial = try_in_copy(
        box,
        words[0] if len(words) == 1 else list(words),
        verify,
        not online,
        cwd,
        timeout or _TEN_MINUTES,
        user=user,
        env=env or None,
        undo_days=1,
        on_output=None if face.json else lambda text: click.echo(text, nl=False),
    )
    before = trial.kept.info["lastSnapshot"] if trial.passed else None
    undo = before and f"takeback sandbox restore {common.short(trial.kept.info)} {before[:8]}"
    diff = {name: _exact(value) if isinstance(value, list) else value for name, value in trial.diff.items()}
    face.answer(
        documents.document(
            sandbox=trial.kept.info, passed=trial.passed, log=trial.log, diff=diff, cost=trial.cost, undo_with=undo
        )
    )
    if not face.json:
        totals = trial.diff.get("totals", {})
        changed = ", ".join(f"{count} {kind}" for kind, count in totals.items()) or "not known"
        face.note(f"{'passed: kept' if trial.passed else 'did not pass: nothing is kept'} (files: {changed})")
        if undo:
            face.note(f"Take this back with: {undo}")
    return 0 if trial.passed else 1
