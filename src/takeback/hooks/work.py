"""One event of a host, worked on in the child: a call in, exit code and output out.

Does not cover: what is answered when this does not come to its end (`__main__`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from takeback.hooks.host import AFTER, BEFORE, PROMPT, SESSION, STOP, Host

Reply = tuple[int, str, str]  # exit code, stdout, stderr
LET = "let"  # said early: a step runs should its hook fail
_NOTHING: Reply = (0, "", "")


def reply(host: Host, event: str, data: Mapping[str, Any], say: Callable[[str], None] | None = None) -> Reply:
    """Return what is answered to an event; raises whatever goes wrong.

    `say` gets LET where a policy lets steps run should this not come to its end.
    """
    from takeback.app import hooked

    kind = host.events[event]
    call = _call(host, kind, data)
    if kind == BEFORE:
        if say is not None and hooked.lets_through(call.cwd):
            say(LET)
        answer = hooked.before(call)
        if answer.act == "ask" and host.can_ask and call.attended:
            return 0, host.ask(event, answer.reason), ""
        return _NOTHING if answer.act == "nothing" else (2, "", answer.reason)
    if kind == AFTER:
        text = hooked.after(call, *host.ended(event, data))
    elif kind == PROMPT:
        text = hooked.prompt(call, str(data.get("prompt") or ""))
    elif kind == SESSION:
        return 0, host.greet(event, hooked.session_start(call)), ""
    else:
        assert kind == STOP, kind
        text = hooked.stop(call)
    return (0, host.say(event, text), "") if text else _NOTHING


def wrong(host: Host, event: str, data: Mapping[str, Any], say: Callable[[str], None], error: Exception) -> Reply:
    """Return what is answered when a known or unknown error came instead; `say` gets a line for `doctor`."""
    from takeback.app import hooked
    from takeback.errors import HomeDirectory, NoProject, TakebackError

    hint = error.hint_text if isinstance(error, TakebackError) else ""
    why = " ".join(filter(None, (str(error) if isinstance(error, TakebackError) else repr(error), hint)))
    if host.events[event] != BEFORE:
        if isinstance(error, HomeDirectory | NoProject):
            return 0, "", ""
        say(why)
        return (0, host.say(event, f"takeback: {why}"), "") if host.events[event] == SESSION else _NOTHING
    if hooked.is_paused(_cwd(data)):
        return _NOTHING
    if hooked.lets_through(_cwd(data)):
        say(why)
        return _NOTHING
    if not isinstance(error, HomeDirectory | NoProject):
        say(why)
    return 2, "", f"takeback could not save the project before this step, so it does not run: {why} {hooked.HINT}"


def _call(host: Host, kind: str, data: Mapping[str, Any]) -> Any:
    from takeback.app.hooked import Call

    given = data.get("tool_input")
    name = data.get("tool_name")
    return Call(
        host=host.name,
        session=host.session(data),
        cwd=_cwd(data),
        call_id=host.call_id(data),
        tool_name=name if isinstance(name, str) else "",
        tool_input=given if isinstance(given, Mapping) else {"input": given},
        attended=kind == BEFORE and host.can_ask and host.attended(data),
        goes_on=host.goes_on(data),
    )


def _cwd(data: Mapping[str, Any]) -> str:
    cwd = data.get("cwd")
    if isinstance(cwd, str) and cwd:
        return cwd
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.environ.get("PWD", "/")
