"""What a request says should run, as a command for the supervisor; and what came of it, as callers see it.

Does not cover: running it (`processes`, `commands`).
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from takeback.errors import (
    FileNotFound,
    InvalidRequest,
    NotStarted,
    PermissionDenied,
    ProcessLimit,
    TakebackError,
)
from takeback.machines.channel.messages import Command, Ended, Listed
from takeback.machines.model import Account, SandboxRecord, utc
from takeback.machines.network.environment import proxy_environment

DAY_MS = 86_400_000
FILES = "/.takeback/init"
ROOT = Account("root", 0, 0, (), "/root")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELLS = ("bash", "sh")
_STEP, _STEPS = 200, 8  # characters of a command, commands


def account_of(record: SandboxRecord, user: str | None) -> Account:
    """Return whom a command runs as. Raises InvalidRequest."""
    user = user or record.user
    if user == "root":
        return ROOT
    if user in ("sandbox", record.base.account.name):
        return record.base.account
    known = f"'sandbox' (here {record.base.account.name}) or 'root'"
    raise InvalidRequest(detail=f"there is no user {user!r} for commands", next=f"say {known}")


def command_of(record: SandboxRecord, request: Mapping[str, Any], *, session: bool, shell: str = "bash") -> Command:
    """Return what a request wants to be run; a text goes to the shell. Raises InvalidRequest."""
    account = account_of(record, request.get("user"))
    argv = [shell, "-c", request["command"]] if "command" in request else request["argv"]
    timeout = request.get("timeout_ms") or 0
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 0 <= timeout <= DAY_MS:
        raise InvalidRequest(detail=f"timeout_ms={timeout!r}", next=f"it must be from 1 to {DAY_MS}, a day")
    env = request.get("env") or {}
    for name, value in env.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise InvalidRequest(detail=f"env has a variable {name!r}", next="names without = and NUL")
    if any("\0" in word for word in argv):
        raise InvalidRequest(detail="a command with a NUL byte", next="no argument of a program can hold one")
    size = request.get("pty")
    return Command(
        argv=argv,
        env={**environment(record, account), **({"TERM": "xterm-256color"} if size else {}), **env},
        cwd=request.get("cwd") or record.base.workdir,
        uid=account.uid,
        gid=account.gid,
        groups=account.groups or (account.gid,),
        timeout_ms=timeout,
        stdin=bool(request.get("stdin")),
        pty=(int(size["cols"]), int(size["rows"])) if size else None,
        session=session,
    )


def environment(record: SandboxRecord, account: Account) -> dict[str, str]:
    """Return the environment a command has before its own: the image's, the way outside, the user's, the sandbox's."""
    path, own = record.base.env.get("PATH", _PATH), f"{record.base.workdir.rstrip('/')}/.local/bin"
    if own not in path.split(":"):
        path = f"{own}:{path}"
    mine = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "PATH": path}
    return {"LANG": "C.UTF-8", **record.base.env, **proxy_environment(), **mine, **record.env}


def step_of(commands: Iterable[Sequence[str | bytes]]) -> str:
    """Return the one command in one line, for logs; of several all, since nobody can tell which of them it was."""
    asked = [[os.fsdecode(word) for word in words] for words in commands]
    texts = [" ".join(_shown(words).split())[:_STEP] for words in asked if words[:1] != [FILES]]
    if len(texts) < 2:
        return "".join(texts)
    more = f" | and {len(texts) - _STEPS} more" if len(texts) > _STEPS else ""
    return "one of: " + " | ".join(texts[:_STEPS]) + more


def _shown(words: Sequence[str]) -> str:
    return words[2] if len(words) == 3 and words[0] in _SHELLS and words[1] == "-c" else shlex.join(words)


def other_shell(command: Command) -> Command | None:
    """Return the command for sh when it was for bash, for images that have no bash."""
    if list(command.argv[:2]) != [_SHELLS[0], "-c"]:
        return None
    return Command(**{**vars(command), "argv": [_SHELLS[1], *command.argv[1:]]})


def name_of(process: int) -> str:
    """Return a process's id as callers see it."""
    return f"p{process:08x}"


