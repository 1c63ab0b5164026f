"""pack and unpack: a tree comes back as it was, and no stream writes outside its folder."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.machines.supervisor.test_files import Operations


@pytest.fixture
def op(binary: Path) -> Operations:
    return Operations(binary)


def described(top: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything below `top` that a tar stream keeps."""
    found: dict[bytes, tuple[object, ...]] = {}
    inodes: dict[int, bytes] = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in [b".", *sorted(folders), *sorted(files)]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            shown = os.path.relpath(path, os.fsencode(top))
            kind = stat.S_IFMT(status.st_mode)
            content: bytes = b""
            if kind == stat.S_IFREG:
                content = Path(os.fsdecode(path)).read_bytes()
            elif kind == stat.S_IFLNK:
                content = os.readlink(path)
            same = inodes.setdefault(status.st_ino, shown) if kind == stat.S_IFREG else b""
            mode = 0 if kind == stat.S_IFLNK else stat.S_IMODE(status.st_mode)
            found[shown] = (kind, mode, status.st_mtime_ns, content, same)
    return found


NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda name: name not in (".", "..") and len(name.encode()) <= 200
)
TIMES = st.integers(-(10**18), 4 * 10**18)
FILES = st.tuples(st.just("f"), st.binary(max_size=1500), st.sampled_from([0o644, 0o755, 0o600, 0o4755, 0o400]), TIMES)
LINKS = st.tuples(st.just("l"), NAMES, st.just(0), TIMES)
TREES = st.recursive(
    st.dictionaries(NAMES, FILES | LINKS, max_size=4),
    lambda inner: st.dictionaries(NAMES, FILES | LINKS | inner, max_size=4),
    max_leaves=12,
)


def build(top: Path, tree: dict[str, object]) -> None:
    top.mkdir(exist_ok=True)
    for name, what in tree.items():
        path = top / name
        if isinstance(what, dict):
            build(path, what)
            continue
        kind, content, mode, when = what  # type: ignore[misc]
        if kind == "l":
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(mode)
        os.utime(path, ns=(0, when), follow_symlinks=False)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES)
