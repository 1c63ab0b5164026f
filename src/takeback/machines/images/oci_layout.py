"""Read an image's manifest and config from an OCI image layout, a folder of blobs named by their digest.

Source: https://github.com/opencontainers/image-spec (image-layout.md, image-index.md, manifest.md, config.md).

Does not cover: layers; whether their content is what their digest says is checked by what unpacks them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ONLY = "only"  # the tag in a layout made by `single`
REF_NAME = "org.opencontainers.image.ref.name"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_JSON_LIMIT = 4 << 20  # as registries have it
_NESTED = 4
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Unreadable(Exception):
    """It is no layout, or has not what is asked for; its text says why."""


@dataclass(frozen=True)
class Found:
    """A manifest's descriptor, and the `config` object of its image: User, WorkingDir, Env, Entrypoint, Cmd."""

    descriptor: Mapping[str, Any]
    config: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return str(self.descriptor["digest"])


def find(folder: Path, tag: str) -> Found:
    """Return the image of a tag, or the only one; for this machine's architecture. Raises Unreadable."""
    if not folder.is_dir():
        raise Unreadable("there is no such folder")
    if not (folder / "oci-layout").is_file():
        raise Unreadable("it is no OCI image layout: it has no file oci-layout")
    index = _json(folder / "index.json")
    listed = index.get("manifests")
    if not isinstance(listed, list):
        raise Unreadable("its index.json lists no manifests")
    names = [_name(one) for one in listed]
    wanted = [one for one in listed if not tag or _name(one) == tag]
    known = ", ".join(filter(None, names)) or "none"
    if not wanted:
        raise Unreadable(f"it has no tag {tag!r}; its tags: {known}")
    if len({one.get("digest") for one in wanted}) > 1 and not all("platform" in one for one in wanted):
        raise Unreadable(f"it has several images, so name one; its tags: {known}")
    return _resolve(folder, wanted, _NESTED)


def _resolve(folder: Path, listed: list[Any], depth: int) -> Found:
    descriptor = _for_here(listed)
    kind = descriptor.get("mediaType", MANIFEST)
    document = blob(folder, descriptor)
    if kind == INDEX and depth:
        return _resolve(folder, document.get("manifests") or [], depth - 1)
    if kind != MANIFEST:
        raise Unreadable(f"it holds {kind}, which is no OCI image")
    if not isinstance(document.get("config"), dict) or not isinstance(document.get("layers"), list):
        raise Unreadable("its manifest has no config or no layers")
    config = blob(folder, document["config"]).get("config") or {}
    if not isinstance(config, dict):
        raise Unreadable("its config is none")
    return Found(descriptor, config)


def _for_here(listed: list[Any]) -> dict[str, Any]:
    mine = _ARCHITECTURES.get(platform.machine(), platform.machine())
    for one in listed:
        place = one.get("platform") or {}
        if place.get("architecture", mine) == mine and place.get("os", "linux") == "linux":
            return dict(one)
    raise Unreadable(f"it has no image for linux/{mine}")


def blob(folder: Path, descriptor: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON blob whose digest was checked. Raises Unreadable."""
    digest = str(descriptor.get("digest"))
    if not _DIGEST.match(digest):
        raise Unreadable(f"it names a blob {digest[:80]!r}, which is no sha256 digest")
    return _json(folder / "blobs" / "sha256" / digest.removeprefix("sha256:"), digest)


def _json(path: Path, digest: str = "") -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read(_JSON_LIMIT + 1)
        if len(text) > _JSON_LIMIT:
            raise Unreadable(f"{path.name} is larger than {_JSON_LIMIT >> 20} MiB")
        if digest and "sha256:" + hashlib.sha256(text).hexdigest() != digest:
            raise Unreadable(f"the blob {digest} does not have the content that its name says")
        document = json.loads(text)
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Unreadable(f"{path.name} is no JSON") from error
    if not isinstance(document, dict):
        raise Unreadable(f"{path.name} holds no object")
    return document


def _name(descriptor: Any) -> str:
    if not isinstance(descriptor, dict):
        raise Unreadable("its index.json lists something that is no manifest")
    return str((descriptor.get("annotations") or {}).get(REF_NAME, ""))


def single(source: Path, found: Found, into: Path) -> None:
    """Make a layout that has this image only, under the tag ONLY, and shares the source's blobs."""
    into.mkdir()
    (into / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    descriptor = {**found.descriptor, "mediaType": MANIFEST, "annotations": {REF_NAME: ONLY}}
    (into / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [descriptor]}))
    os.symlink(source / "blobs", into / "blobs")
