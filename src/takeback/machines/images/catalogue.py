"""Which image a name means.

Does not cover: the kinds themselves.
"""

from __future__ import annotations

import os

from takeback.errors import UnknownImage
from takeback.machines.images import reference
from takeback.machines.images.base import ImageSource
from takeback.machines.images.debian import Debian
from takeback.machines.images.directory import Directory
from takeback.machines.images.host import Host
from takeback.machines.images.oci import Oci
from takeback.machines.layout import MachinesDir

DEFAULT = "debian"
KNOWN = "`debian`, `host`, `oci:/a/layout`, a registry's `name:tag`"


def source(name: str, machines: MachinesDir, *, mirror: str = "") -> ImageSource:
    """Return the image that `name` means, found or not. Raises UnknownImage."""
    if name == "debian":
        return Debian(machines.images, mirror=mirror)
    if name == "host" or name.startswith("host:/"):
        return Host(name, machines.root.parent)
    if name.startswith(("/", "./", "../")) or ("/" in name and os.path.isdir(name)):
        return Directory(name, KNOWN)
    found = reference.parse(name)
    if found is not None:
        return Oci(found, machines)
    raise UnknownImage(name=name, why="there is none of that name", known=KNOWN)
