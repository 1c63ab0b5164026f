"""`takeback sandbox forward`: reach a server inside from this machine."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common


@click.command(
    "forward",
    cls=options.Command,
    short_help="Reach a server in a sandbox from here.",
    examples=[
        ("takeback sandbox forward db 8000", "at any free port, which is printed"),
        ("takeback sandbox forward db 5432 15432", "at 127.0.0.1:15432"),
    ],
)
@common.id_argument
@click.argument("port", type=click.IntRange(1, 65535))
@click.argument("local", type=click.IntRange(0, 65535), default=0)
@options.speaking
def command(face: Face, id: str, port: int, local: int) -> int:
    """Let connections to LOCAL on 127.0.0.1 reach PORT inside, until Ctrl-C. A connection wakes a paused sandbox."""
    box = common.find(face, id)
    with box.forward_port(port, local_port=local) as forward:
        where = f"{forward.host}:{forward.local_port}"
        face.answer(documents.document(forward={"sandbox": box.id, "port": port, "address": where}))
        face.data(where)
        if face.at_terminal:
            face.note("Ctrl-C ends it.")
        forward.wait()
    return 0
