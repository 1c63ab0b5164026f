"""An image from a registry or an OCI layout: fetched, unpacked, kept by the digest of its manifest.

    images/oci-DIGEST/{image.json,rootfs/}    one for each manifest, whatever references name it; never changed
    images/references/HASH.json               what a tag meant when it was fetched; it goes on meaning that

Does not cover: how references are spelled (`reference`), running the tools (`oci_tools`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

from takeback.errors import Damaged, DiskFull, ImageFetchFailed, UnknownImage
from takeback.host import atomic, system
from takeback.machines.images import base, oci_config, oci_layout, oci_tools, reference
from takeback.machines.images.base import Image
from takeback.machines.images.debian import disk_used
from takeback.machines.images.oci_layout import Found, Unreadable
from takeback.machines.images.reference import Reference
from takeback.machines.layout import MachinesDir
from takeback.machines.making import Report, alone, put, scratch

_TAG = "image"
# What registries and skopeo say when the image is not there, or not for this user.
_NOT_THERE = (
    "manifest unknown", "name unknown", "not found", "unauthorized", "authentication required", "denied",
    "no image found", "repository name not known",
)  # fmt: skip
_FULL = "no space left on device"


class Oci:
    """The image that a reference names, for one data directory."""

    def __init__(self, wanted: Reference, machines: MachinesDir) -> None:
        self._wanted = wanted
        self._images = machines.images
        self._tools = machines.tools

    def find(self) -> Image | None:
        """Return it if it is unpacked here. Raises UnknownImage about a layout, Damaged."""
        digest = self._in_layout(Path(self._wanted.layout)).digest if self._wanted.layout else self._remembered()
        return self._kept(digest) if digest else None

    def ensure(self, report: Report) -> Image:
        """Return it, fetched and unpacked first if need be.

        Raises UnknownImage, ImageFetchFailed, ToolMissing, FetchFailed, DiskFull, CannotWrite, Busy; then nothing is
        left of it.
        """
        found = self.find()
        if found is not None:
            return found
        umoci = oci_tools.ensure("umoci", self._tools, report)
        skopeo = None if self._wanted.layout else oci_tools.ensure("skopeo", self._tools, report)
        with alone(self._images, f"getting the image {self._wanted.text}", report):
            found = self.find()
            if found is not None:
                return found
            with scratch(self._images) as work:
                layout = Path(self._wanted.layout)
                if skopeo is not None:
                    layout = work / "fetched"
                    report(f"fetching {self._wanted.text}")
                    self._judge(oci_tools.copy(skopeo, self._wanted, layout, _TAG, work, report))
                digest = self._unpacked(umoci, layout, work, report)
            if skopeo is not None:
                self._remember(digest)
            found = self._kept(digest)
        assert found is not None
        return found

    def _unpacked(self, umoci: oci_tools.Tool, layout: Path, work: Path, report: Report) -> str:
        found = self._in_layout(layout)
        if self._kept(found.digest) is not None:
            return found.digest
        made = work / "made"
        made.mkdir()
        rootfs = made / base.ROOTFS
        oci_layout.single(layout, found, work / "single")
        report("unpacking it")
        self._judge(oci_tools.unpack(umoci, work / "single", oci_layout.ONLY, rootfs, work, report))
        try:
            start = oci_config.read(found.config, rootfs)
        except oci_config.Unusable as error:
            raise self._unknown(str(error)) from error
        oci_config.complete(rootfs, start)
        image = Image(
            name=self._wanted.text,
            version=found.digest,
            rootfs=rootfs,
            user=start.user,
            uid=start.uid,
            gid=start.gid,
            cwd=start.cwd,
            env=start.env,
            start=start.start,
            home=start.home,
            groups=start.groups,
        )
        base.write(made, image, one_owner=not system.is_root(), bytes=disk_used(rootfs))
        report("writing it to disk")
        put(made, self._folder(found.digest))
        return found.digest

    def _in_layout(self, layout: Path) -> Found:
        try:
            return oci_layout.find(layout, self._wanted.tag if self._wanted.layout else _TAG)
        except Unreadable as error:
            raise self._unknown(str(error)) from error

    def _kept(self, digest: str) -> Image | None:
        found = base.read(self._folder(digest))
        return None if found is None else replace(found, name=self._wanted.text)

    def _folder(self, digest: str) -> Path:
        return self._images / f"oci-{digest.removeprefix('sha256:')}"

    @property
    def _note(self) -> Path:
        name = hashlib.sha256(self._wanted.location.encode()).hexdigest()[:32]
        return self._images / "references" / f"{name}.json"

    def _remembered(self) -> str:
        try:
            return str(json.loads(self._note.read_bytes())["digest"])
        except FileNotFoundError:
            return ""
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Damaged(
                what=os.fspath(self._note), detail=str(error), next="remove it: the image is fetched again"
            ) from error

    def _remember(self, digest: str) -> None:
        self._note.parent.mkdir(mode=0o700, exist_ok=True)
        record = {"schema": base.SCHEMA, "reference": self._wanted.location, "digest": digest}
        atomic.write_bytes(self._note, json.dumps(record).encode())

    def _judge(self, why: str) -> None:
        """Raise what a tool's complaint means; an empty one is none."""
        if not why:
            return
        if _FULL in why:
            raise DiskFull(path=os.fspath(self._images))
        if not self._wanted.layout and any(one in why.lower() for one in _NOT_THERE):
            raise self._unknown(f"the registry does not give it: {why}")
        hint = "see that the layout is whole: another copy of it may be" if self._wanted.layout else _LOOK
        raise ImageFetchFailed(name=self._wanted.text, why=why, next=f"nothing was changed; {hint}")

    def _unknown(self, why: str) -> UnknownImage:
        return UnknownImage(name=self._wanted.text, why=why, known=reference.KNOWN)


_LOOK = "look at the registry's name, the network and the proxy, and repeat"
