"""The engine and the image that tests of machines run on: fetched and built once for the clone, below .cache.

Does not cover: whether a test may use them here (see `why_not`).
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from takeback.errors import TakebackError
from takeback.host import apt, system
from takeback.machines.layout import MachinesDir
from takeback.machines.setup import Ready, Setup

TOP = Path(__file__).resolve().parents[2]


@functools.cache
def setup() -> Setup:
    """The set-up of whoever runs the tests."""
    return Setup(MachinesDir(TOP / ".cache" / "machines" / str(os.geteuid()) / "machines"), "")


@functools.cache
def why_not() -> str:
    """Return why machines cannot be tested on this computer, or an empty string."""
    if system.name() != "Linux":
        return "machines need Linux"
    if not apt.is_here() or not system.debian():
        return "the tests of machines fetch what they need from Debian"
    return system.namespace_problem()


@functools.cache
def ready() -> Ready:
    """The engine and the image `debian`, made by the first test process that asks; about a minute then."""
    return setup().ensure()


@functools.cache
def engine() -> Path:
    """Only the engine: some seconds, when it is not there."""
    return setup().ensure(None).engine.path


def offline(error: TakebackError) -> bool:
    """Whether an error only says that the mirror cannot be reached."""
    return error.kind == "fetch-failed" and any(word in str(error) for word in ("Could not resolve", "connect"))
