"""Give a sandbox's user the folders that work begins in, where the image has one owner for all files.

An ordinary user's image belongs to that user altogether, and all of it is root's inside. Owners that are changed inside
are kept by the engine, in the sandbox's memory.

Does not cover: what lies in those folders; changing owners copies files, and there may be many.
"""

from __future__ import annotations

import logging

from takeback.errors import TakebackError
from takeback.machines.channel.messages import Command
from takeback.machines.keeper.machine import Life

log = logging.getLogger("takeback.keeper")
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_LIMIT_MS = 10_000


async def give(life: Life) -> None:
    """Do it, in a sandbox that has just started; one without `chown` goes on without."""
    base = life.record.base
    account = base.account
    folders = sorted({account.home, base.workdir} - {"/"})
    if not base.one_owner or not account.uid or not folders:
        return
    argv = ["chown", f"{account.uid}:{account.gid}", "--", *folders]
    try:
        link = await life.link()
        started = await link.spawn(Command(argv=argv, env=_ENV, timeout_ms=_LIMIT_MS), follow=False)
        ended = await link.wait(started.id)
        await link.forget(started.id)
        if ended.status:
            log.info("sandbox %s: some of %s stay root's", life.record.id, ", ".join(folders))
    except TakebackError as error:
        log.info("sandbox %s: its user was given no folder: %s", life.record.id, error)
