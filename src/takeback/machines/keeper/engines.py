"""Which engines there are, each imported when its first sandbox is made.

Does not cover: choosing one (the settings).
"""

from __future__ import annotations

import importlib

from takeback.errors import Unsupported
from takeback.machines.engine import Engine
from takeback.machines.layout import MachinesDir

NAMES = ("gvisor", "fake")


def make(name: str, directory: MachinesDir, search: str, platform: str = "") -> Engine:
    """Return an engine; `search` is the PATH its program is looked for in, after takeback's own folder.

    `platform` is how the user wants programs run, where that works; empty: as the engine finds best.

    Raises Unsupported, EngineMissing, EngineTooOld.
    """
    if name == "gvisor":
        from takeback.machines.engines import install
        from takeback.machines.engines.gvisor import platforms
        from takeback.machines.engines.gvisor.engine import GVisor

        binary = install.find(directory.engine, search).path
        return GVisor(
            binary, directory, platform=lambda: platforms.choose(binary, directory.engine, platform).name
        )  # fmt: skip
    if name == "fake":
        # By name: for tests of what is above an engine, and nothing of the product may depend on it.
        fake: Engine = importlib.import_module("takeback.machines.engines.fake").Fake(directory.root / "passing")
        return fake
    raise Unsupported(what=f"the engine {name!r}", next=f"there are: {', '.join(NAMES)}")
