"""What a sandbox is made of, changed afterwards: its size, its image, and for how long it is kept when paused.

    resize          stop (disk kept) -> new size in its record -> boot from that disk
    switch-image    boot the image beside it -> /workspace goes over -> the one takes the other's place, as in a restore

Does not cover: settings that need no other machine (`sandboxes.update`).
"""

from __future__ import annotations

import logging
from typing import Any

from takeback.errors import FileRefused, InvalidRequest, MachineRefused, TakebackError, Unsupported
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Ended, Gap
from takeback.machines.engine import DiskKind
from takeback.machines.keeper import firsts
from takeback.machines.keeper.creation import base_of, checked
from takeback.machines.keeper.files import answer_of, error_of, gathered
from takeback.machines.keeper.programs import FILES, ROOT
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.keeper.snapshots import days_of
from takeback.machines.model import WORKSPACE, Account, SandboxState

log = logging.getLogger("takeback.keeper")
_SIZE = ("vcpu", "memory_mib", "disk_mib")


async def retention(call: Call) -> dict[str, Any]:
    """Set for how many days a paused sandbox is kept, None for ever."""
    life = call.life()
    life.change(retention_days=days_of(call.request["days"]))
    return life.shown()


async def resize(call: Call) -> dict[str, Any]:
    """Give a sandbox another size. When it does not boot with that, it has its old one again, and the error tells."""
    life, asked = call.life(), call.request["fields"]
    wanted = checked({name: asked[name] for name in _SIZE if name in asked})
    if not wanted:
        raise InvalidRequest(detail="a resize to no size", next="name vcpu, memory_mib or disk_mib")
    runs = life.record.state != SandboxState.STOPPED
    if runs and not call.request["restart"]:
        raise InvalidRequest(detail="a resize of a sandbox that runs", next="stop it first, or say restart=True")
    if life.record.disk == DiskKind.MEMORY:
        raise Unsupported(what="another size for a sandbox whose disk is in memory", next="make a new one of that size")
    before = {name: getattr(life.record, name) for name in wanted}
    if runs:
        await life.stop("resized")
    life.reshape(**wanted)
    if runs:
        try:
            await life.restart()
        except TakebackError:
            life.reshape(**before)
            await life.restart()
            raise
    return life.shown()


async def switch_image(call: Call) -> dict[str, Any]:
    """Boot a sandbox from another image with its own /workspace; when anything fails it goes on as it was."""
    base = base_of(call.request["fields"])
    async with call.using() as life:
        if base.live and life.record.disk != DiskKind.MEMORY:
            raise InvalidRequest(
                detail=f"the image {base.image!r} for a sandbox with a disk of its own",
                next="make a new sandbox of it",
            )

        async def fill(old: Link, new: Link) -> None:
            await _carry(old, new, base.account)

        supervisor = str(call.request["fields"]["supervisor"])
        replaced = await life.reboot(fill, base=base, supervisor=supervisor, born_of=None)
        call.keeper.background(life.drop(replaced))
        try:
            await firsts.after_boot(life)
        except TakebackError as error:  # it has the new image all the same, and nothing to go back to
            log.warning("sandbox %s: its image's own command was not started: %s", life.record.id, error)
        return life.shown()


async def _carry(old: Link, new: Link, account: Account) -> None:
    """Fill /workspace of one machine from another's; all of it is the account's then. Raises what file calls raise."""
    groups = account.groups or (account.gid,)
    owner = f"{account.uid}:{account.gid}"
    await _as_root(new, [FILES, "file", "mkdir", WORKSPACE, "1"])
    await _as_root(new, ["chown", owner, "--", WORKSPACE])
    packing = await old.spawn(Command(argv=[FILES, "file", "pack", WORKSPACE], uid=0, gid=0, groups=(ROOT.gid,)))
    unpack = Command(
        argv=[FILES, "file", "unpack", WORKSPACE], uid=account.uid, gid=account.gid, groups=groups, stdin=True
    )
    assert packing.output is not None
    try:
        unpacking = await new.spawn(unpack)
    except BaseException:
        packing.output.close()
        raise
    assert unpacking.output is not None
    said = b""
    try:
        async for told in packing.output:
            if isinstance(told, Gap):
                raise FileRefused(path=WORKSPACE, why="it was read too slowly, and bytes are lost; repeat")
            if isinstance(told, Ended):
                if told.status != 0:
                    raise error_of(said, WORKSPACE)
            elif told.stderr:
                said = told.data
            elif not await _given(new, unpacking.id, told.data):
                break
        await _given(new, unpacking.id, b"", eof=True)
        _, complaint, ended = await gathered(unpacking.output, None)
        if ended.status != 0:
            raise error_of(complaint, WORKSPACE)
    finally:
        packing.output.close()
        unpacking.output.close()


async def _given(link: Link, process: int, data: bytes, *, eof: bool = False) -> bool:
    """Write to a process, and return whether it still reads; one that has ended says why."""
    try:
        await link.write_stdin(process, data, eof=eof)
    except MachineRefused:
        return False
    return True


async def _as_root(link: Link, argv: list[str]) -> None:
    command = Command(argv=argv, uid=0, gid=0, groups=(ROOT.gid,))
    _, said, ended = await answer_of(link, command)
    if ended.status != 0:
        raise error_of(said, WORKSPACE)


OPERATIONS = {
    "retention": Operation(retention, leaves=False),
    "reshape": Operation(resize, leaves=False),
    "switch-image": Operation(switch_image, leaves=False),
}
