"""The tools: each calls what the command of its name calls, and answers with the same document as its `--json`.

Does not cover: what the documents hold (docs/reference/json.md). Nothing here approves, denies, pauses or forgets:
those are for a person.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple, ParamSpec

import anyio
import anyio.to_thread
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from takeback import documents, judge
from takeback.app.own_command import OwnCommand
from takeback.app.project import Project, open_for_restore
from takeback.errors import TakebackError, UsageError

P = ParamSpec("P")
Document = dict[str, Any]

Session = Annotated[str | None, Field(description="Only this session's steps.")]
Task = Annotated[str | None, Field(description="Only this task's steps.")]
Step = Annotated[str | None, Field(description="The step's id, as `log` has it (s7); else the newest one.")]
Paths = Annotated[list[str] | None, Field(description="Only these paths of the project.")]
Partial = Annotated[bool, Field(description="Leave out what conflicts and do the rest.")]
Shared = Annotated[bool, Field(description="Include changes that overlapping steps share.")]
DryRun = Annotated[bool, Field(description="Say what would happen; write nothing.")]
Yes = Annotated[bool, Field(description="Go on also when much would be deleted.")]

# Calls come in parallel; inside one process they take turns, as processes do by the project's lock.
_turn = threading.Lock()


def _answer(document: Document) -> CallToolResult:
    """Return a document as the result of a tool; one with an error as an error, told in words first."""
    error = document.get("error")
    text = json.dumps(document, ensure_ascii=False)
    if error is not None:
        text = "\n".join(line for line in (error["message"], error["hint"] and f"Hint: {error['hint']}") if line)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=document, is_error=error is not None
    )


def _answering(function: Callable[P, Document]) -> Callable[P, CallToolResult]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> CallToolResult:
        try:
            with _turn:
                return _answer(function(*args, **kwargs))
        except TakebackError as error:
            return _answer(documents.known_error(error))

    return call


@_answering
def explain(
    command: Annotated[str | None, Field(description="Shell source.")] = None,
    tool_call: Annotated[
        dict[str, Any] | None, Field(description="A tool call instead: its `tool_name` and `tool_input`.")
    ] = None,
) -> Document:
    """Say how far a command reaches, without running it: class none, files, state, machine or outside, and why."""
    if (command is None) == (tool_call is None):
        raise UsageError(detail="name either a command or a tool call")
    from takeback import guard

    context, library = judge.context(), judge.library()
    if tool_call is not None:
        verdict = guard.classify_tool(tool_call, context, library)
    else:
        verdict = guard.classify(command or "", context, library)
    return documents.redacted_document(**verdict.as_dict())


@_answering
def checkpoint(
    message: Annotated[str, Field(description="What this is a checkpoint of.")] = "",
    session: Annotated[str | None, Field(description="The session it belongs to.")] = None,
    task: Annotated[str | None, Field(description="The task it belongs to.")] = None,
) -> Document:
    """Save the project as it is now, outside the project. `restore` comes back to it."""
    with Project.open() as project:
        return documents.checkpoint(project.checkpoint(message, session=session, task=task))


@_answering
def log(
    limit: Annotated[int, Field(ge=1, le=1000, description="At most so many events.")] = 20,
    session: Session = None,
    task: Task = None,
) -> Document:
    """List steps, checkpoints, undos and restores with their ids, newest first."""
    with Project.open(strict=False) as project:
        return documents.document(events=project.log(limit=limit, session=session, task=task))


@_answering
def diff(
    a: Annotated[str | None, Field(description="A checkpoint or step (c12, s7); else the last checkpoint.")] = None,
    b: Annotated[str | None, Field(description="Another one; else the project as it is now.")] = None,
    paths: Paths = None,
    text: Annotated[bool, Field(description="Add `text`: the unified diff.")] = False,
) -> Document:
    """Say what differs between two checkpoints, or between one and now."""
    with Project.open(strict=False) as project:
        changes, unified = project.diff(a, b, paths or (), text=text)
    more = {"text": unified.decode("utf-8", "replace")} if text else {}
    return documents.document(a=a, b=b, changes=changes, **more)


@_answering
def undo(
    step: Step = None,
    session: Session = None,
    task: Task = None,
    prompt: Annotated[bool, Field(description="All steps since the last prompt a person gave.")] = False,
    partial: Partial = False,
    shared: Shared = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Document:
    """Take back exactly what one step changed; later work of other hands stays. On a conflict nothing is written."""
    with Project.open(strict=False) as project:
        return documents.restore(
            project.undo(
                step, session=session, task=task, prompt=prompt, partial=partial, shared=shared, dry_run=dry_run,
                yes=yes,
            )
        )  # fmt: skip


@_answering
def redo(
    step: Step = None,
    session: Session = None,
    task: Task = None,
    partial: Partial = False,
    shared: Shared = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Document:
    """Apply again what the newest undo, or the undo of `step`, took back."""
    with Project.open(strict=False) as project:
        return documents.restore(
            project.redo(step, session=session, task=task, partial=partial, shared=shared, dry_run=dry_run, yes=yes)
        )


@_answering
def restore(
    id: Annotated[str, Field(description="The checkpoint (c12), or a step: the state after it.")],
    paths: Paths = None,
    refs: Annotated[bool, Field(description="Move HEAD, branches and the stash too.")] = False,
    to: Annotated[str | None, Field(description="Write into this new or empty directory instead.")] = None,
    partial: Partial = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Document:
    """Put the whole project, or some paths, exactly to a checkpoint; what was there is saved first.

    To take back one step and keep later work, use `undo`.
    """
    target = None if to is None else os.path.abspath(to)
    with Project.open(strict=False) if target is None else open_for_restore(id) as project:
        return documents.restore(
            project.restore(id, paths or (), refs=refs, to=target, partial=partial, dry_run=dry_run, yes=yes)
        )


async def run(
    command: Annotated[str, Field(description="Shell source.")],
    message: Annotated[str, Field(description="What the step does; else the command itself.")] = "",
    session: Annotated[str | None, Field(description="The session the step belongs to.")] = None,
    task: Annotated[str | None, Field(description="The task the step belongs to.")] = None,
    timeout: Annotated[str | None, Field(description="End the step after this time: 30s, 10m.")] = None,
    verify: Annotated[list[str] | None, Field(description="Checks after the step: shell source each.")] = None,
    rollback: Annotated[bool, Field(description="Take the step back when it, or a check, fails.")] = True,
) -> CallToolResult:
    """Run a command in the project as one step that `undo` can take back; a step that fails is taken back at once.

    The answer has its exit code and, in `output`, the end of what it wrote. It has no terminal and no input. What
    leaves this machine is not run but held for a person.
    """
    named = {"--message": message, "--session": session, "--task": task, "--timeout": timeout}
    options = [f"{name}={value}" for name, value in named.items() if value]
    options += [f"--verify={check}" for check in verify or ()] + ([] if rollback else ["--no-rollback"])
    ran = OwnCommand(["run", "--json", "--quiet", *options, "--", command])
    try:
        document = await anyio.to_thread.run_sync(ran.finish, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        # The command is ended and its end recorded before we go.
        ran.stop()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(ran.wait)
        raise
    if document.get("id") and "error" not in document:
        document["output"] = await anyio.to_thread.run_sync(_output, document["id"])
    return _answer(document)


def _output(step: str) -> str:
    """Return the end of what a step wrote, as it was recorded."""
    with _turn, Project.open() as project:
        event = next((event for event in project.log(limit=100) if event.id == step), None)
    return str(documents.event(event)["data"].get("tail", "")) if event is not None else ""


async def holds(
    all: Annotated[bool, Field(description="Also those that ended.")] = False,
) -> CallToolResult:
    """List what was held because no checkpoint covers it, and what became of it. Only a person approves or denies."""
    listed = OwnCommand(["holds", "--json", *(["--all"] if all else [])])
    return _answer(await anyio.to_thread.run_sync(listed.finish))


class Tool(NamedTuple):
    """A tool, and what hosts are told about it: whether it only reads, destroys, leaves this machine."""

    function: Callable[..., CallToolResult | Awaitable[CallToolResult]]
    annotations: ToolAnnotations


_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# All of these can themselves be taken back, so nothing is destroyed.
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)

ALL = (
    Tool(explain, _READS),
    Tool(checkpoint, _CHANGES),
    Tool(log, _READS),
    Tool(diff, _READS),
    Tool(undo, _CHANGES),
    Tool(redo, _CHANGES),
    Tool(restore, _CHANGES),
    Tool(run, _RUNS),
    Tool(holds, _READS),
)
