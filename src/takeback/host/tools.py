"""Run tools of the system: a short question, or long work whose lines are handed on as they come.

Does not cover: git and whatever is fed or piped (`process`), or an agent's own steps (`command`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from takeback.errors import TimedOut
from takeback.host import process

_KEPT_LINES = 200
_GRACE = 30.0
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")


def environment() -> dict[str, str]:
    """Return the environment for system tools: the clean one, with proxies and the folders of system programs."""
    env = process.clean_environment({name: os.environ[name] for name in _PROXIES if name in os.environ})
    env.pop("TMPDIR", None)  # it need not exist in a system that is being made
    env["PATH"] = env.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    env["DEBIAN_FRONTEND"] = "noninteractive"
    return env


def have(*names: str) -> bool:
    """Whether all these programs are on this machine."""
    path = environment()["PATH"]
    return all(shutil.which(name, path=path) for name in names)


def ask(
    argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None, split: bool = False
) -> tuple[int, str]:
    """Run a program and return its exit code with all it said; 127 when it cannot be started, 124 when it hangs.

    With `split` only what it wrote to stdout. The folders of system programs are searched too.
    """
    try:
        done = process.start(argv, env=environment() if env is None else env, cwd="/").finish(timeout)
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {timeout:g} s"
    except OSError as error:
        return 127, error.strerror or str(error)
    return done.code, (done.out if split else done.out + done.err).decode("utf-8", "replace")


def follow(
    argv: Sequence[str], *, env: Mapping[str, str], on_line: Callable[[str], None], timeout: float
) -> tuple[int, list[str]]:
    """Run a process to its end, calling `on_line` with each line of stdout and stderr; give its code and last lines.

    After `timeout` seconds, or when `on_line` raises, its whole process group is ended. Raises FileNotFoundError, and
    TimedOut.
    """
    popen = subprocess.Popen(
        argv,
        env=dict(env),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    late = threading.Event()

    def give_up() -> None:
        late.set()
        _signal(popen, signal.SIGTERM)

    timer = threading.Timer(timeout, give_up)
    timer.start()
    lines: list[str] = []
    try:
        assert popen.stdout is not None
        for raw in popen.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            lines.append(line)
            del lines[:-_KEPT_LINES]
            on_line(line)
        code = popen.wait()
    except BaseException:
        _end(popen)
        raise
    finally:
        timer.cancel()
        if popen.stdout is not None:
            popen.stdout.close()
    if late.is_set():
        raise TimedOut(what=argv[0], seconds=timeout)
    return code, lines


def _end(popen: subprocess.Popen[bytes]) -> None:
    # TERM first: these tools undo their mounts and remove their temporary files then.
    _signal(popen, signal.SIGTERM)
    try:
        popen.wait(_GRACE)
    except subprocess.TimeoutExpired:
        _signal(popen, signal.SIGKILL)
        popen.wait()


def _signal(popen: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(popen.pid, number)
    except ProcessLookupError:
        pass
