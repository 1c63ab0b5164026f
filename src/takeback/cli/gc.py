"""`takeback gc`: remove old checkpoints."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face
from takeback.cli.values import duration, format_size, size


@click.command(
    "gc",
    cls=options.Command,
    short_help="Remove old checkpoints and free their space.",
    examples=[
        ("takeback gc --dry-run", "what would go, by the settings?"),
        ("takeback gc --older-than 30d --keep 20", "what is older than 30 days, but never the newest 20"),
        ("takeback gc --max-size 2G", "the oldest, until the rest fits"),
    ],
)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the newest N checkpoints.")
@click.option("--older-than", callback=duration, metavar="D", help="Remove what is older: 12h, 30d, 8w.")
@click.option("--max-size", callback=size, metavar="S", help="Remove the oldest until this much is used: 500M, 2G.")
@options.dry_run_option
@options.yes_option
@options.speaking
def command(
    face: Face, keep: int | None, older_than: float | None, max_size: int | None, dry_run: bool, yes: bool
) -> int:
    """Remove old checkpoints. What undo and redo need for the newest steps stays. This cannot be taken back."""
    with options.opened(face) as project:
        if face.at_terminal and not yes and not dry_run:
            plan = project.gc(keep=keep, older_than_s=older_than, max_bytes=max_size, dry_run=True)
            if plan.removed:
                what = f"Remove {draw.number(len(plan.removed), 'checkpoint')}, keep {plan.kept}?"
                options.agreed_to(f"{what} This cannot be taken back.")
        result = project.gc(keep=keep, older_than_s=older_than, max_bytes=max_size, dry_run=dry_run)
    face.answer(
        documents.document(
            dry_run=result.dry_run,
            removed=result.removed,
            kept=result.kept,
            bytes_before=result.bytes_before,
            bytes_after=result.bytes_after,
        )
    )
    verb = "would remove" if result.dry_run else "removed"
    face.say(f"{verb} {draw.number(len(result.removed), 'checkpoint')}, kept {result.kept}")
    if face.verbose:
        face.say("  " + " ".join(result.removed))
    face.say(f"disk: {format_size(result.bytes_before)} -> {format_size(result.bytes_after)}")
    if result.removed and not result.dry_run:
        face.say("Removed checkpoints cannot be brought back.")
    return 0
