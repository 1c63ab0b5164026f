"""`takeback sandbox cost`: what a sandbox used, and what that costs."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common

_LINES = (
    ("cpu", "cpuMicros", "cpuSeconds", "CPU seconds"),
    ("memory", "memoryMicros", "memoryGiBHours", "GiB-hours"),
    ("stored", "storedMicros", "storedGBMonths", "GB-months"),
    ("sent", "sentMicros", "sentBytes", "bytes"),
)


@click.command(
    "cost",
    cls=options.Command,
    short_help="What a sandbox used, and what that costs.",
    examples=[
        ("takeback sandbox cost db", "with the prices of the settings, [prices] in config.toml"),
        ("takeback sandbox cost --json db", "in micro-dollars"),
    ],
)
@common.id_argument
@options.speaking
def command(face: Face, id: str) -> int:
    """Show the CPU seconds, memory while it ran, and stored snapshots of a sandbox, and what they cost."""
    from takeback.machines.cost import dollars

    found = common.find(face, id).cost()
    face.answer(documents.document(cost=found))
    for name, micros, amount, unit in _LINES:
        face.data(f"{name:<8} {dollars(found[micros]):>10}  {found[amount]:g} {unit}")
    face.data(f"{'total':<8} {dollars(found['totalMicros']):>10}")
    return 0
