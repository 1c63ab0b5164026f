"""What the commands that do a task share: progress on stderr, the answer at the end, the exit code.

Does not cover: what any one of them does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback import documents
from takeback.cli.output import Face, printable
from takeback.cli.values import format_span

if TYPE_CHECKING:
    from takeback.tasks.model import Attempt, Task


def saying(face: Face) -> Callable[[str], None]:
    """Return what writes one line of progress to stderr."""
    return lambda text: face.note(printable(text))


def interruptible(work: Callable[[], Task], face: Face) -> Task:
    """Do the work; whoever ends it is told how to go on."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        face.note("Nothing is lost: `takeback tasks` shows the task, `takeback task resume ID` goes on with it.")
        raise


def ended(face: Face, task: Task) -> int:
    """Say what came of a task; 0 only when it landed."""
    face.answer(document(task))
    for line in lines(task):
        face.say(line)
    return 0 if task.outcome == "landed" else 1


def document(task: Task, **more: Any) -> dict[str, Any]:
    """Return a task as JSON has it."""
    return documents.document(**plain(task), **more)


def plain(task: Task) -> dict[str, Any]:
    """Return the fields of a task."""
    return {
        "id": task.id,
        "outcome": task.outcome,
        "reason": task.reason,
        "commit": task.commit or None,
        "branch": task.branch,
        "base": task.base,
        "before": task.before or None,
        "attempts": [attempt(one) for one in task.attempts],
        "flags": list(task.flags),
        "holds": list(task.holds),
        "revertible": task.revertible,
        "revert_reason": task.revert_reason,
        "reverted_by": task.reverted_by or None,
        "cost_usd": task.cost_usd,
        "notes": list(task.notes),
        "undo": task.undo or None,
    }


def attempt(one: Attempt) -> dict[str, Any]:
    """Return one attempt's fields."""
    return {
        "n": one.n,
        "outcome": one.outcome,
        "reason": one.reason,
        "checkpoint": one.checkpoint or None,
        "ref": one.ref or None,
        "diff": one.diff or None,
        "output": one.output or None,
        "verify": [{"cmd": c.cmd, "exit": c.exit, "seconds": c.seconds, "output": c.output} for c in one.verify],
        "flags": [{"name": f.name, "paths": list(f.paths), "detail": f.detail, "fails": f.fails} for f in one.flags],
        "commits": list(one.commits),
        "holds": list(one.holds),
        "agent_exit": one.agent_exit,
        "cost_usd": one.cost_usd,
        "refunded": one.refunded,
    }


def lines(task: Task) -> list[str]:
    """Return what came of a task, for people."""
    said = [attempt_line(one) for one in task.attempts]
    if task.holds:
        said.append(f"Waits for a person: {', '.join(task.holds)} (takeback holds)")
    if task.outcome == "landed":
        said.append(f"{task.id} landed as {task.commit[:12]} on {task.branch}")
        if task.reverted_by:
            said.append(f"It was reverted by {task.reverted_by[:12]}.")
        elif task.revertible is False:
            said.append(f"Too big or landed wrong: {printable(task.revert_reason)}")
        if task.undo:
            said.append(f"Take this back with: {task.undo}")
        return said
    said.append(f"{task.id}: {task.outcome}" + (f": {printable(task.reason)}" if task.reason else ""))
    if task.rolled_back:
        said.append(f"The tree is as it was before: {task.rolled_back}")
    saved = [one.checkpoint for one in task.attempts if one.checkpoint]
    if saved:
        said.append(f"See what the last attempt did with: takeback restore {saved[-1]} --to DIR")
    return said


def attempt_line(one: Attempt) -> str:
    """Return one attempt in a line."""
    checks = ", ".join(f"{printable(c.cmd)}: {c.exit} ({format_span(c.seconds)})" for c in one.verify)
    parts = [f"attempt {one.n}: {one.outcome}", one.checkpoint, checks]
    return "  ".join(part for part in parts if part)