def number_of(name: str) -> int | None:
    """Return the number in an id, or None when it is none."""
    if len(name) != 9 or name[0] != "p" or set(name[1:]) - set("0123456789abcdef"):
        return None
    return int(name[1:], 16)


def code_of(error: NotStarted) -> int:
    """Return the exit code a shell would have given for what never ran."""
    if error.fields["stage"] != "exec":
        return 1
    return 127 if error.fields["errno"] == errno.ENOENT else 126


def line_of(error: NotStarted) -> bytes:
    """Return what a shell would have said."""
    path, why = error.fields["path"], os.strerror(error.fields["errno"])
    said = f"cd: {path}: {why}" if error.fields["stage"] == "cwd" else f"{path or error.fields['program']}: {why}"
    return f"takeback: {said}\n".encode("utf-8", "surrogateescape")


def error_of(error: NotStarted, sandbox_id: str) -> TakebackError:
    """Return the error of a `spawn` that did not start."""
    number, stage = error.fields["errno"], error.fields["stage"]
    path = error.fields["path"] or error.fields["program"]
    if stage in ("limit", "fork") or number == errno.EAGAIN:
        return ProcessLimit(id=sandbox_id, why=error.fields["why"])
    if number in (errno.ENOENT, errno.ENOTDIR):
        return FileNotFound(path=path)
    if number in (errno.EACCES, errno.EPERM):
        return PermissionDenied(path=path)
    return error


def is_ours(one: Listed) -> bool:
    """Whether a process does a file operation, which is nobody's business."""
    return bool(one.argv) and one.argv[0] == FILES.encode()


def exit_code(ended: Ended) -> int | None:
    """None when it was out of time, 128+n when signal n ended it."""
    if ended.timed_out:
        return None
    return 128 + ended.signo if ended.signo else ended.status


def state_of(ended: Ended) -> str:
    return "timed_out" if ended.timed_out else "killed" if ended.signo else "exited"


def end_of(name: str, ended: Ended) -> dict[str, Any]:
    """Return the end of a process as callers see it."""
    return {
        "processId": name,
        "exitCode": exit_code(ended),
        "state": state_of(ended),
        "timedOut": ended.timed_out,
        "durationMs": ended.duration_ms,
        "outputBytes": ended.total,
    }


def unfinished(name: str) -> dict[str, Any]:
    """Return the answer about a process that still runs."""
    return {
        "processId": name,
        "exitCode": None,
        "state": "running",
        "timedOut": False,
        "durationMs": 0,
        "outputBytes": None,
    }


def record_of(sandbox: SandboxRecord, one: Listed) -> dict[str, Any]:
    """Return a process as callers see it."""
    shown = _shown([word.decode("utf-8", "replace") for word in one.argv])
    return {
        "id": name_of(one.id),
        "kind": "process",
        "state": state_of(one.ended) if one.ended is not None else "running",
        "exitCode": exit_code(one.ended) if one.ended is not None else None,
        "command": shown,
        "cwd": one.cwd.decode("utf-8", "replace"),
        "user": "root" if one.uid == 0 and sandbox.base.account.uid != 0 else "sandbox",
        "pid": one.pid,
        "pty": one.pty,
        "stdinOpen": one.stdin_open,
        "stdinOffset": one.stdin_total,
        "outputEncoding": "utf8",
        "startedAt": utc(one.started_ms * 1_000_000),
        "endedAt": utc(one.ended_ms * 1_000_000),
        "timeoutMs": one.timeout_ms,
        "outputBytes": one.total,
        "firstOffset": one.first,
    }


def signal_number(asked: object) -> int:
    """Return the number of a signal: 15, "15", "TERM" and "SIGTERM" are the same. Raises InvalidRequest."""
    text = str(asked).upper()
    if text.isdigit() and 0 < int(text) <= signal.SIGRTMAX:
        return int(text)
    try:
        return int(signal.Signals["SIG" + text.removeprefix("SIG")])
    except KeyError:
        raise InvalidRequest(detail=f"there is no signal {asked!r}", next="SIGTERM, SIGINT, SIGKILL, ...") from None
