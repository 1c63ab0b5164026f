"""Which runsc is used, and that getting one leaves a whole one or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from takeback.errors import EngineMissing, EngineTooOld, FetchFailed
from takeback.host import locks
from takeback.machines import making
from takeback.machines.engines import install
from takeback.machines.engines.install import MINIMUM, Build, Fetched
from takeback.machines.layout import MachinesDir
from takeback.machines.making import Report


def program(path: Path, says: str, code: int = 0) -> Path:
    """A program that prints a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def version(build: str) -> str:
    return f"runsc version {build}\nspec: 1.1.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    machines = MachinesDir(tmp_path / "data" / "machines")
    making.prepare(machines)
    machines.engine.mkdir()
    return machines.engine


def way(says: str = "runsc version 0.0~20250101.0", source: str = "a test") -> install.Way:
    def fetch(work: Path, report: Report) -> Fetched:
        report("fetching")
        return Fetched(program(work / "some" / "runsc", says), source)

    return fetch


def no_way(work: Path, report: Report) -> Fetched:
    (work / "half").write_text("half")
    raise FetchFailed(what="it", why="the mirror is away")


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("runsc version 0.0~20240729.0", Build(20240729)),
        ("runsc version release-20250319.2", Build(20250319, 2)),
        ("runsc version release-20250319.0-12-gabcdef", Build(20250319)),
        ("0.0~20240729.0-4~bpo12+2", Build(20240729)),
        ("runsc version 0.0~20221219.0", Build(20221219)),
        ("runsc version VERSION_MISSING", None),
    ],
)
def test_a_build_is_known_by_its_date(text: str, build: Build | None) -> None:
    assert install.parse_build(text) == build


def test_builds_are_ordered_by_date_and_point() -> None:
    assert Build(20221219) < MINIMUM < Build(20240729, 1) < Build(20250101)


def test_an_old_one_on_the_path_is_refused_with_the_reason(folder: Path, tmp_path: Path) -> None:
    old = program(tmp_path / "bin" / "runsc", version("0.0~20221219.0"))
    with pytest.raises(EngineTooOld) as error:
        install.find(folder, str(old.parent))
    assert "20221219.0" in str(error.value) and str(MINIMUM) in str(error.value)
    assert "can end the machine that is saved" in str(error.value)
    assert "takeback setup" in error.value.hint_text


def test_an_own_one_goes_before_an_old_one_and_a_new_one_on_the_path(folder: Path, tmp_path: Path) -> None:
    old = program(tmp_path / "old" / "runsc", version("0.0~20221219.0"))
    new = program(tmp_path / "new" / "runsc", version("0.0~20260101.0"))
    search = f"{old.parent}{os.pathsep}{new.parent}"
    assert install.find(folder, search).path == new
    own = program(folder / "runsc-20240729.0" / "runsc", version("0.0~20240729.0"))
    found = install.find(folder, search)
    assert (found.path, found.own) == (own, True)


def test_a_usable_one_on_the_path_is_used_and_nothing_fetched(folder: Path, tmp_path: Path) -> None:
    new = program(tmp_path / "new" / "runsc", version("release-20250319.0"))
    assert install.ensure(folder, str(new.parent), ways=[]).path == new


@pytest.mark.parametrize(
    ("says", "code"), [("runsc version VERSION_MISSING", 0), ("runsc: bad", 1), ("something else", 0)]
)
def test_what_is_no_runsc_is_not_used(folder: Path, tmp_path: Path, says: str, code: int) -> None:
    made = program(tmp_path / "bin" / "runsc", says, code)
    assert install.look_at(made).why_not
    with pytest.raises(EngineMissing):
        install.find(folder, str(made.parent))


def test_one_that_hangs_is_not_waited_for(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "_ASK_SECONDS", 0.3)
    hanging = tmp_path / "runsc"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    assert "no answer" in install.look_at(hanging).why_not


def test_getting_one_puts_it_whole_in_its_place_with_its_source(folder: Path) -> None:
    said: list[str] = []
    found = install.ensure(folder, "", ways=[way()], report=said.append)
    assert found == install.find(folder, "")
    assert found.path == folder / "runsc-20250101.0" / "runsc"
    record = json.loads((found.path.parent / "engine.json").read_text())
    assert record["source"] == "a test" and record["version"] == "20250101.0"
    assert said == ["fetching"]
    assert sorted(one.name for one in folder.iterdir()) == [".lock", "runsc-20250101.0"]


