"""What the name of an image in a registry or a layout says.

    oci:/path/to/layout[:tag]                       a folder as the OCI image layout has it
    docker://host[:port]/name[:tag|@sha256:...]     a registry
    name:tag, name@sha256:..., [registry/]name[:tag] the same, in short; without a registry it is Docker Hub

A name without `/`, tag and digest means nothing: it could be a typing error, and nothing is fetched for one.

Source: https://github.com/distribution/reference. Does not cover: fetching it (`oci`).
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass

from takeback.errors import UnknownImage

HUB = "docker.io"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<name>{_PART}(?:/{_PART})*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?"
)
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
KNOWN = "`oci:/a/layout:tag`, `docker://registry/name:tag`, `name:tag`"


@dataclass(frozen=True)
class Reference:
    """A layout (`layout` is its folder, `tag` may be empty), or a place in a registry; `text` is as it was given."""

    text: str
    layout: str = ""
    host: str = ""
    name: str = ""
    tag: str = ""
    digest: str = ""

    @property
    def location(self) -> str:
        """How skopeo spells a place in a registry."""
        which = f"@{self.digest}" if self.digest else f":{self.tag}"
        return f"docker://{self.host}/{self.name}{which}"

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is on this machine, where plain HTTP is what everybody uses."""
        host = re.sub(r":[0-9]+\Z", "", self.host).strip("[]")
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def parse(text: str) -> Reference | None:
    """Return what a name means, or None when it is of none of these kinds. Raises UnknownImage."""
    if text.startswith("oci:"):
        return _layout(text)
    given = text.startswith("docker://")
    rest = text.removeprefix("docker://")
    if not given and not any(mark in rest for mark in "/:@"):
        return None
    first, slash, after = rest.partition("/")
    is_host = bool(slash) and (first == "localhost" or any(mark in first for mark in ".:["))
    host, path = (first, after) if is_host else (HUB, rest)
    found = _NAME.fullmatch(path)
    if found is None or not _HOST.fullmatch(host):
        raise UnknownImage(name=text, why="it is not spelled as the name of an image", known=KNOWN)
    name = found["name"]
    if host == HUB and "/" not in name:
        name = f"library/{name}"
    digest = found["digest"] or ""
    return Reference(text, host=host, name=name, tag=found["tag"] or ("" if digest else "latest"), digest=digest)


def _layout(text: str) -> Reference:
    path, tag = text.removeprefix("oci:"), ""
    # A tag has no slash; a folder whose name has a colon is meant where there is one.
    if ":" in path.rsplit("/", 1)[-1] and not os.path.isdir(path):
        path, _, tag = path.rpartition(":")
    if not path.startswith("/"):
        raise UnknownImage(name=text, why="the layout's path must be a full one, from / on", known=KNOWN)
    return Reference(text, layout=path, tag=tag)
