"""Layouts, the tools that unpack them, and worlds whose sandboxes run on an image under test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from takeback.machines import making
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.images import oci_tools
from takeback.machines.images.base import Image
from takeback.machines.layout import MachinesDir
from takeback.machines.making import silent
from takeback.sandboxes import base_of
from tests.machines.client.conftest import World, default_base, gvisor, supervisor, world
from tests.support import machines, oci

__all__ = ["default_base", "gvisor", "supervisor", "world"]


@pytest.fixture(scope="session")
def toolbox() -> Path:
    """The folder of takeback's own skopeo and umoci, fetched once for the clone."""
    if machines.why_not():
        pytest.skip(machines.why_not())
    own = machines.setup().machines
    making.prepare(own)
    for name in ("umoci", "skopeo"):
        oci_tools.ensure(name, own.tools, silent)
    return own.tools


@pytest.fixture
def store(toolbox: Path, tmp_path: Path) -> MachinesDir:
    """An empty data directory with those tools."""
    made = MachinesDir(tmp_path / "data" / "machines")
    made.root.mkdir(parents=True)
    os.symlink(toolbox, made.tools)
    return made


@pytest.fixture
def layout(tmp_path: Path) -> oci.Layout:
    return oci.Layout(tmp_path / "layout")


@pytest.fixture(scope="session")
def system_layer() -> bytes:
    """A layer with a shell in it."""
    if machines.why_not():
        pytest.skip(machines.why_not())
    image = machines.ready().image
    assert image is not None
    return oci.system(image.rootfs)


def sandbox(world: World, image: Image, **fields: Any) -> Sandbox:
    """Start a sandbox on an image."""

    def prepare(given: Any) -> Any:
        return {**given, "base": base_of(image), "supervisor": str(world.supervisor)}

    return Sandbox.create(client=Client(world.data, prepare=prepare), **fields)
