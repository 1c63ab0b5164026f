"""Which engines there are, each imported when its first sandbox is made.

Does not cover: choosing one (the settings).
"""

from __future__ import annotations

from takeback.errors import Unsupported
from takeback.machines.engine import Engine
from takeback.machines.layout import MachinesDir

NAMES = ("gvisor", "fake")


def make(name: str, directory: MachinesDir, search: str) -> Engine:
    """Return an engine; `search` is the PATH its program is looked for in, after takeback's own folder.

    Raises Unsupported, EngineMissing, EngineTooOld.
    """
    if name == "gvisor":
        from takeback.machines.engines import install
        from takeback.machines.engines.gvisor.engine import GVisor

        return GVisor(install.find(directory.engine, search).path, directory)
    if name == "fake":
        from takeback.machines.engines.fake import Fake

        return Fake(directory)
    raise Unsupported(what=f"the engine {name!r}", next=f"there are: {', '.join(NAMES)}")
