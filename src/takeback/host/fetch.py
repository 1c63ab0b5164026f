"""Fetch a file over HTTP(S) with curl or wget: takeback itself speaks to no network.

Does not cover: whether what came is what was wanted (see the checksums of whoever asks).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from takeback.errors import FetchFailed, ToolMissing
from takeback.host import process, tools


def fetch(url: str, into: Path, *, timeout: float = 900.0) -> None:
    """Write what is at `url` into a new file. Raises FetchFailed, with no file left, and ToolMissing."""
    env = tools.environment()
    secure = url.startswith("https:")
    if tools.have("curl"):
        # Redirected to plain http, a file could be anybody's.
        argv = ["curl", "-fsSL", "--proto", "=https" if secure else "=http", "--retry", "2", "-o", str(into), url]
    elif tools.have("wget"):
        argv = ["wget", "-q", *(["--https-only"] if secure else []), "-O", str(into), url]
    else:
        raise ToolMissing(tool="curl", what=f"fetching {url}", packages="curl")
    try:
        done = process.start(argv, env=env, cwd="/").finish(timeout)
        why = done.err.decode("utf-8", "replace").strip() or f"{argv[0]} ended with {done.code}"
    except subprocess.TimeoutExpired:
        done, why = None, f"it did not end within {timeout:g} s"
    if done is None or done.code != 0:
        into.unlink(missing_ok=True)
        raise FetchFailed(what=url, why=why)
