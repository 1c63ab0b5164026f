"""`takeback sandbox fork`: make running copies of a sandbox."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common


@click.command(
    "fork",
    cls=options.Command,
    short_help="Make running copies of a sandbox.",
    examples=[
        ("takeback sandbox fork db --name db-try", "with all its memory, processes and files"),
        ("takeback sandbox fork db --count 3 --offline", "three of one moment, that reach nothing outside"),
    ],
)
@common.id_argument
@click.option("--name", metavar="NAME", help="A name for the copy; several are NAME, NAME-1, ...")
@click.option("--count", type=int, default=1, metavar="N", help="How many (1).")
@click.option("--label", "labels", multiple=True, metavar="K=V", callback=common.pairs, help="A label; repeatable.")
@click.option("--offline", is_flag=True, help="The copies reach nothing outside, whatever the source may.")
@options.speaking
def command(face: Face, id: str, name: str | None, count: int, labels: dict[str, str], offline: bool) -> int:
    """Make running copies of a sandbox, with memory, processes and files, and print their ids. The source goes on."""
    box = common.find(face, id)
    network = {"internet": False} if offline else None
    with common.timed(face, f"copying {id}"):
        made = box.fork(count, name=name, labels=labels or None, network=network)
    copies = made if isinstance(made, list) else [made]
    face.answer(documents.document(sandboxes=[copy.info for copy in copies]))
    for copy in copies:
        face.data(copy.id)
    if face.at_terminal:
        face.note(f"Remove: takeback sandbox rm {' '.join(common.short(copy.info) for copy in copies)}")
    return 0
