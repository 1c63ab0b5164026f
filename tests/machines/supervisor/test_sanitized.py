"""All of these tests once more against a supervisor with the address and undefined behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.machines.supervisor import sources

HERE = Path(__file__).resolve().parent


@pytest.mark.long
def test_the_sanitizers_find_nothing(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    flags = [flag for flag in sources.FLAGS if flag not in ("-static", "-s")]
    more = ["-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    binary = tmp_path / "init"
    subprocess.run([compiler, *flags, *more, "-o", binary, *sources.sources()], check=True)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        os.chmod(folder, 0o755)
    env = {**os.environ, "TAKEBACK_TEST_SUPERVISOR": str(binary)}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long"]
    done = subprocess.run(
        [*argv, str(HERE), f"--ignore={HERE}/test_build.py"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
