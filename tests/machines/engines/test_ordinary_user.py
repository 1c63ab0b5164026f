"""The same promises for an ordinary user: in a user, mount and pid namespace of one's own, the image one's own too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.machines.engines.conftest import base, runsc

TOP = Path(__file__).resolve().parents[3]
NUMBER = 23456
SUITE = ("tests/machines/engines/test_conformance.py", "tests/machines/engines/gvisor/test_pool.py")


@pytest.mark.long
def test_every_promise_holds_for_an_ordinary_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("root becomes the ordinary user here; as one, the suite itself is that test")
    # Not below pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="takeback-user-") as folder:
        run_suite(Path(folder))


def run_suite(home: Path) -> None:
    subprocess.run(["cp", "-a", "--no-preserve=ownership", base(), home / "base"], check=True)
    shutil.copy(runsc(), home / "runsc")
    (home / "runsc").chmod(0o755)
    subprocess.run(["chown", "-R", f"{NUMBER}:{NUMBER}", home], check=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.fspath(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TAKEBACK_TEST_RUNSC": os.fspath(home / "runsc"),
        "TAKEBACK_TEST_BASE": os.fspath(home / "base"),
    }
    argv = [
        "setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", "--clear-groups", "unshare", "-Urmpf", "--mount-proc",
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={home}/t", *SUITE,
        "-k", "not btrfs and not fake",
    ]  # fmt: skip
    done = subprocess.run(argv, cwd=TOP, env=env, capture_output=True, text=True, timeout=900)
    if "unshare failed" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
