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

# A kernel whose defaults are others than most kernels': what it has on, unless the mount says off.
ELSEWHERE = """
import errno, os, sys
from pathlib import Path
from takeback.host import mounts
top, user = Path(sys.argv[1]), sys.argv[2] == "user"
option, begun = mounts._option, set()
def with_defaults(context, name, value=None):
    if name == "lowerdir+" and context not in begun:
        begun.add(context)
        for default in ("index",) if user else ("index", "redirect_dir", "metacopy"):
            option(context, default, "on")
    option(context, name, value)
mounts._option = with_defaults
def mount(lower, upper):
    for name in (upper, upper + "-work", upper + "-point"):
        (top / name).mkdir()
    mounts.overlay(lower, top / upper, top / (upper + "-work"), top / (upper + "-point"), user=user)
    begun.clear()
    return top / (upper + "-point")
point = mount([top / "lower"], "first")
os.chmod(point / "old", 0o600)
try:
    os.rename(point / "folder", point / "other")
except OSError as error:
    print(errno.errorcode[error.errno])  # whoever renames it copies it, then it lies whole in the upper
print((mount([top / "first", top / "lower"], "second") / "old").read_text())
"""


def run(script: str, top: Path, kind: str) -> list[str]:
    """Run a script in a mount namespace of its own, over a folder with a file and a folder, and return its lines."""
    if kind == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    (top / "lower/folder").mkdir(parents=True)
    (top / "lower/old").write_text("as it was, ")
    argv = ["unshare", "-m" if kind == "root" else "-Urm", sys.executable, "-c", script, str(top), kind]
    done = subprocess.run(argv, capture_output=True, text=True)
    if kind == "user" and "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["root", "user"])
def test_an_upper_in_use_is_a_lower_too_and_complete_whatever_the_kernels_defaults(tmp_path: Path, kind: str) -> None:
    assert run(ELSEWHERE, tmp_path, kind) == ["EXDEV", "as it was, "]
    assert (tmp_path / "first/old").read_text() == "as it was, "


@pytest.mark.parametrize("kind", ["root", "user"])
def test_an_overlay_waits_for_no_disk_and_its_files_are_there_when_it_is_gone(tmp_path: Path, kind: str) -> None:
    for name in ("upper", "work", "point"):
        (tmp_path / name).mkdir()
    lines = run(IN_IT, tmp_path, kind)
    options, said = lines[0], lines[-1]
    assert {"volatile", "fsync=volatile"} & set(options.split()[-1].split(","))  # older and newer kernels' words
    assert said == "only once"
    assert (tmp_path / "upper/old").read_text() == "as it was, more"
    mounts.sync_filesystem(tmp_path)
