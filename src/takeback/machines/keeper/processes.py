"""What runs inside a sandbox, over its channel: start, follow with back-pressure, write, signal.

Does not cover: frames and FIFOs (`channel`), what requests mean (`programs`, `commands`, `files`).
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Protocol

from takeback.errors import ProcessNotFound, SandboxStopped, TakebackError
from takeback.machines.channel.messages import Command, Ended, Gap, Listed, Output
from takeback.machines.engine import Stdio
from takeback.machines.keeper.programs import NotStarted
from takeback.machines.model import SandboxRecord

WINDOW = 256 * 1024  # bytes a follower may be sent before it says that it takes more


def name_of(process: int) -> str:
    """Return a process's id as callers see it."""
    return f"p{process:08x}"


def number_of(name: str) -> int | None:
    """Return the number in an id, or None when it is none."""
    if len(name) != 9 or name[0] != "p" or set(name[1:]) - set("0123456789abcdef"):
        return None
    return int(name[1:], 16)
