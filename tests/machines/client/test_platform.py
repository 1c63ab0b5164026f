"""Sandboxes where the engine's usual way to run programs does not work."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.machines.client.conftest import World
from tests.machines.client.faces import Face


async def test_sandboxes_run_are_copied_and_restored_on_ptrace_where_systrap_fails(
    world: World, one: Face, gvisor: tuple[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "runsc"
    script.write_text(
        '#!/bin/sh\nfor one in "$@"; do [ "$one" != --platform=systrap ] || exit 5; done\n'
        f'exec {gvisor[0]}/runsc "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with await one.create() as box:
        assert (await box.exec("echo here")).stdout == "here\n"
        record = json.loads((world.directory.sandbox(box.id) / "engine.json").read_bytes())
        assert record["current"]["platform"] == "ptrace"
        copy = await box.fork()
        assert (await copy.exec("echo there")).stdout == "there\n"
        await copy.delete()


async def test_a_platform_that_is_asked_for_is_used_where_it_works(world: World, one: Face) -> None:
    world.client.platform = "ptrace"
    async with await one.create() as box:
        assert (await box.exec("echo here")).stdout == "here\n"
        record = json.loads((world.directory.sandbox(box.id) / "engine.json").read_bytes())
        assert record["current"]["platform"] == "ptrace"
