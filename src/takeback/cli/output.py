"""What the command line writes: data on stdout, messages on stderr, one JSON document when asked.

Does not cover: what is said about which result (see `draw`). Text from outside (paths, commands, messages) goes
through `printable` first, so that no file name can move the cursor or change the colour of a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, TextIO

import click

from takeback import documents
from takeback.errors import TakebackError
from takeback.redact import redacted


@dataclass
class Face:
    """How this run was asked to speak, and about which project."""

    project: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def at_terminal(self) -> bool:
        """Whether a person can be asked: stdin and stdout are a terminal and no JSON was asked for."""
        return not self.json and is_terminal(sys.stdin) and is_terminal(sys.stdout)

    def say(self, text: str = "") -> None:
        """Write a line of the answer to stdout; nothing with `--quiet` or `--json`."""
        if not self.quiet and not self.json:
            click.echo(text, color=colour())

    def data(self, text: str) -> None:
        """Write a line to stdout also with `--quiet`; nothing with `--json`."""
        if not self.json:
            click.echo(text, color=colour())

    def note(self, text: str) -> None:
        """Write a message to stderr; nothing with `--quiet`."""
        if not self.quiet:
            to_stderr(text)

    def answer(self, document: dict[str, Any]) -> None:
        """Write the JSON document when `--json` was given."""
        if self.json:
            emit(document)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; Python has None for one that was closed from the start."""
    return stream is not None and stream.isatty()


def emit(document: dict[str, Any]) -> None:
    """Write one JSON document and a newline to stdout."""
    # ASCII only: the encoding of stdout may be anything.
    click.echo(json.dumps(document, ensure_ascii=True))


def to_stderr(text: str) -> None:
    """Write a line to stderr; a reader who left is nobody's trouble."""
    try:
        click.echo(text, err=True, color=colour())
    except BrokenPipeError:
        pass


def colour() -> bool | None:
    """False when NO_COLOR (https://no-color.org) is set and not empty; None lets the stream decide."""
    return False if os.environ.get("NO_COLOR") else None


def printable(text: str | bytes) -> str:
    """Return `text` with control characters and undecodable bytes as backslash escapes, on one line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return text
    return "".join(_escape(char) for char in text)


def shown(text: str) -> str:
    """Return what a command is, said or may say, for people: secrets blanked, on one line, printable."""
    return printable(redacted(text))


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char.isprintable():
        return char
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def show_error(kind: str, message: str, hint: str, *, as_json: bool) -> None:
    """Write an error where the caller looks for it: JSON on stdout, or `Error:` and `Hint:` on stderr."""
    message, hint = redacted(message), redacted(hint)
    if as_json:
        emit(documents.error(kind, message, hint))
        return
    to_stderr(click.style("Error:", fg="red", bold=True) + " " + _lines(message))
    if hint:
        to_stderr(click.style("Hint:", fg="cyan") + " " + _lines(hint))


def show_known_error(error: TakebackError, face: Face) -> None:
    """Write a known error; every conflicting path is named, and the cause too with `--verbose`."""
    if face.json:
        emit(documents.known_error(error))
        return
    show_error(error.kind, str(error), error.hint_text, as_json=False)
    cause = error.__cause__
    while face.verbose and cause is not None:
        to_stderr(f"Caused by: {type(cause).__name__}: {_lines(redacted(str(cause)))}")
        cause = cause.__cause__


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
