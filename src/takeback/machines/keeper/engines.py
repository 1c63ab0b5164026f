"""Which engines there are, each imported when its first sandbox is made.

Does not cover: choosing one (the settings).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from takeback.machines.engine import Engine
from takeback.machines.layout import MachinesDir


def _gvisor(directory: MachinesDir) -> Engine:
    from takeback.machines.engines.gvisor.engine import GvisorEngine

    return GvisorEngine(directory)


def _fake(directory: MachinesDir) -> Engine:
    from takeback.machines.engines.fake import FakeEngine

    return FakeEngine(directory)


ENGINES: Mapping[str, Callable[[MachinesDir], Engine]] = {"gvisor": _gvisor, "fake": _fake}
