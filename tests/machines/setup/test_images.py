"""What an image is: the Debian that is built, a directory of the user's, and names that are neither."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from takeback.errors import Damaged, ImageBuildFailed, UnknownImage
from takeback.host import apt_sources, one_uid, system, tools
from takeback.machines import making
from takeback.machines.images import base, catalogue, debian, directory, mmdebstrap
from takeback.machines.images.debian import Debian
from takeback.machines.images.directory import Directory
from takeback.machines.making import silent
from takeback.machines.setup import Ready
from tests.support import machines

here = pytest.mark.skipif(bool(machines.why_not()), reason=machines.why_not() or "-")


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    """The smallest thing that passes for a system."""
    (tmp_path / "system" / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "system" / "bin").symlink_to("usr/bin")
    shell = tmp_path / "system" / "usr" / "bin" / "sh"
    shell.write_text("")
    shell.chmod(0o755)
    return tmp_path / "system"


def tree(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(one), one.lstat().st_mode, one.lstat().st_mtime_ns) for one in folder.rglob("*"))


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ubuntu", "hots", ""])
def test_an_unknown_image_is_refused_with_those_that_are_known(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownImage) as error:
        catalogue.source(name, machines.MachinesDir(tmp_path))
    assert "`debian`" in error.value.hint_text


def test_an_unknown_image_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    setup = machines.Setup(machines.MachinesDir(tmp_path / "machines"), "")
    with pytest.raises(UnknownImage):
        setup.ensure("ubuntu")
    assert list(tmp_path.iterdir()) == []


# -- a directory ---------------------------------------------------------------------------------------------------


def test_any_directory_with_a_program_in_it_is_an_image_and_stays_as_it_is(rootfs: Path) -> None:
    before = tree(rootfs)
    image = catalogue.source(str(rootfs), machines.MachinesDir(Path("/nowhere"))).ensure(silent)
    assert (image.rootfs, image.user, image.uid, image.cwd) == (rootfs, "root", 0, "/")
    assert tree(rootfs) == before


def test_a_user_named_runtime_is_who_works_there(rootfs: Path) -> None:
    (rootfs / "etc").mkdir()
    (rootfs / "work").mkdir()
    (rootfs / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nruntime:x:1234:77::/work:/bin/sh\n")
    image = Directory(str(rootfs)).find()
    assert (image.user, image.uid, image.gid, image.cwd) == ("runtime", 1234, 77, "/work")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("relative/path", "full one"),
        ("/no/such/directory", "no such directory"),
        ("/etc/passwd", "not a directory"),
        ("/", "the image `host`"),
        ("/etc", "no program"),
    ],
)
def test_what_is_no_system_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(UnknownImage, match=why):
        Directory(path).find()


def test_links_in_a_system_are_followed_inside_it_only(rootfs: Path) -> None:
    (rootfs / "usr" / "bin" / "sh").unlink()
    (rootfs / "usr" / "bin" / "sh").symlink_to("/bin/true")  # there outside, not inside
    with pytest.raises(UnknownImage, match="no program"):
        Directory(str(rootfs)).find()
    (rootfs / "usr" / "bin" / "loop").symlink_to("loop")
    assert directory.inside(rootfs, "usr/bin/loop/x") is None
    assert directory.inside(rootfs, "../../bin/../bin") == rootfs / "usr" / "bin"


# -- the record ----------------------------------------------------------------------------------------------------


def test_an_image_is_read_as_it_was_written(tmp_path: Path) -> None:
    image = base.Image("n", "1", tmp_path / "rootfs", "u", 5, 6, "/w", (("A", "b"),), ("sh", "-c", "x"))
    assert base.read(tmp_path) is None
    image.rootfs.mkdir()
    base.write(tmp_path, image, bytes=7)
    assert base.read(tmp_path) == image
    assert base.size(tmp_path) == 7


@pytest.mark.parametrize("text", ["", "[]", '{"name": "n"}', "{"])
def test_a_broken_record_is_said_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "image.json").write_text(text)
    with pytest.raises(Damaged) as error:
        base.read(tmp_path)
    assert "takeback setup" in error.value.hint_text


# -- debian --------------------------------------------------------------------------------------------------------


def test_the_suite_is_the_machines_own_where_it_is_known_to_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mine, suite in (("bookworm", "bookworm"), ("trixie", "trixie"), ("sid", "bookworm"), ("", "bookworm")):
        monkeypatch.setattr(system, "debian", lambda mine=mine: mine)
        assert Debian(tmp_path).suite == suite


def test_without_a_mirror_it_says_how_to_name_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt_sources, "sources", lambda: ())
    with pytest.raises(ImageBuildFailed) as error:
        Debian(tmp_path / "images").ensure(silent)
    assert "--mirror URL" in error.value.hint_text


def test_without_namespaces_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "namespace_problem", lambda: "unshare: Operation not permitted")
    with pytest.raises(ImageBuildFailed, match="not permitted") as error:
        Debian(tmp_path / "images", mirror="http://127.0.0.1:9/debian").ensure(silent)
    assert error.value.hint_text


@pytest.mark.long
@here
def test_a_mirror_that_is_away_leaves_nothing(tmp_path: Path) -> None:
    images = tmp_path / "images"
    with pytest.raises(ImageBuildFailed):
        Debian(images, mirror="http://127.0.0.1:9/debian").ensure(silent)
    assert [one.name for one in images.iterdir()] == [".lock"]


@here
def test_a_full_disk_leaves_no_image(tmp_path: Path) -> None:
    from tests.machines.setup.test_install import on_a_small_disk

    source = (
        "import sys\nfrom pathlib import Path\nfrom takeback.errors import DiskFull\n"
        "from takeback.machines.images.debian import Debian\nfrom takeback.machines.making import silent\n"
        "images = Path(sys.argv[1]) / 'images'\n"
        "try:\n    Debian(images, packages=()).ensure(silent)\nexcept DiskFull as error:\n    print(error)\n"
        "print(sorted(one.name for one in images.iterdir()))\n"
    )
    said = on_a_small_disk(tmp_path, source, 70)
    assert "no space left on the disk" in said
    assert said.splitlines()[-1] == "['.lock']"


KILLED = """
import sys
import time
from pathlib import Path
from takeback.machines.images.debian import Debian
Debian(Path(sys.argv[1]) / "images", packages=()).ensure(lambda what: print(what, flush=True))
"""


@here
def test_what_is_killed_while_building_leaves_no_process_and_is_cleared_by_the_next(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], env=env, stdout=subprocess.PIPE, text=True
    ) as building:
        assert building.stdout is not None
        for line in building.stdout:
            if line.startswith("extracting"):
                break
        building.kill()
    until = time.monotonic() + 20
    while (left := at_work_in(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []
    with making.alone(tmp_path / "images", "test", silent):
        assert [one.name for one in (tmp_path / "images").iterdir()] == [".lock"]
    assert os.listdir(temporary) == []


def at_work_in(folder: Path) -> list[bytes]:
    """Return the command lines that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in words:
            found.append(words)
    return found


