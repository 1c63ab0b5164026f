"""What is done in a sandbox when it has booted for the first time, because its image says so.

Its user gets the folders that work begins in, where the image has one owner for all files: an ordinary user's image
belongs to that user altogether, and all of it is root's inside. Owners that are changed inside are kept by the engine,
in the sandbox's memory. Then the image's own command is started, with nobody to type for it.

Does not cover: what lies in those folders; changing owners copies files, and there may be many.
"""

from __future__ import annotations

import logging
from typing import Any

from takeback.errors import NotStarted, TakebackError
from takeback.machines.channel.messages import Command
from takeback.machines.keeper import programs
from takeback.machines.keeper.machine import Life

log = logging.getLogger("takeback.keeper")
_LIMIT_MS = 10_000


async def after_boot(life: Life) -> dict[str, Any] | None:
    """Do it all; return what became of the image's command, or None when it has none."""
    await _give_folders(life)
    return await _start(life)


async def _give_folders(life: Life) -> None:
    """One without `chown` goes on without."""
    base = life.record.base
    account = base.account
    folders = sorted({account.home, base.workdir} - {"/"})
    if not base.one_owner or not account.uid or not folders:
        return
    argv = ["chown", f"{account.uid}:{account.gid}", "--", *folders]
    env = programs.environment(life.record, programs.ROOT)
    try:
        link = await life.link()
        started = await link.spawn(Command(argv=argv, env=env, timeout_ms=_LIMIT_MS), follow=False)
        ended = await link.wait(started.id)
        await link.forget(started.id)
        if ended.status:
            log.info("sandbox %s: some of %s stay root's", life.record.id, ", ".join(folders))
    except TakebackError as error:
        log.info("sandbox %s: its user was given no folder: %s", life.record.id, error)


async def _start(life: Life) -> dict[str, Any] | None:
    base = life.record.base
    if not base.start:
        return None
    # Not the sandbox's own user: the image says who runs what it was made for.
    request = {"argv": list(base.start), "user": base.account.name}
    try:
        link = await life.link()
        started = await link.spawn(programs.command_of(life.record, request, session=False), follow=False)
    except NotStarted as error:
        return {"state": "not_running", "exitCode": programs.code_of(error)}
    return {"state": "started", "processId": programs.name_of(started.id)}
