"""Sandboxes with this user's settings: where their data lies, and the set-up of what is missing.

Does not cover: what a sandbox can do (`machines.client`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from takeback import config as configs
from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.chain import AsyncChain, Chain
from takeback.machines.client.connect import Client
from takeback.machines.client.explore import Exploration, explore
from takeback.machines.client.results import CommandResult
from takeback.machines.client.runtime import AsyncRuntime, Runtime
from takeback.machines.client.sandbox import Sandbox, SandboxRecord
from takeback.machines.client.snapshots import AsyncSnapshots, Snapshots
from takeback.machines.client.trial import Trial, try_in_copy
from takeback.machines.images import catalogue
from takeback.machines.images.base import Image
from takeback.machines.layout import MachinesDir
from takeback.machines.making import Report
from takeback.machines.model import WORKSPACE
from takeback.machines.setup import Setup
from takeback.machines.supervisor.build import supervisor_binary

__all__ = [
    "AsyncChain", "AsyncRuntime", "AsyncSandbox", "AsyncSnapshots", "Chain", "Client", "CommandResult", "Exploration",
    "Runtime", "Sandbox", "Snapshots", "Trial", "client", "explore", "snapshots", "try_in_copy",
]  # fmt: skip


def client(*, report: Report | None = None) -> Client:
    """Return the way to this user's sandboxes; what a create sets up is told to `report`, else to a terminal.

    Raises BadSetting, CannotRead.
    """
    config = configs.load(os.environ)
    data = config.data
    platform = config.machines.platform
    setup = Setup(MachinesDir(data / "machines"), os.environ.get("PATH", os.defpath), platform=platform)
    return Client(
        data,
        prepare=preparation(setup, report or _to_terminal),
        environ=os.environ,
        prices=config.machines.prices,
        stored_limit=config.machines.stored,
        platform=platform,
        ahead=config.machines.ahead,
    )


def preparation(setup: Setup, report: Report) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what makes the fields of a create complete: engine and image are brought here if they are missing."""
    known: dict[str, dict[str, Any]] = {}

    def prepare(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        image = fields.get("image") or catalogue.DEFAULT
        # Looking at it all takes longer than starting a sandbox: once for each image, while it stays in its place.
        # What is to be hidden of this machine's own root is looked for each time.
        kept = known.get(image)
        if kept is None or kept["base"]["live"] or not os.path.isdir(kept["base"]["root"]):
            known[image] = _prepared(setup, image, report)
        return {**fields, **known[image]}

    return prepare


def _prepared(setup: Setup, image: str, report: Report) -> dict[str, Any]:
    found = setup.ensure(image, report=report).image
    assert found is not None
    return {"base": base_of(found), "supervisor": str(supervisor_binary(setup.machines).parent)}


def base_of(image: Image) -> dict[str, Any]:
    """Return what the keeper is told about an image."""
    home = image.home or image.cwd
    return {
        "image": f"{image.name}@{image.version}" if image.version else image.name,
        "root": str(image.rootfs),
        "account": {
            "name": image.user, "uid": image.uid, "gid": image.gid, "groups": image.groups, "home": home,
        },
        "workdir": image.cwd or WORKSPACE,
        "env": dict(image.env),
        "masked": image.masked,
        "scratch": image.scratch,
        "seen": image.seen,
        "shown": image.shown,
        "live": image.live,
        "start": image.start or (),
        "one_owner": image.one_owner,
    }  # fmt: skip


def _to_terminal(what: str) -> None:
    # The first create takes a minute: somebody who waits at a terminal is told why, a program's output stays clean.
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"takeback: {what}", file=sys.stderr)


SandboxRecord.default_client = staticmethod(client)
snapshots = Snapshots()
