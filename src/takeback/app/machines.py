"""Machines as the command line sees them: what they need, whether it is there, and how it is brought."""

from __future__ import annotations

import os
from collections.abc import Sequence

from takeback import config as configs
from takeback.host import apt, system
from takeback.machines.layout import MachinesDir
from takeback.machines.setup import Setup
from takeback.model import Finding


def setup(*, mirror: str = "") -> Setup:
    """Return what looks at, and brings, the things that machines need. Raises BadSetting, CannotRead."""
    config = configs.load(os.environ)
    machines = MachinesDir(config.data / "machines")
    return Setup(machines, os.environ.get("PATH", os.defpath), mirror, config.machines.platform)


def findings() -> list[Finding]:
    """Return what `doctor` says about machines: one line that tells how to begin, until somebody has begun."""
    found = setup()
    if found.in_use:
        return found.findings()
    return [Finding("machines", True, "not set up; `takeback setup` or the first Sandbox.create() does it")]


def can_install_packages() -> bool:
    """Whether this process could install Debian packages into the system."""
    return system.is_root() and apt.is_here()


def install_packages(packages: Sequence[str]) -> None:
    """Install Debian packages into the system, when a person said so. Raises FetchFailed."""
    apt.install(packages)