@here
def test_mmdebstrap_is_fetched_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have = tools.have
    monkeypatch.setattr(tools, "have", lambda *names: "mmdebstrap" not in names and have(*names))
    env = tools.environment()
    said: list[str] = []
    words = mmdebstrap._program(tmp_path / "tools", env, said.append)
    assert words == ["perl", str(tmp_path / "tools/usr/bin/mmdebstrap")]
    assert said[0] == "fetching mmdebstrap"
    code, version = tools.ask([*words, "--version"], timeout=30, env=env)
    assert code == 0 and version.startswith("mmdebstrap ")


def test_the_image_says_what_is_in_it(ready: Ready) -> None:
    image = ready.image
    assert image is not None
    assert (image.name, image.user, image.uid, image.gid, image.cwd) == ("debian", "runtime", 1000, 1000, "/workspace")
    env = dict(image.env)
    assert env["HOME"] == "/workspace" and env["PATH"].startswith("/workspace/.local/bin:")
    record = json.loads((image.rootfs.parent / "image.json").read_text())
    assert image.version == f"{debian.REVISION}-{record['suite']}"
    assert set(debian.PACKAGES) <= set(record["packages"])
    assert 100 << 20 < record["bytes"] < 300 << 20
    assert record["one_owner"] == (os.geteuid() != 0)


def test_the_image_has_its_user_names_and_the_mirror_and_nothing_of_this_machines(ready: Ready) -> None:
    assert ready.image is not None
    etc = ready.image.rootfs / "etc"
    assert "runtime:x:1000:1000::/workspace:/bin/bash" in (etc / "passwd").read_text()
    assert (etc / "hosts").read_text().startswith("127.0.0.1 localhost sandbox")
    assert (etc / "resolv.conf").read_text() == ""
    assert (etc / "hostname").read_text() == "sandbox\n"
    mine = apt_sources.debian_source(system.debian())
    assert mine is not None and mine.mirror in (etc / "apt/sources.list").read_text()
    assert not (etc / "apt/apt.conf.d/99mmdebstrap").exists()
    assert list((ready.image.rootfs / "var/lib/apt/lists").glob("*Packages*")) == []
    assert list((ready.image.rootfs / "var/cache/apt/archives").glob("*.deb")) == []
    assert list((ready.image.rootfs / "usr/share/man").iterdir()) == []


def test_a_built_image_is_found_again_at_once(ready: Ready) -> None:
    again = machines.setup().ensure(report=lambda what: pytest.fail(what))
    assert again.image == ready.image
    assert again.made == ()


def test_an_older_revision_does_not_pass_for_the_image(ready: Ready, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "REVISION", debian.REVISION + 1)
    assert Debian(machines.setup().machines.images).find() is None


# -- one user's namespace ------------------------------------------------------------------------------------------


@here
def test_a_program_believes_that_it_gave_files_away(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.chmod(tmp_path, 0o777)
    script = f"chown 42:43 {tmp_path}/file && chown -h 7 {tmp_path}/file && stat -c %u:%g {tmp_path}/file"
    done = subprocess.run(
        ["unshare", "-Urmpf", "--mount-proc", sys.executable, "-IS", one_uid.__file__, "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0:0\n", "")


def test_the_filter_refuses_a_machine_whose_calls_it_does_not_know() -> None:
    with pytest.raises(KeyError):
        one_uid.filter_for("s390x")
    assert all(len(one) == 8 for one in one_uid.filter_for("aarch64"))


def test_what_is_put_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "old").write_text("")
    with making.scratch(tmp_path) as work:
        (work / "made").mkdir()
        (work / "made" / "new").write_text("")
        making.put(work / "made", tmp_path / "target")
    assert [one.name for one in (tmp_path / "target").iterdir()] == ["new"]
    assert [one.name for one in tmp_path.iterdir()] == ["target"]
