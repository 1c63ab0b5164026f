"""Machines for the pages about them."""

from tests.machines.client.conftest import gvisor, supervisor, world

__all__ = ["gvisor", "supervisor", "world"]
