"""`takeback sandbox shell`: a terminal in a sandbox."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from typing import TYPE_CHECKING

import click

from takeback.cli import options
from takeback.cli.output import Face, is_terminal
from takeback.cli.sandbox import common

if TYPE_CHECKING:
    from takeback.machines.client.processes import Terminal


@click.command(
    "shell",
    cls=options.Command,
    short_help="Open a terminal in a sandbox.",
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("takeback sandbox shell db", "a login shell"),
        ("takeback sandbox shell --user root db -- htop", "another program, as root"),
    ],
)
@common.id_argument
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[CMD...]")
@click.option("--cwd", metavar="DIR", help="Where; the image's own folder, /workspace.")
@common.user_option
@options.speaking
def command(face: Face, id: str, words: tuple[str, ...], cwd: str | None, user: str | None) -> int:
    """Open a terminal in the sandbox, with a login shell or CMD; its exit code is this command's own."""
    box = common.find(face, id)
    cols, rows = shutil.get_terminal_size()
    with box.terminal(cols=cols, rows=rows, command=list(words) or None, cwd=cwd, user=user) as terminal:
        raw = is_terminal(sys.stdin) and is_terminal(sys.stdout)
        old = termios.tcgetattr(0) if raw else None
        if raw:
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, lambda *_: terminal.resize(*shutil.get_terminal_size()))
        try:
            _talk(terminal)
        finally:
            if old is not None:
                termios.tcsetattr(0, termios.TCSADRAIN, old)
        return terminal.exit_code or 0


def _talk(terminal: Terminal) -> None:
    """Pass on what is typed, in a thread of its own, and what is shown, until the program ends."""
    reader, writer = os.pipe()
    typing = threading.Thread(target=_type, args=(terminal, reader), daemon=True)
    typing.start()
    try:
        while (data := terminal.recv()) is not None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    finally:
        os.close(writer)
        typing.join()
        os.close(reader)


def _type(terminal: Terminal, over: int) -> None:
    while True:
        ready, _, _ = select.select([0, over], [], [])
        if over in ready:
            return
        data = os.read(0, 4096)
        try:
            # The end of input is Ctrl-D for a terminal.
            terminal.write(data or b"\x04")
        except Exception:
            return  # it has ended meanwhile
        if not data:
            return
