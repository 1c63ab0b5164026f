"""The image `host`: this machine's programs work inside, what is somebody's own is not there, nothing gets out."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.errors import CannotSave, InvalidRequest, SnapshotMismatch, UnknownImage
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.images import private
from takeback.machines.images.host import Host
from tests.machines.client import leaks
from tests.machines.client.conftest import World
from tests.machines.images.conftest import sandbox

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root could read what is hidden")
HIDDEN = ("/home", "/root", "/mnt", "/srv", "/media", "/boot")


@pytest.fixture
def named() -> Iterator[Path]:
    """A folder to be named, in one that is hidden."""
    folder = Path(tempfile.mkdtemp(prefix="tb-named-", dir="/srv" if os.access("/srv", os.W_OK) else None))
    (folder / "seen").mkdir()
    (folder / "seen" / "file").write_text("here\n")
    (folder / "beside").write_text("not named")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def in_var(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/var/lib")


def stamp(folder: Path) -> list[tuple[str, int, int, int]]:
    """Everything in a folder with what changes when it is touched."""
    infos = [(str(one), one.lstat()) for one in sorted(folder.rglob("*"))]
    return [(name, info.st_mode, info.st_size, info.st_mtime_ns) for name, info in infos]


def top() -> set[tuple[str, int]]:
    return {(one.name, one.stat(follow_symlinks=False).st_ino) for one in os.scandir("/")}


def test_this_machines_programs_work_inside(world: World) -> None:
    with sandbox(world, Host("host", world.data).find()) as box:
        assert box.info["image"] == "host" and box.info["disk"] == "memory"
        for program in ("python3", "node", "git"):
            if shutil.which(program, path="/usr/local/bin:/usr/bin"):
                done = box.exec([program, "--version"])
                assert done.exit_code == 0 and done.stdout, done.stderr
        done = box.exec("cd && git init -q r && cd r && git -c user.name=a -c user.email=b commit -qm x --allow-empty")
        assert done.exit_code == 0, done.stderr
        assert box.exec("id -u; echo $HOME; pwd").stdout == "0\n/root\n/\n"


def test_nothing_written_inside_reaches_this_machine(world: World, named: Path) -> None:
    before = stamp(named), stamp(Path("/etc")), top(), set(os.listdir("/usr/local/bin")), set(os.listdir("/root"))
    with sandbox(world, Host(f"host:{named}/seen", world.data).find()) as box:
        done = box.exec(
            "echo x >> file; echo x > new; mkdir folder; chmod 700 .; rm -f /etc/hostname; echo x > /etc/tb-new;"
            " echo x > /usr/local/bin/tb-new; echo x >> /etc/passwd; echo x > /root/tb; mkdir /home/tb /tb-top;"
            " chmod 777 / /etc /usr; mv /etc/hosts /etc/tb-hosts; ls /usr/local/bin/tb-new /tb-top/.. /root; cat file"
        )
        assert done.exit_code == 0 and "here\nx\n" in done.stdout, done.stderr
        copy = box.fork()
        assert isinstance(copy, Sandbox)
        assert copy.exec("cat file new /etc/tb-new").stdout == "here\nx\nx\nx\n"
        copy.delete()
        after = stamp(named), stamp(Path("/etc")), top(), set(os.listdir("/usr/local/bin")), set(os.listdir("/root"))
        assert after == before
    assert top() == before[2]


def test_what_is_somebodys_own_is_not_there_for_root_inside_either(world: World, named: Path) -> None:
    (world.data / "secret").write_text("of takeback")
    with sandbox(world, Host("host", world.data).find()) as box:
        for path in HIDDEN:
            assert box.exec(["ls", "-A", path]).stdout == "", path
        assert box.exec(["ls", "-A", "/tmp"]).stdout == "" == box.exec(["ls", "-A", "/var/tmp"]).stdout
        assert (
            box.exec("cat /etc/shadow /etc/gshadow /etc/shadow- /etc/ssh/ssh_host_*_key; ls -A /etc/ssl/private").stdout
            == ""
        )
        assert box.exec(["cat", f"{named}/seen/file"]).exit_code == 1
        assert box.exec(["cat", f"{world.data}/secret"]).exit_code == 1
        mine = {f"/{name}" for name, _ in top()}
        inside = set(box.exec("for f in /*; do echo $f; done").stdout.split())
        assert inside <= mine | {"/proc", "/sys", "/dev", "/run", "/tmp", "/var"}


@root_only
def test_masks_cannot_be_written_taken_away_or_moved(world: World) -> None:
    # Other tests make and remove users of this machine meanwhile: root's line stays.
    before = Path("/etc/shadow").read_bytes().splitlines()[0]
    with sandbox(world, Host("host", world.data).find()) as box:
        done = box.exec(
            "echo x > /etc/shadow; rm -f /etc/shadow; mv /etc/shadow /tmp/s; umount /etc/shadow; ln /etc/shadow /tmp/l;"
            " mount --bind /etc /mnt; echo x > /var/log/x; umount -l /var/log; cat /etc/shadow /tmp/[sl] /mnt/shadow"
        )
        assert done.stdout == ""
        assert box.exec("find / -xdev -name shadow -size +0 2>/dev/null").stdout == ""
        assert box.exec("cat /proc/1/root/etc/shadow /proc/self/root/etc/shadow").stdout == ""
    assert Path("/etc/shadow").read_bytes().splitlines()[0] == before


def test_a_service_of_this_machine_cannot_be_reached_by_its_socket(world: World, named: Path) -> None:
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(f"{named}/seen/socket")
        service.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('{named}/seen/socket')"
        with sandbox(world, Host(f"host:{named}/seen", world.data).find()) as box:
            assert box.exec(["python3", "-c", code]).exit_code == 1
            assert box.exec("ls -A /run").stdout == "takeback\n"  # the supervisor's


def test_named_folders_are_seen_where_they_are_and_what_is_beside_them_is_not(world: World, named: Path) -> None:
    with sandbox(world, Host(f"host:{named}/seen:/usr", world.data).find()) as box:
        assert box.exec("pwd; cat file").stdout == f"{named}/seen\nhere\n"
        assert box.exec(["ls", str(named)]).stdout == "seen\n"
        assert named.name in box.exec(["ls", str(named.parent)]).stdout.split()


@root_only
def test_takebacks_data_in_a_folder_that_is_seen_is_hidden_and_its_mounts_do_not_multiply(
    in_var: None, world: World
) -> None:
    assert world.data.is_relative_to("/var")
    image = Host("host", world.data).find()
    boxes, counts = [], []
    for _ in range(4):
        boxes.append(sandbox(world, image))
        keeper = leaks.keepers(world.data)[0]
        counts.append(len(Path(f"/proc/{keeper}/mountinfo").read_text().splitlines()))
    assert counts[3] - counts[2] == counts[2] - counts[1] == counts[1] - counts[0]
    assert boxes[3].exec(["ls", "-A", str(world.data)]).stdout == ""
    for box in boxes:
        box.delete()


@pytest.mark.parametrize("path", ["/", "/proc", "/dev/shm", "/no/such/folder", "/etc/passwd"])
def test_a_folder_that_is_none_or_shows_too_much_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownImage) as error:
        Host(f"host:{path}", tmp_path).find()
    assert "host:/a/folder" in error.value.hint_text


def test_takebacks_own_data_cannot_be_named_and_is_hidden_in_what_is(tmp_path: Path) -> None:
    (tmp_path / "data" / "machines").mkdir(parents=True)
    with pytest.raises(UnknownImage, match="cannot be shown"):
        Host(f"host:{tmp_path}/data/machines", tmp_path / "data").find()
    assert str(tmp_path / "data") in Host(f"host:{tmp_path}", tmp_path / "data").find().masked


def test_the_disk_kind_is_the_engines_own_overlay_only(world: World) -> None:
    with pytest.raises(InvalidRequest, match="others use"):
        sandbox(world, Host("host", world.data).find(), disk="layers")


@pytest.mark.long
def test_a_snapshot_is_refused_when_a_file_it_has_open_changed_here(world: World, named: Path) -> None:
    held = named / "seen" / "held"
    for change, error in (("append", SnapshotMismatch), ("replace", SnapshotMismatch), ("remove", SnapshotMismatch)):
        held.write_text("first\n")
        with sandbox(world, Host(f"host:{named}/seen", world.data).find()) as box:
            box.spawn(["bash", "-c", "exec 5<held; read x <&5; sleep 1000"])
            assert box.exec("for i in 1 2 3 4 5 6 7 8 9; do sleep 0.05; done").exit_code == 0
            snapshot = box.snapshot()
            Sandbox.create(client=world.client, snapshot=snapshot["id"]).delete()
            if change == "append":
                held.write_text("first\nsecond\n")
            elif change == "replace":
                (named / "other").write_text("first\n")
                os.rename(named / "other", held)
            else:
                held.unlink()
            with pytest.raises(error, match=r"seen/held of this machine was changed") as caught:
                Sandbox.create(client=world.client, snapshot=snapshot["id"])
            assert "new snapshot" in caught.value.hint_text
            assert box.exec("echo alive").stdout == "alive\n"
            if change != "append":
                with pytest.raises(CannotSave, match="deleted or replaced on this machine"):
                    box.snapshot()
                assert box.exec("echo alive").stdout == "alive\n"


def test_a_file_that_is_only_looked_up_may_change(world: World, named: Path) -> None:
    with sandbox(world, Host(f"host:{named}/seen", world.data).find()) as box:
        assert box.exec("cat file").stdout == "here\n"
        snapshot = box.snapshot()
        (named / "seen" / "file").write_text("changed\n")
        with Sandbox.create(client=world.client, snapshot=snapshot["id"]) as again:
            assert again.exec("cat file").stdout == "changed\n"


# -- what not everybody may read -----------------------------------------------------------------------------------


def test_what_others_may_not_read_is_found_wherever_it_is(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    (etc / "open" / "deep").mkdir(parents=True)
    (etc / "closed").mkdir(mode=0o700)
    (etc / "closed" / "inner").write_text("x")
    (etc / "named").mkdir(mode=0o700)
    for name, mode, text in (("key", 0o600, "k"), ("group", 0o640, "g"), ("lock", 0o600, ""), ("public", 0o644, "p")):
        (etc / "open" / "deep" / name).write_text(text)
        (etc / "open" / "deep" / name).chmod(mode)
    (etc / "link").symlink_to("/etc/shadow")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(etc / "socket"))
        files, folders, unseen = private.below(tmp_path, "/etc", {"/etc/named"})
    assert unseen == set()
    assert files == {"/etc/open/deep/key", "/etc/open/deep/group", "/etc/socket"}
    assert folders == {"/etc/closed"}


def test_what_is_too_much_to_look_through_is_hidden_as_a_whole_and_said(tmp_path: Path) -> None:
    opt = tmp_path / "opt"
    for name in ("big/deep/deeper", "big/other", "small"):
        (opt / name).mkdir(parents=True)
    for number in range(40):
        (opt / "big" / "deep" / f"file{number}").write_text("x")
    for key in (opt / "big" / "deep" / "deeper" / "key", opt / "small" / "key"):
        key.write_text("secret")
        key.chmod(0o600)
    seen = {limit: private.below(tmp_path, "/opt", set(), limit=limit) for limit in (1, 20, 46, 1000)}
    assert seen[1].unseen == {"/opt"} and seen[1].files == set()
    assert seen[20].unseen == {"/opt/big/deep"} and seen[20].files == {"/opt/small/key"}
    assert seen[46].unseen == {"/opt/big/deep/deeper"}
    assert seen[1000] == ({"/opt/big/deep/deeper/key", "/opt/small/key"}, set(), set())
    for number in range(40):
        (opt / "big" / "other" / str(number) / "x").mkdir(parents=True)
    # As few as are needed, so that not each of thousands is a mount.
    assert private.below(tmp_path, "/opt", set(), limit=90).unseen == {"/opt/big/deep", "/opt/big/other"}


@root_only
def test_a_private_file_behind_the_limit_cannot_be_read_inside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(tempfile.mkdtemp(prefix="tb-many-", dir="/opt"))
    try:
        folder.chmod(0o755)
        (folder / "deep").mkdir(mode=0o755)
        for number in range(100):
            (folder / "deep" / f"file{number}").write_text("x")
        (folder / "deep" / "key").write_text("secret")
        (folder / "deep" / "key").chmod(0o600)
        below = private.below
        count = len(list(Path("/opt").rglob("*")))

        def soon_enough(root: Path, top: str, hidden: set[str]) -> private.Private:
            return below(root, top, hidden, limit=count - 50 if top == "/opt" else private.LIMIT)

        monkeypatch.setattr(private, "below", soon_enough)
        image = Host("host", world.data).find()
        assert image.notes and all("is hidden" in note for note in image.notes)
        with sandbox(world, image) as box:
            done = box.exec(f"cat {folder}/deep/key; ls {folder}/deep; echo -; echo x > /etc/written; cat /etc/written")
            assert "secret" not in done.stdout and done.stdout.endswith("-\nx\n")
    finally:
        shutil.rmtree(folder)
