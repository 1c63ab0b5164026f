"""Images from OCI layouts and registries: what is unpacked, how work in it begins, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from takeback.errors import DiskFull, ImageFetchFailed, TakebackError, ToolMissing, UnknownImage
from takeback.host import system, tools
from takeback.machines.images import oci_config, oci_layout, oci_tools, reference
from takeback.machines.images.base import Image
from takeback.machines.images.oci import Oci
from takeback.machines.layout import MachinesDir
from takeback.machines.making import silent
from tests.machines.client.conftest import World
from tests.machines.images.conftest import sandbox
from tests.support import oci
from tests.support.oci import device, file, folder, link

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="owners are kept for root only")


def get(store: MachinesDir, text: str) -> Image:
    wanted = reference.parse(text)
    assert wanted is not None
    return Oci(wanted, store).ensure(silent)


def refused(store: MachinesDir, text: str) -> TakebackError:
    """Return the error of an image that cannot be had; nothing may be left of it."""
    before = kept(store)
    with pytest.raises((UnknownImage, ImageFetchFailed)) as error:
        get(store, text)
    assert kept(store) == before
    assert error.value.hint_text
    return error.value


def kept(store: MachinesDir) -> set[str]:
    return {one.name for one in store.images.iterdir()} - {".lock"} if store.images.exists() else set()


def names(rootfs: Path, below: str) -> list[str]:
    return sorted(os.listdir(rootfs / below))


# -- what is unpacked ----------------------------------------------------------------------------------------------


def test_layers_are_laid_on_each_other_with_whiteouts_links_and_modes(store: MachinesDir, layout: oci.Layout) -> None:
    first = oci.layer(
        folder("etc"), file("etc/kept", b"1"), file("etc/gone", b"1"), file("etc/changed", b"1"),
        folder("opaque"), file("opaque/old", b"1"), folder("opaque/sub"), file("opaque/sub/old", b"1"),
        folder("removed"), file("removed/x", b"1"), file("becomes-folder"), folder("becomes-file"),
        file("su", b"#!", 0o4755), file("sg", b"#!", 0o2755), folder("sticky", 0o1777), file("one", b"linked"),
        link("two", "one", hard=True), link("soft", "/etc/kept"), link("up", "../../etc/kept"), folder("closed", 0o000),
    )  # fmt: skip
    second = oci.layer(
        file("etc/.wh.gone"), file("etc/changed", b"22"), folder("opaque"), file("opaque/.wh..wh..opq"),
        file("opaque/new", b"2"), file(".wh.removed"), folder("becomes-folder"), file("becomes-folder/in"),
        file("becomes-file", b"2"), file(".wh.never-there"),
    )  # fmt: skip
    layout.image("v1", [first, second])
    image = get(store, f"oci:{layout.path}:v1")
    root = image.rootfs
    assert (root / "etc/kept").read_text() == "1" and (root / "etc/changed").read_text() == "22"
    assert not (root / "etc/gone").exists() and not (root / "removed").exists()
    assert names(root, "opaque") == ["new"]
    assert names(root, "becomes-folder") == ["in"] and (root / "becomes-file").read_text() == "2"
    assert not list(root.rglob(".wh.*"))
    assert stat.S_IMODE((root / "su").stat().st_mode) == 0o4755
    assert stat.S_IMODE((root / "sg").stat().st_mode) == 0o2755
    assert stat.S_IMODE((root / "sticky").stat().st_mode) == 0o1777
    assert stat.S_IMODE((root / "closed").stat().st_mode) == 0
    assert (root / "one").stat().st_ino == (root / "two").stat().st_ino and (root / "two").read_text() == "linked"
    assert os.readlink(root / "soft") == "/etc/kept" and os.readlink(root / "up") == "../../etc/kept"
    assert int((root / "etc/kept").stat().st_mtime) == 1_700_000_000


def test_a_layer_that_reaches_out_of_the_tree_stays_in_it(
    store: MachinesDir, layout: oci.Layout, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    first = oci.layer(link("door", str(outside)), link("file", f"{outside}/mine"), link("etc", str(outside)))
    second = oci.layer(file("door/new", b"x"), file("../escaped", b"x"), file("file", b"x"), file("door/.wh.mine"))
    layout.image("v1", [first, second], WorkingDir="/door/work")
    get(store, f"oci:{layout.path}:v1")
    assert sorted(os.listdir(outside)) == ["mine"] and (outside / "mine").read_text() == "mine"
    assert not list(tmp_path.rglob("escaped")) or all("rootfs" in str(one) for one in tmp_path.rglob("escaped"))


@root_only
def test_owners_are_the_images_and_no_device_is_left(store: MachinesDir, layout: oci.Layout) -> None:
    layout.image("v1", [oci.layer(file("theirs", b"x", uid=4321), folder("dev"), device("dev/null"))])
    root = get(store, f"oci:{layout.path}:v1").rootfs
    assert (root / "theirs").stat().st_uid == 4321
    assert names(root, "dev") == []


def test_one_manifest_is_kept_once_whatever_names_it(store: MachinesDir, layout: oci.Layout) -> None:
    digest = layout.image("v1", [oci.layer(file("a"))])
    layout.image("same", [oci.layer(file("a"))])
    layout.image("other", [oci.layer(file("b"))])
    one, same = get(store, f"oci:{layout.path}:v1"), get(store, f"oci:{layout.path}:same")
    assert one.rootfs == same.rootfs and one.version == same.version == digest
    assert get(store, f"oci:{layout.path}:other").rootfs != one.rootfs
    layout.image("v1", [oci.layer(file("c"))])
    assert get(store, f"oci:{layout.path}:v1").version != digest, "a layout is looked at each time"
    assert one.rootfs.is_dir(), "an image that others use stays"


def test_a_layout_with_one_image_needs_no_tag_and_one_of_many_platforms_is_this_machines(
    store: MachinesDir, layout: oci.Layout
) -> None:
    mine = layout.manifest([oci.layer(file("mine"))], {})
    other = layout.manifest([oci.layer(file("other"))], {}, "s390x")
    listed = [
        {**one, "platform": {"architecture": kind, "os": "linux"}} for one, kind in ((other, "s390x"), (mine, oci.HERE))
    ]
    layout.tag("", layout.json({"schemaVersion": 2, "manifests": listed}, oci.INDEX))
    image = get(store, f"oci:{layout.path}")
    assert image.version == mine["digest"] and (image.rootfs / "mine").exists()


# -- how work begins -----------------------------------------------------------------------------------------------


def test_a_sandbox_begins_as_the_config_says(
    world: World, store: MachinesDir, layout: oci.Layout, system_layer: bytes
) -> None:
    layout.image(
        "v1", [system_layer], User="worker", WorkingDir="/srv/app", Env=["PATH=/usr/bin:/opt/bin", "GREETING=good day"],
        Entrypoint=["/usr/bin/sh", "-c"], Cmd=["sleep 1"],
    )  # fmt: skip
    image = get(store, f"oci:{layout.path}:v1")
    assert image.start == ("/usr/bin/sh", "-c", "sleep 1")
    with sandbox(world, image) as box:
        assert box.exec("id -u; id -g; id -G; pwd; echo $GREETING; echo $HOME").stdout.splitlines() == [
            "1234", "1234", "1234 77", "/srv/app", "good day", "/home/worker",
        ]  # fmt: skip
        assert box.exec("touch file /home/worker/file && echo done").stdout == "done\n"
        assert box.exec("id -u", user="root").stdout == "0\n"
        assert box.exec("id -un", user="sandbox").stdout == "worker\n"
        assert "127.0.0.1 localhost" in box.exec("cat /etc/hosts").stdout
        copy = box.fork()
        assert copy.exec("ls").stdout == "file\n"
        copy.delete()
    assert not (image.rootfs / "srv/app/file").exists(), "the base is read-only"


def test_what_an_image_was_made_to_run_runs(
    world: World, store: MachinesDir, layout: oci.Layout, system_layer: bytes
) -> None:
    layout.image(
        "serves", [system_layer], User="worker", Env=["A=b"], Entrypoint=["bash", "-c"], Cmd=["echo $A; sleep 99"]
    )
    layout.image("fails", [system_layer], Cmd=["/no/such/program"])
    layout.image("waits", [system_layer], Cmd=["/bin/bash"])
    with sandbox(world, get(store, f"oci:{layout.path}:serves")) as box:
        begun = box.info["start"]
        assert begun["state"] == "started"
        found = next(one for one in box.processes() if one["id"] == begun["processId"])
        assert found["state"] == "running" and found["user"] == "sandbox"
        assert next(iter(box.process(found["id"]).output_bytes()))["data"] == b"b\n"
    with sandbox(world, get(store, f"oci:{layout.path}:fails")) as box:
        assert box.info["start"] == {"state": "not_running", "exitCode": 127}
    with sandbox(world, get(store, f"oci:{layout.path}:waits")) as box:
        assert "start" not in box.info and box.processes() == []


def test_two_sandboxes_share_one_tree_and_see_nothing_of_each_other(
    world: World, store: MachinesDir, layout: oci.Layout, system_layer: bytes
) -> None:
    layout.image("v1", [system_layer])
    image = get(store, f"oci:{layout.path}:v1")
    with sandbox(world, image) as one, sandbox(world, image, disk="memory") as two:
        assert one.exec("id -u; pwd; echo one > /etc/mine; cat /etc/mine").stdout == "0\n/\none\n"
        assert two.exec("cat /etc/mine").exit_code == 1


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", ("root", 0, 0, (0,))),
        ("worker", ("worker", 1234, 1234, (1234, 77))),
        ("1234", ("worker", 1234, 1234, (1234, 77))),
        ("worker:team", ("worker", 1234, 77, (77,))),
        ("4000", ("user4000", 4000, 0, (0,))),
        ("4000:5000", ("user4000", 4000, 5000, (5000,))),
    ],
)
def test_the_configs_user_is_looked_up_in_the_tree(user: str, expected: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nworker:x:1234:1234::/home/worker:/bin/sh\nbad\n")
    (tmp_path / "etc/group").write_text("team:x:77:a,worker\nroot:x:0:\n")
    work = oci_config.read({"User": user}, tmp_path)
    assert (work.user, work.uid, work.gid, work.groups) == expected


def test_a_config_that_says_nothing_is_root_at_the_top(tmp_path: Path) -> None:
    work = oci_config.read({"WorkingDir": "../x/../y"}, tmp_path)
    assert (work.user, work.uid, work.cwd, work.home, work.start) == ("root", 0, "/y", "/root", None)
    assert dict(work.env)["PATH"].startswith("/usr/local/sbin")


# -- registries ----------------------------------------------------------------------------------------------------


def test_an_image_comes_from_a_registry_once(store: MachinesDir, layout: oci.Layout) -> None:
    digest = layout.image("v1", [oci.layer(file("a", b"1"))])
    with oci.registry(layout, "some/tool") as (host, asked):
        image = get(store, f"docker://{host}/some/tool:v1")
        assert image.version == digest and (image.rootfs / "a").read_text() == "1"
        asked.clear()
        assert get(store, f"{host}/some/tool:v1").rootfs == image.rootfs
        assert asked == [], "what a tag meant is remembered"
        assert get(store, f"{host}/some/tool@{digest}").rootfs == image.rootfs
    assert get(store, f"docker://{host}/some/tool:v1").rootfs == image.rootfs
    assert kept(store) == {f"oci-{digest.removeprefix('sha256:')}", "references"}


def test_what_a_registry_does_not_have_is_an_unknown_image(store: MachinesDir, layout: oci.Layout) -> None:
    layout.image("v1", [oci.layer(file("a"))])
    with oci.registry(layout, "some/tool") as (host, _):
        for name in ("some/tool:v2", "other/tool:v1", f"some/tool@sha256:{'0' * 64}"):
            assert "manifest unknown" in str(refused(store, f"docker://{host}/{name}"))


def test_a_registry_that_does_not_answer_is_said_with_a_hint(store: MachinesDir, layout: oci.Layout) -> None:
    with oci.registry(layout, "some/tool") as (host, _):
        pass
    error = refused(store, f"docker://{host}/some/tool:v1")
    assert isinstance(error, ImageFetchFailed) and "refused" in str(error) and "network" in error.hint_text


def test_a_registry_that_gives_other_content_is_not_believed(store: MachinesDir, layout: oci.Layout) -> None:
    descriptor = layout.manifest([oci.layer(file("a", b"1"))], {})
    layout.tag("v1", descriptor)
    manifest = oci_layout.blob(layout.path, descriptor)
    digest = manifest["layers"][0]["digest"].removeprefix("sha256:")
    other = layout.blob(b"something else", oci.LAYER)["digest"].removeprefix("sha256:")
    shutil.copy(layout.path / "blobs/sha256" / other, layout.path / "blobs/sha256" / digest)
    with oci.registry(layout, "some/tool") as (host, _):
        assert isinstance(refused(store, f"docker://{host}/some/tool:v1"), ImageFetchFailed)
    assert isinstance(refused(store, f"oci:{layout.path}:v1"), ImageFetchFailed)


# -- layouts that are none -----------------------------------------------------------------------------------------


def test_what_is_no_layout_or_has_no_such_image_is_refused(store: MachinesDir, layout: oci.Layout) -> None:
    layout.image("v1", [oci.layer(file("a"))])
    layout.image("v2", [oci.layer(file("b"))])
    assert "its tags: v1, v2" in str(refused(store, f"oci:{layout.path}:v3"))
    assert "several images" in str(refused(store, f"oci:{layout.path}"))
    assert "no such folder" in str(refused(store, f"oci:{layout.path}/nowhere:v1"))
    assert "no file oci-layout" in str(refused(store, f"oci:{layout.path}/blobs:v1"))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"manifests": 1}', '{"manifests": [1]}', '{"manifests": []}'])
def test_a_broken_index_is_refused(text: str, layout: oci.Layout) -> None:
    (layout.path / "index.json").write_text(text)
    with pytest.raises(oci_layout.Unreadable):
        oci_layout.find(layout.path, "")


@pytest.mark.parametrize("digest", ["", "sha256:../../../etc/passwd", "sha512:" + "0" * 128, "sha256:" + "0" * 64])
def test_a_digest_that_is_none_leads_nowhere(digest: str, layout: oci.Layout) -> None:
    layout.tag("v1", {"mediaType": oci.MANIFEST, "digest": digest, "size": 1})
    with pytest.raises(oci_layout.Unreadable):
        oci_layout.find(layout.path, "v1")


def test_a_manifest_whose_content_changed_is_refused(layout: oci.Layout) -> None:
    digest = layout.image("v1", [oci.layer(file("a"))])
    path = layout.path / "blobs/sha256" / digest.removeprefix("sha256:")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "more": 1}))
    with pytest.raises(oci_layout.Unreadable, match="does not have the content"):
        oci_layout.find(layout.path, "v1")


def test_an_image_of_another_architecture_is_refused(layout: oci.Layout) -> None:
    other = layout.manifest([oci.layer(file("a"))], {}, "s390x")
    layout.tag("v1", {**other, "platform": {"architecture": "s390x", "os": "linux"}})
    with pytest.raises(oci_layout.Unreadable, match="no image for linux"):
        oci_layout.find(layout.path, "v1")


def test_a_user_that_the_tree_has_not_is_refused_and_nothing_is_left(store: MachinesDir, layout: oci.Layout) -> None:
    layout.image("v1", [oci.layer(file("a"))], User="nobody-here")
    assert "nobody-here" in str(refused(store, f"oci:{layout.path}:v1"))
    layout.image("v2", [oci.layer(file("a"))], User="0:nobodies")
    assert "nobodies" in str(refused(store, f"oci:{layout.path}:v2"))


# -- the tools -----------------------------------------------------------------------------------------------------


def test_without_tools_and_without_debian_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "have", lambda *_: False)
    monkeypatch.setattr(system, "debian", lambda: "")
    with pytest.raises(ToolMissing) as error:
        oci_tools.ensure("umoci", tmp_path / "tools", silent)
    assert "skopeo umoci" in error.value.hint_text
    assert [one.name for one in (tmp_path / "tools").iterdir()] == [".lock"]


def test_a_full_disk_is_said_as_such(store: MachinesDir, layout: oci.Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.image("v1", [oci.layer(file("a"))])
    monkeypatch.setattr(oci_tools, "unpack", lambda *_: "write x: no space left on device")
    with pytest.raises(DiskFull):
        get(store, f"oci:{layout.path}:v1")
    assert kept(store) == set()
