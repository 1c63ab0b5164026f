"""The seam for hooks of agents: what is about to run, what has run, what changed under an agent.

    before(call) -> Answer        nothing (it runs), ask (a person who is there is asked) or deny, with the reason
    after(call, exit, failed)     closes the step; a step that no hook saw begin is recorded all the same
    session_start  prompt  stop   what the agent, or its person, is told

Light by itself until a project is opened. Does not cover: the hosts' formats (`hooks`), or
the recording (`hooksteps`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from takeback.guard import Context, classify_tool
from takeback.guard.model import Class, Verdict, What
from takeback.guard.policy import Act, Decision

if TYPE_CHECKING:
    from takeback.app.hooksteps import HookSteps

_OWN = re.compile(r"\s*(?:\S*/)?(?:takeback|tb)\s[^;&|<>$`(){}\n\\]*")
_LONGEST = 2000


class Call(NamedTuple):
    """One tool call of an agent; `call_id` is empty where the host gives none, `cwd` may be gone by now."""

    host: str
    session: str
    cwd: str
    call_id: str
    tool_name: str
    tool_input: Mapping[str, Any]
    attended: bool = False
    goes_on: bool = False  # it runs in the background: what comes after the call is not its end

    @property
    def command(self) -> str | None:
        """The shell source of a call that runs one."""
        given = self.tool_input.get("command", self.tool_input.get("cmd"))
        return given if isinstance(given, str) and not given.lstrip().startswith("*** Begin Patch") else None

    @property
    def text(self) -> str:
        """What the step is called in the log."""
        if self.command is not None:
            return self.command[:_LONGEST]
        names = [str(self.tool_input[key]) for key in ("file_path", "filePath", "path") if key in self.tool_input]
        return " ".join([self.tool_name, *names])[:_LONGEST]


class Answer(NamedTuple):
    """What is answered before a step; `act` is nothing, ask or deny, `reason` is for the model and the person."""

    act: str
    reason: str = ""
    step: str | None = None


NOTHING = Answer("nothing")
HINT = "A person can run `takeback pause` to go on without takeback."


def before(call: Call) -> Answer:
    """Decide about a step and save what it can damage; raises TakebackError when that cannot be done."""
    from takeback.errors import TakebackError

    verdict, root = _verdict(call)
    if _is_own(call):
        return NOTHING
    try:
        project = _open(call)
    except TakebackError:
        if verdict.cls is Class.NONE and not verdict.brake:
            return NOTHING  # reading needs no project
        raise
    with project:
        if project.paused:
            return NOTHING
        judged = project.decided(call, verdict)
        decision = judged.decision
        if decision.act is Act.DENY:
            return Answer("deny", f"takeback: the policy does not allow this step ({_what(verdict, decision)}).")
        if decision.act in (Act.HOLD, Act.COPY):
            held = project.held(call, judged)
            if held:
                return Answer("deny", _waits(verdict, decision, held))
        try:
            step = project.begin(call, judged, _written(verdict, root))
        except TakebackError:
            if decision.act is Act.ALLOW:
                return NOTHING  # the record is lost, and nothing else
            raise
    if decision.act is Act.ASK:
        return Answer("ask", f"takeback: {decision.why}. No checkpoint covers all of it.", step)
    return Answer("nothing", "", step)


def after(call: Call, exit: int | None, failed: bool) -> str:
    """Close the step of a call; returns what the model should know, mostly nothing."""
    from takeback.errors import TakebackError

    if _is_own(call):
        return ""
    verdict, root = _verdict(call)
    try:
        with _open(call) as project:
            if project.paused:
                return ""
            return project.end(call, verdict, exit=exit, failed=failed, named=_written(verdict, root))
    except TakebackError:
        if verdict.cls is Class.NONE:
            return ""
        raise


def lets_through(cwd: str) -> bool:
    """Whether the policy lets a step run when takeback itself fails (`on_error`); False when that cannot be read."""
    try:
        from takeback import judge

        return judge.policy(judge.context(cwd).root).on_error is Act.ALLOW
    except Exception:  # asked when something is broken already
        return False


def session_start(call: Call) -> str:
    """Take the first checkpoint if there is none, and say in one line that undo is on."""
    from takeback.app.agents import trouble

    with _open(call) as project:
        if project.paused:
            return "takeback is paused in this project: nothing is saved until `takeback resume`."
        last = project.ready(call)
        line = f"takeback: undo is on in this project ({last}). `takeback undo` takes back the last step."
        return " ".join(filter(None, (line, trouble.sentence(project.data))))


def prompt(call: Call, text: str) -> str:
    """Mark a person's prompt, and say which files an undo changed under the agent since its last turn."""
    with _open(call) as project:
        if project.paused:
            return ""
        return project.prompted(call, text)


def stop(call: Call) -> str:
    """Close what is open at the end of a turn."""
    with _open(call) as project:
        if not project.paused:
            project.close_open(call)
    return ""


def is_paused(cwd: str) -> bool:
    """Whether a person paused takeback for the project around a folder; False when that cannot be read."""
    try:
        from takeback.app.hooksteps import HookSteps

        with HookSteps.open(cwd) as project:
            return project.paused
    except Exception:  # asked when something is broken already
        return False


def _verdict(call: Call) -> tuple[Verdict, str]:
    """Return the verdict and the folder its paths are relative to; a folder that is gone is judged as if empty."""
    from takeback import judge
    from takeback.errors import NoProject

    try:
        context = judge.context(call.cwd)
    except NoProject:
        context = Context(root=call.cwd or "/", cwd=call.cwd or "/")
    given = {"tool_name": call.tool_name, "tool_input": dict(call.tool_input)}
    return classify_tool(given, context, judge.library()), context.root


def _open(call: Call) -> HookSteps:
    from takeback.app.hooksteps import HookSteps

    return HookSteps.open(call.cwd)


def _is_own(call: Call) -> bool:
    """takeback's own undo, redo and run record themselves; a step around them would end the session's redo line."""
    return call.command is not None and _OWN.fullmatch(call.command) is not None


def _written(verdict: Verdict, root: str) -> list[bytes]:
    """Return the absolute paths a verdict says are written or deleted."""
    return [
        os.fsencode(os.path.join(root, effect.target))
        for effect in verdict.effects
        if effect.what in (What.WRITE, What.DELETE) and effect.target and "*" not in effect.target
    ]


def _what(verdict: Verdict, decision: Decision) -> str:
    said = f"{verdict.cls}: {decision.why}"
    return said if decision.rule in ("", "default") else f"{said}; {decision.rule}"


def _waits(verdict: Verdict, decision: Decision, held: str) -> str:
    what = _what(verdict, decision)
    return (
        f"takeback: this step waits for a person, since no checkpoint takes it back ({what}): {held}."
        " Do not try it another way; tell the person."
    )
