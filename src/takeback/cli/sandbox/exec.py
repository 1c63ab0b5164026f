"""`takeback sandbox exec`: run a command in a sandbox."""

from __future__ import annotations

import base64
import sys
from contextlib import suppress
from typing import Any, BinaryIO, TextIO

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common
from takeback.cli.values import timeout as as_timeout
from takeback.errors import TakebackError

_OUT_OF_TIME = 124
_DAY_MS = 86_400_000


@click.command(
    "exec",
    cls=common.WithWords,
    short_help="Run a command in a sandbox.",
    examples=[
        ("takeback sandbox exec db -- psql -c 'select 1'", "several words: run as they are, without a shell"),
        ("takeback sandbox exec db 'make && make test'", "one word: shell source"),
        ("takeback sandbox exec --stdin --cwd /tmp db 'tar x' < my.tar", "with this command's own input"),
    ],
)
@common.id_argument
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
@click.option("--cwd", metavar="DIR", help="Where; the image's own folder, /workspace.")
@common.user_option
@click.option("--env", multiple=True, metavar="K=V", callback=common.pairs, help="A variable; repeatable.")
@click.option("--timeout", callback=as_timeout, metavar="T", help="End it after this time: 30s, 10m.")
@click.option("--stdin", is_flag=True, help="Give it the input of this command.")
@options.speaking
def command(
    face: Face,
    id: str,
    words: tuple[str, ...],
    cwd: str | None,
    user: str | None,
    env: dict[str, str],
    timeout: float | None,
    stdin: bool,
) -> int:
    """Run CMD in the sandbox; its output and exit code are this command's own.

    124 when --timeout ended it. What it leaves behind in its session ends with it. With --json its output is in the
    JSON, the first megabyte of each stream.
    """
    box = common.find(face, id)
    limit = _DAY_MS if timeout is None else max(1, int(timeout * 1000))
    command = words[0] if len(words) == 1 else list(words)
    data = sys.stdin.buffer.read() if stdin and sys.stdin is not None else None
    if face.json:
        result = box.exec(command, cwd=cwd, user=user, env=env, stdin=data, timeout_ms=limit)
        face.answer(documents.document(**result.to_dict()))
        return _OUT_OF_TIME if result.timed_out else result.exit_code or 0
    code: int | None = 0
    process = ""
    try:
        for event in box.exec_stream(command, cwd=cwd, user=user, env=env, stdin=data, timeout_ms=limit):
            if event["type"] in ("stdout", "stderr"):
                _write(sys.stdout if event["type"] == "stdout" else sys.stderr, event)
            elif event["type"] == "start":
                process = event["processId"]
            elif event["type"] == "truncated":
                face.note(f"{event['droppedBytes']} bytes of output were lost")
            elif event["type"] == "exit":
                code = event["exitCode"]
    except BrokenPipeError:
        if process:  # as in a shell: whoever writes to nobody is ended
            with suppress(TakebackError):
                box.process(process).kill("SIGPIPE")
        raise
    return _OUT_OF_TIME if code is None else code


def _write(text: TextIO | None, event: dict[str, Any]) -> None:
    if text is None:  # it was closed before this command began
        return
    stream: BinaryIO = text.buffer
    stream.write(base64.b64decode(event["base64"]) if "base64" in event else event["data"].encode())
    stream.flush()
