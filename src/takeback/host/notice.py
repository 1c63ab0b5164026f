"""Tell somebody: run a command line of the user's with a text on stdin, for a limited time.

It gets the clean environment and the system's own PATH: what an agent put on its PATH must not hear what is told.
Does not cover: what is told.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from takeback.host import process

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin"
# What a notice on somebody's desktop needs to be shown.
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XAUTHORITY")


def tell(line: str, text: bytes, *, env: Mapping[str, str], seconds: float) -> str:
    """Run `line` in a shell and return "" when it ended well, else what went wrong; never raises for what it does.

    When its time is over the command and all it started in its process group are ended.
    """
    passed = {name: os.environ[name] for name in _DESKTOP if name in os.environ}
    given = process.clean_environment({**passed, "PATH": _PATH, **env})
    try:
        popen = subprocess.Popen(
            ["/bin/sh", "-c", line], env=given, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"it could not be started: {error.strerror}"
    try:
        popen.communicate(text, seconds)
    except subprocess.TimeoutExpired:
        return f"it did not end within {seconds:g} s"
    finally:
        if popen.poll() is None:
            try:
                os.killpg(popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            popen.wait()
        if popen.stdin is not None:
            popen.stdin.close()
    return f"it ended with exit code {popen.returncode}" if popen.returncode else ""
