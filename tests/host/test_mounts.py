"""What an overlay mounted here promises, in a mount namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.host import mounts

IN_IT = """
import os, sys
from pathlib import Path
from takeback.host import mounts
top, user = Path(sys.argv[1]), sys.argv[2] == "user"
mounts.overlay([top / "lower"], top / "upper", top / "work", top / "point", user=user)
with open(top / "point/old", "a") as file:
    file.write("more")
    file.flush()
    os.fsync(file.fileno())
print(next(line for line in open("/proc/self/mountinfo") if str(top) in line).rpartition(" - ")[2])
assert mounts.unmount_below(top)
try:
    mounts.overlay([top / "lower"], top / "upper", top / "work", top / "point", user=user)
except OSError:
    print("only once")
"""


@pytest.mark.parametrize("kind", ["root", "user"])
def test_an_overlay_waits_for_no_disk_and_its_files_are_there_when_it_is_gone(tmp_path: Path, kind: str) -> None:
    if kind == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    for name in ("lower", "upper", "work", "point"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower/old").write_text("as it was, ")
    argv = ["unshare", "-m" if kind == "root" else "-Urm", sys.executable, "-c", IN_IT, str(tmp_path), kind]
    done = subprocess.run(argv, capture_output=True, text=True)
    if kind == "user" and "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    options, said = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert {"volatile", "fsync=volatile"} & set(options.split()[-1].split(","))  # older and newer kernels' words
    assert said == "only once"
    assert (tmp_path / "upper/old").read_text() == "as it was, more"
    mounts.sync_filesystem(tmp_path)
