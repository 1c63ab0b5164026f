"""One task as `takeback show t:ID` draws it: attempts, commit, what came later, whether its revert applies now.

Does not cover: other events (`takeback.cli.show`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face, printable
from takeback.cli.task import common
from takeback.cli.values import format_age

if TYPE_CHECKING:
    from takeback.tasks.model import Task
    from takeback.tasks.views import Now


def show(face: Face, id: str) -> int:
    """Show a task by its id, with `t:` or without."""
    from takeback.app.tasks import show_task

    with options.opened(face, strict=False) as project:
        task, now = show_task(project, id)
    later = [
        {"task": one.task, "commit": one.commit, "files": list(one.files), "lines": one.lines} for one in now.later
    ]
    face.answer(
        documents.document(
            **common.plain(task), created_ns=task.created_ns, prompt=task.wish.prompt, agent=task.wish.agent,
            red_before=list(task.red), files=now.files, applies=now.applies, conflicts=now.conflicts,
            revert_first=now.first, later=later, holding=now.branch or None,
        )
    )  # fmt: skip
    for line in lines(task, now):
        face.data(line)
    return 0


def lines(task: Task, now: Now) -> list[str]:
    """Return what is known of a task, for people."""
    subject = printable(task.wish.prompt.strip().partition("\n")[0][:200])
    how = "reverted" if now.reverted_by else task.outcome
    said = [f"t:{task.id}  {format_age((time.time_ns() - task.created_ns) / 1e9)}  {how}", f"  {subject}"]
    if task.reason:
        said.append(f"  {'why':<8} {printable(task.reason)}")
    said += [f"  {common.attempt_line(one)}" for one in task.attempts]
    if task.cost_usd is not None:
        said.append(f"  {'cost':<8} {task.cost_usd:.4f} USD")
    if not task.commit:
        return said
    said.append(f"  {'commit':<8} {task.commit[:12]} on {printable(now.branch or task.branch)}")
    said.append(f"  {'files':<8} {draw.number(len(now.files), 'file')}: {printable(', '.join(now.files[:8]))}")
    if now.reverted_by:
        return [*said, f"  {'reverted':<8} by {now.reverted_by[:12]}"]
    if task.revertible is False:
        said.append(f"  {'landed':<8} too big or wrong: {printable(task.revert_reason)}")
    for one in now.later:
        what = "lines" if one.lines else "files"
        said.append(f"  {'later':<8} {one.task} touches the same {what}: {printable(', '.join(one.files[:4]))}")
    if now.applies:
        said.append(f"  {'undo':<8} takeback revert {task.id}")
    elif now.applies is False:
        first = f"; first: {', '.join(now.first)}" if now.first else ""
        said.append(f"  {'undo':<8} conflicts now in {printable(', '.join(now.conflicts[:4]))}{first}")
    elif now.reason:
        said.append(f"  {'undo':<8} {printable(now.reason)}")
    return said
