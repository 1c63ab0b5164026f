"""The report for an error nobody foresaw: ready to paste, without secrets.

Does not cover: known errors (see `output`). The report holds versions, the names of options (never their values), and
the traceback; no local variables, no environment. What looks like a key in an exception's text is blanked.
"""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Sequence
from importlib import metadata

from takeback._version import VERSION
from takeback.cli.output import printable
from takeback.redact import redacted


def text(error: BaseException, argv: Sequence[str]) -> str:
    """Return the whole report for `error`, met while running `takeback` with `argv`."""
    trace = "".join(traceback.format_exception(error))
    return "\n".join(
        [
            "takeback met an error it does not know. Nothing is known to be lost; please report what follows:",
            "----",
            f"takeback {VERSION}, Python {platform.python_version()}, {platform.platform()}",
            f"git: {_git_version()}; click {_version('click')}, platformdirs {_version('platformdirs')}",
            f"command: takeback {' '.join(option_names(argv))}",
            "",
            *(printable(line) for line in scrubbed(trace).rstrip("\n").split("\n")),
            "----",
        ]
    )


def option_names(argv: Sequence[str]) -> list[str]:
    """Return `argv` with every value replaced by `...`: only the command's name and option names stay."""
    from takeback.cli.main import COMMANDS

    kept: list[str] = []
    for word in argv:
        if word == "--":
            return [*kept, "--", "..."]
        if word.startswith("-"):
            kept.append(word.split("=", 1)[0] if word.startswith("--") else word[:2])
        elif word in COMMANDS and not any(seen in COMMANDS for seen in kept):
            kept.append(word)
        elif not kept or kept[-1] != "...":
            kept.append("...")
    return kept


def scrubbed(text: str) -> str:
    """Return `text` without the home directory's name and without what looks like a key or password."""
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(home, "~")
    return redacted(text)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "?"


def _git_version() -> str:
    # The report must come also when running processes is what failed.
    try:
        from takeback.host import process

        done = process.start(["git", "--version"], env=process.clean_environment()).finish(5)
    except Exception as error:
        return type(error).__name__
    return printable(done.out.strip())
