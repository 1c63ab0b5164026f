"""The `takeback` command: finds the subcommand, maps every ending to an exit code.

    0 done   1 a known error, or not all could be taken back   2 the request cannot be meant   3 an unknown error
    130 interrupted   141 the reader of stdout went away   `takeback run`: the step's own code, 124 when out of time

Does not cover: any single command. Commands load when they are named, so that each starts with what it needs.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import ClassVar, TextIO

import click

from takeback._version import VERSION
from takeback.cli.groups import LazyGroup
from takeback.cli.options import common
from takeback.cli.output import Face, colour, show_error, show_known_error, to_stderr
from takeback.errors import TakebackError

COMMANDS = (
    "status",
    "checkpoint",
    "log",
    "show",
    "diff",
    "run",
    "undo",
    "redo",
    "restore",
    "task",
    "tasks",
    "attempts",
    "revert",
    "blame-task",
    "gc",
    "du",
    "explain",
    "policy",
    "trust",
    "holds",
    "approve",
    "deny",
    "doctor",
    "init",
    "uninstall",
    "watch",
    "setup",
    "sandbox",
    "chain",
    "pause",
    "resume",
    "mcp",
)
INTERRUPTED = 130
READER_GONE = 141


class Commands(LazyGroup):
    """The group."""

    package = "takeback.cli"
    commands_in_order = COMMANDS
    other_names: ClassVar[dict[str, str]] = {"check": "explain"}
    examples = (
        ("takeback", "is this project protected, and what would undo take back?"),
        ("takeback run -- make clean", "do one step that can be taken back"),
        ("takeback undo", "take it back"),
    )


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, message="takeback %(version)s")
@common
@click.pass_context
def commands(ctx: click.Context) -> int:
    """Undo for AI agents: exact, fast, and itself undoable.

    Without a command, the status of this project.
    """
    if ctx.invoked_subcommand is None:
        from takeback.cli.status import command

        return int(ctx.invoke(command) or 0)
    return 0


def run(argv: Sequence[str], *, name: str = "takeback") -> int:
    """Run one command line and return its exit code; everything it has to say is said."""
    _occupy_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # A name that this terminal's encoding lacks must not end the command. A closed stream is None.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    face = Face()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # As an exception, so that children are ended and locks let go before we are.
        signal.signal(number, _stop)
    try:
        code = _invoke(list(argv), name, face)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        if face.json:
            show_error("usage", "name a command of it", _usage_hint(error, name), as_json=True)
        else:
            to_stderr(error.format_message())
        return 2
    except click.UsageError as error:
        show_error("usage", error.format_message(), _usage_hint(error, name), as_json=face.json or _wants_json(argv))
        return 2
    except click.ClickException as error:
        show_error("usage", error.format_message(), "", as_json=face.json)
        return 2
    except TakebackError as error:
        show_known_error(error, face)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        to_stderr("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError as error:
        return READER_GONE if _reader_gone() else _unexpected(error, argv, face)
    except Exception as error:
        return _unexpected(error, argv, face)


def _stop(number: int, _: object) -> None:
    from takeback.host import process

    process.interrupt(KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number))


def _occupy_standard_streams() -> None:
    """Open what the caller closed: else a file of ours could get number 1, and a step's output go into it."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _invoke(argv: list[str], name: str, face: Face) -> int:
    complete = f"_{name.upper()}_COMPLETE"
    if os.environ.get(complete):
        from click.shell_completion import shell_complete

        return shell_complete(commands, {"obj": face}, name, complete, os.environ[complete])
    # Not `commands.main`: it takes every EPIPE, also one from a child process, for a reader who left.
    with commands.make_context(name, argv, obj=face) as ctx:
        ctx.color = colour()
        result = commands.invoke(ctx)
    return result if isinstance(result, int) else 0


def _usage_hint(error: click.UsageError, name: str) -> str:
    path = error.ctx.command_path if error.ctx is not None else name
    return f"{path} --help"


def _wants_json(argv: Sequence[str]) -> bool:
    return "--json" in (argv[: argv.index("--")] if "--" in argv else argv)


def _reader_gone() -> bool:
    if sys.stdout is None:
        return False
    try:
        if _nobody_reads(sys.stdout):
            raise BrokenPipeError
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit; give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _nobody_reads(stream: TextIO) -> bool:
    """Ask the system: with PYTHONUNBUFFERED nothing is left that a flush could fail on."""
    look = select.poll()
    try:
        look.register(stream.fileno(), 0)
    except (OSError, ValueError):
        return False  # no stream of the system's
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in look.poll(0))


def _unexpected(error: Exception, argv: Sequence[str], face: Face) -> int:
    from takeback.cli import report

    if face.json:
        message = report.scrubbed(f"{type(error).__name__}: {error}")
        show_error("unexpected", message, "the report on stderr is ready to paste", as_json=True)
    to_stderr(report.text(error, argv))
    return 3
