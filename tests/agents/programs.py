"""The agent programs at the versions of the lock files, installed once into this clone's `.cache/agents`.

Does not cover: running them (see `support`). npm is used as its user has set it up; the lock files name no registry.
The entries of OpenCode's platforms without an integrity were written by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "agents"
# Two installs: the ordinary tests need only the first two programs, and each is some hundred megabytes.
TIERS = {"claude": "ordinary", "codex": "ordinary", "gemini": "long", "opencode": "long"}
_OLDEST_NODE = {"claude": 18, "codex": 16, "gemini": 20, "opencode": 16}
_PATIENCE = 600.0
# What npm says when there is no network; everything else it says is a failure.
_OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "ETIMEDOUT", "ENOTCACHED")


def program(agent: str) -> Path:
    """Return the agent's executable, installed if need be; the test is skipped when that cannot be done here."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on this machine; scripts/test says how to get it")
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if int(node.lstrip("v").partition(".")[0]) < _OLDEST_NODE[agent]:
        pytest.skip(f"{agent} needs Node {_OLDEST_NODE[agent]}; this is {node}")
    return _installed(TIERS[agent], node) / "node_modules" / ".bin" / agent


def version(agent: str) -> str:
    """Return the version the lock file pins."""
    declared = json.loads((HERE / TIERS[agent] / "package.json").read_text("utf-8"))["dependencies"]
    return str(next(pinned for package, pinned in declared.items() if agent in package))


def _installed(tier: str, node: str) -> Path:
    """Return the folder of a tier's programs; several test processes may ask at once."""
    target = CACHE / tier
    files = [HERE / tier / name for name in ("package.json", "package-lock.json")]
    wanted = hashlib.sha256(b"\0".join([node.encode(), *(file.read_bytes() for file in files)])).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{tier}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = target / "stamp"
        if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            for file in files:
                shutil.copy(file, target)
            _install(target)
            stamp.write_text(wanted, "utf-8")
    return target


def _install(target: Path) -> None:
    npm = subprocess.Popen(
        ["npm", "ci", "--no-audit", "--no-fund"],
        cwd=target,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said = npm.communicate(timeout=_PATIENCE)[0].decode("utf-8", "replace")
    except BaseException:
        os.killpg(npm.pid, signal.SIGKILL)
        npm.communicate()
        raise
    if npm.returncode and any(word in said for word in _OFFLINE):
        pytest.skip(f"npm found no network to install the agents of tests/agents/{target.name} from")
    assert npm.returncode == 0, said
