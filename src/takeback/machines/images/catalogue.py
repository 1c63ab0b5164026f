"""Which image a name means.

Does not cover: the kinds themselves. One for registries and one for `host` come in here.
"""

from __future__ import annotations

from pathlib import Path

from takeback.errors import UnknownImage
from takeback.machines.images.base import ImageSource
from takeback.machines.images.debian import Debian
from takeback.machines.images.directory import Directory

DEFAULT = "debian"
KNOWN = "`debian`"
_LATER = ("host", "docker:", "docker://", "oci:")


def source(name: str, images: Path, *, mirror: str = "") -> ImageSource:
    """Return the image that `name` means, found or not. Raises UnknownImage."""
    if name == "debian":
        return Debian(images, mirror=mirror)
    if "/" in name and not name.startswith(_LATER):
        return Directory(name, KNOWN)
    why = "not supported yet" if name.startswith(_LATER) else "there is none of that name"
    raise UnknownImage(name=name, why=why, known=KNOWN)
