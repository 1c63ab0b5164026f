"""The real engine runs the real image, for root and for an ordinary user in a namespace with that one user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from takeback.machines.setup import Ready
from tests.support.cli import Home

CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID", "CAP_KILL"]


def own_namespace() -> list[str]:
    """Return the words before the engine: an ordinary user needs a namespace with one user."""
    return [] if os.geteuid() == 0 else ["unshare", "-Urmpf", "--mount-proc"]


def inside(
    engine: Path,
    rootfs: Path,
    work: Path,
    argv: Sequence[str],
    prefix: Sequence[str],
    *,
    first: Path | None = None,
    **process: object,
) -> str:
    """Run a first process in a throw-away sandbox, with `first` seen as /.takeback, and return what it said."""
    bundle = work / "bundle"
    bundle.mkdir()
    binds = {"/.takeback": first} if first else {}
    spec = {
        "ociVersion": "1.0.2",
        "root": {"path": str(rootfs), "readonly": False},
        "hostname": "sandbox",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "cwd": "/",
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), CAPABILITIES),
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            *({"destination": to, "type": "bind", "source": str(of), "options": ["ro"]} for to, of in binds.items()),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")]},
    }
    (bundle / "config.json").write_text(json.dumps(spec))
    flags = ["--network=none", "--overlay2=all:memory", "--ignore-cgroups", f"--root={work}/state"]
    done = subprocess.run(
        [*prefix, str(engine), *flags, "run", "-bundle", str(bundle), f"t{os.getpid()}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        **process,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


LOOK = """chown 1000:1000 /workspace
exec setpriv --reuid=runtime --regid=runtime --init-groups sh -c '
id -un; cd /workspace && touch f && stat -c %U f
git --version; python3 -c "print(6*7)"; curl --version | head -n1; sqlite3 :memory: "select 1"
hostname; getent hosts sandbox; readlink /usr/bin/sudo; stat -c %a:%U /usr/bin/sudo.debian /etc/sudoers.d/runtime'
"""


def right(said: str) -> None:
    lines = said.splitlines()
    assert lines[:2] == ["runtime", "runtime"]
    assert lines[2].startswith("git version") and lines[3] == "42" and lines[4].startswith("curl ")
    assert lines[5:7] == ["1", "sandbox"] and lines[7].split()[0] == "127.0.0.1"
    assert lines[8:] == ["/.takeback/init", "4755:root", "440:root"]


def test_the_image_works_in_the_engine(ready: Ready, tmp_path: Path) -> None:
    assert ready.image is not None
    right(inside(ready.engine.path, ready.image.rootfs, tmp_path, ["sh", "-c", LOOK], own_namespace()))


SMALL = """
import sys, time
from pathlib import Path
from takeback.machines import making
from takeback.machines.images.debian import Debian
from takeback.machines.layout import MachinesDir
machines = MachinesDir(Path(sys.argv[1]))
making.prepare(machines)
print(Debian(machines.images, packages=("passwd", "sudo")).ensure(making.silent).rootfs)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
@pytest.mark.long
def test_an_ordinary_user_sets_up_builds_and_runs_it(user: Home) -> None:
    # A smaller image than the default one: what is different for this user is the same in it, in a third of the time.
    got = user.tb(user.path, "setup", "--no-image")
    engine = Path(got["engine"]["path"])
    assert got["engine"]["own"] is True and user.data in engine.parents
    account = user.account
    tried = subprocess.run(["unshare", "-Urmpf", "--mount-proc", "true"], check=False, **account.process())
    if tried.returncode != 0:
        pytest.skip("ordinary users may not make namespaces here")
    built = subprocess.run(
        [*user.python, "-c", SMALL, str(user.data / "machines")],
        env=user.env(), cwd="/", capture_output=True, text=True, check=False, **account.process(),
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    rootfs = Path(built.stdout.strip())
    others = [one for one in rootfs.rglob("*") if one.lstat().st_uid != account.uid]
    assert others == []
    assert list((rootfs / "dev").iterdir()) == []
    work = user.path / "work"
    work.mkdir()
    shutil.chown(work, account.uid, account.gid)
    script = "id -u; stat -c %u /etc/shadow; chown 1000:1000 /workspace; stat -c %U /workspace"
    old = os.umask(0o022)
    try:
        said = inside_as(user, engine, rootfs, work, script)
    finally:
        os.umask(old)
    assert said.split() == ["0", "0", "runtime"]
    shutil.rmtree(rootfs.parent)


def inside_as(user: Home, engine: Path, rootfs: Path, work: Path, script: str) -> str:
    """Run as that user, in a namespace of its own."""
    prefix = ["unshare", "-Urmpf", "--mount-proc"]
    return inside(engine, rootfs, work, ["sh", "-c", script], prefix, **user.account.process())