def test_the_next_way_is_taken_when_one_fails(folder: Path) -> None:
    assert install.ensure(folder, "", ways=[no_way, way("runsc version 0.0~20221219.0"), way()]).build == Build(
        20250101
    )


def test_when_no_way_works_each_reason_is_told_and_nothing_is_left(folder: Path) -> None:
    with pytest.raises(FetchFailed) as error:
        install.ensure(folder, "", ways=[no_way, way("runsc version 0.0~20221219.0", "the old mirror")])
    assert "the mirror is away" in str(error.value)
    assert "the old mirror: older than" in str(error.value)
    assert [one.name for one in folder.iterdir()] == [".lock"]


def test_what_a_killed_one_left_is_removed_by_the_next(folder: Path) -> None:
    left = folder / ".making-dead"
    (left / "made").mkdir(parents=True)
    (left / "made").chmod(0o500)
    install.ensure(folder, "", ways=[way()])
    assert not left.exists()


def test_two_at_once_fetch_once_and_the_second_says_whom_it_waits_for(folder: Path) -> None:
    fetched: list[int] = []
    started, go = threading.Event(), threading.Event()

    def slow(work: Path, report: Report) -> Fetched:
        fetched.append(1)
        started.set()
        assert go.wait(30)
        return way()(work, report)

    first = threading.Thread(target=install.ensure, args=(folder, ""), kwargs={"ways": [slow]})
    first.start()
    assert started.wait(30)
    assert locks.is_held(folder / ".lock")
    said: list[str] = []

    def report(what: str) -> None:
        said.append(what)
        go.set()

    second = install.ensure(folder, "", ways=[slow], report=report)
    first.join()
    assert second.build == Build(20250101)
    assert fetched == [1]
    assert said == [f"waiting for process {os.getpid()} (setup of the engine)"]


FULL = """
import shutil, sys
from pathlib import Path
from takeback.errors import DiskFull
from takeback.machines import making
from takeback.machines.engines import install
from takeback.machines.layout import MachinesDir

def way(work, report):
    with open(work / "runsc", "wb") as file:
        file.write(bytes(8 << 20))
    raise AssertionError("the disk was to be full")

machines = MachinesDir(Path(sys.argv[1]) / "machines")
making.prepare(machines)
try:
    install.ensure(machines.engine, "", ways=[way])
except DiskFull as error:
    print(error)
print(sorted(str(one.relative_to(machines.root)) for one in machines.root.rglob("*")))
"""


def on_a_small_disk(tmp_path: Path, source: str, mib: int) -> str:
    """Run Python source with a small filesystem of its own at argv[1]; the mount ends with it."""
    place = tmp_path / "small"
    place.mkdir()
    script = f'mount -t tmpfs -o size={mib}m none {place} && exec {sys.executable} -c "$SOURCE" {place}'
    done = subprocess.run(
        ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-m", "--propagation", "private", "sh", "-c", script],
        env={"SOURCE": source, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount of one's own here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_is_said_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    said = on_a_small_disk(tmp_path, FULL, 4)
    assert "no space left on the disk" in said
    assert said.splitlines()[-1] == "['README', 'VERSION', 'engine', 'engine/.lock']"


def test_a_data_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "machines").write_text("a file")
    with pytest.raises(Exception, match=r"cannot write .*machines"):
        making.prepare(MachinesDir(tmp_path / "machines" / "machines"))


def test_a_newer_format_of_the_machines_folder_is_left_alone(folder: Path) -> None:
    (folder.parent / "VERSION").write_text("7\n")
    with pytest.raises(Exception, match="newer takeback"):
        making.prepare(MachinesDir(folder.parent))


def test_a_folder_is_removed_with_what_its_owner_made_unwritable(tmp_path: Path) -> None:
    deep = tmp_path / "made" / "closed" / "deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("")
    (tmp_path / "outside").mkdir()
    (deep / "link").symlink_to(tmp_path / "outside")
    deep.chmod(0)
    deep.parent.chmod(0o500)
    making.remove(tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "outside").exists()
