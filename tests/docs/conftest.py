"""Machines for the pages about them."""

from tests.machines.client.conftest import default_base, gvisor, supervisor, world

__all__ = ["default_base", "gvisor", "supervisor", "world"]