def test_what_is_packed_unpacks_to_the_same(op: Operations, tree: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top, again, theirs = (Path(folder) / name for name in ("top", "again", "theirs"))
        build(top, tree)
        packed = op("pack", top)
        op("unpack", again, feed=packed)
        assert described(again) == described(top)
        op("unpack", again, feed=packed)  # over itself
        assert described(again) == described(top)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            names = {os.path.normpath(os.fsencode(one.name)) for one in archive}
        assert names == {os.path.normpath(name) for name in described(top)}
        # And the other way: what others pack, in their formats.
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
                archive.add(top, ".")
            op("unpack", theirs, feed=stream.getvalue())
            contents = {name: (one[0], one[1], one[3]) for name, one in described(theirs).items()}
            assert contents == {name: (one[0], one[1], one[3]) for name, one in described(top).items()}


def test_links_fifos_long_names_and_closed_folders_survive(op: Operations, tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "closed" / ("long" * 40)).mkdir(parents=True)
    (top / "closed" / "file").write_bytes(b"x" * 1000)
    os.link(top / "closed" / "file", top / "second name")
    os.mkfifo(top / "fifo", 0o640)
    (top / "dangling").symlink_to("t" * 300)
    os.chmod(top / "closed", 0o555)
    op("unpack", tmp_path / "again", feed=op("pack", top))
    assert described(tmp_path / "again") == described(top)


def test_system_tar_reads_what_is_packed_and_its_own_is_read(op: Operations, tmp_path: Path) -> None:
    top = tmp_path / "top"
    build(top, {"a": ("f", b"1" * 700, 0o640, 1_600_000_000_000_000_000), "d": {"ü" * 40: ("f", b"", 0o644, 10**18)}})
    (tmp_path / "gnu").mkdir()
    subprocess.run(["tar", "-xpf", "-", "-C", tmp_path / "gnu"], input=op("pack", top), check=True)
    assert described(tmp_path / "gnu") == described(top)
    for form in ("gnu", "pax", "ustar", "oldgnu"):
        packed = subprocess.run(["tar", f"--format={form}", "-cf", "-", "-C", top, "."], stdout=-1, check=True).stdout
        op("unpack", tmp_path / form, feed=packed)
        assert set(described(tmp_path / form)) == set(described(top))


def test_a_single_file_packs_under_its_own_name(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with tarfile.open(fileobj=io.BytesIO(op("pack", tmp_path / "file"))) as archive:
        assert archive.getnames() == ["file"]


def test_a_sparse_file_of_over_8_gib_announces_its_size(op: Operations, tmp_path: Path, binary: Path) -> None:
    with open(tmp_path / "big", "wb") as file:
        file.truncate(9 << 30)
    packing = subprocess.Popen([binary, "file", "pack", tmp_path], stdout=subprocess.PIPE)
    assert packing.stdout is not None
    with tarfile.open(fileobj=packing.stdout, mode="r|") as archive:
        sizes = {one.name: one.size for _, one in zip(range(2), archive, strict=False)}
    packing.kill()
    packing.wait()
    packing.stdout.close()
    assert sizes["big"] == 9 << 30


def test_excluded_names_and_paths_are_left_out(op: Operations, tmp_path: Path) -> None:
    for path in ("a/node_modules/x", "a/keep.py", "a/drop.pyc", "b/a/keep.py", "b/out/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"")
    packed = op("pack", tmp_path, "node_modules", "*.pyc", "b/out", "/b/a/*")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = {one.name for one in archive if one.isfile()}
    assert names == {"a/keep.py"}


def stream(*members: tuple[str, bytes, str, bytes]) -> bytes:
    """A tar stream of (name, type, link, content), however unfit."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, link, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
LONG = "x" * 150 + "/"


@pytest.mark.parametrize(
    "members",
    [
        [("../escaped", FILE, "", b"bad")],
        [("a/../../escaped", FILE, "", b"bad")],
        [("{outside}/escaped", FILE, "", b"bad")],
        [(LONG + "../../escaped", FILE, "", b"bad")],
        [("../escaped", FOLDER, "", b"")],
        [("..", FOLDER, "", b"")],
        [("../escaped", LINK, "/etc", b"")],
        [("link", LINK, "{outside}", b""), ("link/escaped", FILE, "", b"bad")],
        [("link", LINK, "..", b""), ("link/escaped", FILE, "", b"bad")],
        [("link", LINK, "{outside}", b""), ("link/escaped", FOLDER, "", b"")],
        [("link", LINK, "{outside}", b""), ("link/escaped/deeper", FILE, "", b"bad")],
        [("a", FOLDER, "", b""), ("a/b", LINK, "../..", b""), ("a/b/escaped", FILE, "", b"bad")],
        [("hard", HARD, "{outside}/victim", b"")],
        [("hard", HARD, "../outside/victim", b""), ("hard", FILE, "", b"bad")],
        [("link", LINK, "{outside}", b""), ("hard", HARD, "link/victim", b""), ("hard", FILE, "", b"bad")],
        [("inside/escaped", FILE, "", b"bad")],
        [("inside/escaped", HARD, "victim-link", b"")],
    ],
)
def test_nothing_is_written_outside_nor_through_a_link(
    op: Operations, tmp_path: Path, members: list[tuple[str, bytes, str, bytes]]
) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    (outside / "victim").write_bytes(b"precious")
    top.mkdir()
    (top / "inside").symlink_to(outside)  # a link that was there before
    before = described(outside)
    filled = [
        (name.format(outside=outside), kind, link.format(outside=outside), data) for name, kind, link, data in members
    ]
    done = op.run("unpack", top, feed=stream(*filled))
    assert done.returncode == 1
    assert int(done.stderr.split()[0]) in (errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.ENOENT)
    assert described(outside) == before
    assert sorted(os.listdir(tmp_path)) == ["outside", "top"]
    assert (outside / "victim").stat().st_nlink == 1


@pytest.mark.parametrize("kind", [FILE, FOLDER, LINK])
def test_a_link_in_the_way_is_replaced_not_followed(op: Operations, tmp_path: Path, kind: bytes) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir(mode=0o700)
    (outside / "victim").write_bytes(b"precious")
    top.mkdir()
    (top / "name").symlink_to(outside if kind == FOLDER else outside / "victim")
    op("unpack", top, feed=stream(("name", kind, "elsewhere", b"new" if kind == FILE else b"")))
    assert (outside / "victim").read_bytes() == b"precious"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700
    assert (top / "name").is_symlink() == (kind == LINK)


def test_a_folder_that_became_a_link_is_not_changed_at_the_end(op: Operations, tmp_path: Path) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir(mode=0o700)
    op("unpack", top, feed=stream(("d", FOLDER, "", b""), ("d", LINK, str(outside), b"")))
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700


@pytest.mark.parametrize("cut", [1, 300, 512, 600, 1100, 1536, 2000])
def test_a_stream_that_is_cut_off_fails(op: Operations, tmp_path: Path, cut: int) -> None:
    whole = stream(("name", FILE, "", b"x" * 1400))
    done = op.run("unpack", tmp_path / "top", feed=whole[:cut])
    assert done.returncode == (0 if cut == 0 else 1), done.stderr


def test_a_spoiled_header_fails(op: Operations, tmp_path: Path) -> None:
    whole = bytearray(stream(("name", FILE, "", b"content")))
    whole[0] ^= 1
    op.fails(errno.EBADMSG, "unpack", tmp_path, feed=bytes(whole))
    assert os.listdir(tmp_path) == []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, 4000), what=st.binary(min_size=1, max_size=40))
def test_any_spoiled_stream_ends_in_order(op: Operations, where: int, what: bytes) -> None:
    whole = bytearray(stream((LONG + "name", FILE, "", b"content"), ("hard", HARD, LONG + "name", b"")))
    whole[where : where + len(what)] = what
    for at in range(0, len(whole) - 511, 512):  # with right checksums, so that more than the sum is looked at
        if whole[at + 257 : at + 262] == b"ustar":
            whole[at + 148 : at + 156] = b"        "
            whole[at + 148 : at + 156] = b"%06o\0 " % sum(whole[at : at + 512])
    with tempfile.TemporaryDirectory() as folder:
        done = op.run("unpack", Path(folder) / "top", feed=bytes(whole))
        assert done.returncode in (0, 1), done.stderr
        assert set(os.listdir(folder)) <= {"top"}
