"""What a copy is told about itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from takeback.machines.channel.link import Link
from tests.support.guest import Guest, shell, until

ID = "0123456789abcdef0123456789abcdef"


def told(guest: Guest, generation: int = 5) -> None:
    guest.run(lambda link: link.identity(generation, machine_id=ID, hostname="copy", seed=b"s" * 64))


def test_machine_id_and_generation_are_written(guest: Guest, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir()
    (root / "etc/machine-id").write_text("old\n")
    (root / "var/lib/dbus").mkdir(parents=True)
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    told(guest)
    assert (root / "etc/machine-id").read_text() == ID + "\n"
    assert (root / "var/lib/dbus/machine-id").is_symlink()
    assert (root / "run/takeback/generation").read_text() == "5\n"
    (root / "var/lib/dbus/machine-id").unlink()
    (root / "var/lib/dbus/machine-id").write_text("old\n")
    told(guest, 2**63)
    assert (root / "var/lib/dbus/machine-id").read_text() == ID + "\n"
    assert (root / "run/takeback/generation").read_text() == f"{2**63}\n"
    assert [path.name for path in (root / "run/takeback").iterdir()] == ["generation"]


def test_the_generation_is_told_to_the_next_host(guest: Guest) -> None:
    told(guest, 9)

    async def attach() -> int:
        link = guest.link()
        try:
            return (await link.attach()).generation
        finally:
            link.close()

    assert asyncio.run(attach()) == 9


def test_the_hook_runs_before_the_answer(guest: Guest, tmp_path: Path) -> None:
    hook = tmp_path / "root/etc/takeback/on-copy"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\nsleep 0.3\necho $TAKEBACK_GENERATION > {tmp_path}/hooked\n")
    hook.chmod(0o755)
    told(guest, 6)
    assert (tmp_path / "hooked").read_text() == "6\n"
    hook.chmod(0o644)
    told(guest, 7)
    assert (tmp_path / "hooked").read_text() == "6\n"


def test_a_hook_that_hangs_is_not_waited_for(guest: Guest, tmp_path: Path) -> None:
    hook = tmp_path / "root/etc/takeback/on-copy"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 5\necho end > {tmp_path}/end\n")
    hook.chmod(0o755)

    async def body(link: Link) -> None:
        await link.identity(1, machine_id=ID, hostname="copy", seed=b"")
        assert (tmp_path / "pid").exists() and not (tmp_path / "end").exists()
        assert (await shell(link, "echo well")).out == b"well\n"
        await until(lambda: (tmp_path / "end").exists())

    guest.run(body)
