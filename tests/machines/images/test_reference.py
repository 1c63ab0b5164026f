"""How images in registries and layouts are spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.errors import UnknownImage
from takeback.machines.images import catalogue, reference
from takeback.machines.images.debian import Debian
from takeback.machines.images.directory import Directory
from takeback.machines.images.host import Host
from takeback.machines.images.oci import Oci
from takeback.machines.layout import MachinesDir

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("python:3.12", "docker://docker.io/library/python:3.12"),
        ("docker://debian", "docker://docker.io/library/debian:latest"),
        ("someone/tool", "docker://docker.io/someone/tool:latest"),
        ("registry.example/a/b/c:v1", "docker://registry.example/a/b/c:v1"),
        ("localhost/a:1", "docker://localhost/a:1"),
        ("docker://127.0.0.1:5000/a@" + DIGEST, "docker://127.0.0.1:5000/a@" + DIGEST),
        ("a/b:tag@" + DIGEST, "docker://docker.io/a/b@" + DIGEST),
        ("[::1]:5000/a:1", "docker://[::1]:5000/a:1"),
    ],
)
def test_a_place_in_a_registry_is_understood_in_full_and_in_short(text: str, location: str) -> None:
    found = reference.parse(text)
    assert found is not None and found.location == location


@pytest.mark.parametrize(
    "text",
    ["docker://", "Upper/Case:1", "a/b:", "a//b", "a:b:c", "docker://host:port/a", "a/b@sha256:12", "-x/y:1", "a b:1"],
)
def test_what_is_not_spelled_as_an_image_is_refused(text: str) -> None:
    with pytest.raises(UnknownImage) as error:
        reference.parse(text)
    assert "oci:/a/layout" in error.value.hint_text


def test_only_a_registry_on_this_machine_is_spoken_to_in_the_clear() -> None:
    plain = [reference.parse(f"docker://{host}/a:1") for host in ("127.0.0.1:5000", "localhost", "[::1]:5000")]
    other = [reference.parse(f"docker://{host}/a:1") for host in ("10.0.0.1", "localhost.example", "127.0.0.1.example")]
    assert all(one is not None and one.is_loopback for one in plain)
    assert not any(one is not None and one.is_loopback for one in other)


def test_a_layout_is_a_full_path_with_a_tag_or_without(tmp_path: Path) -> None:
    found = reference.parse(f"oci:{tmp_path}:v1")
    assert found is not None and (found.layout, found.tag) == (str(tmp_path), "v1")
    (tmp_path / "a:b").mkdir()
    found = reference.parse(f"oci:{tmp_path}/a:b")
    assert found is not None and (found.layout, found.tag) == (f"{tmp_path}/a:b", "")
    with pytest.raises(UnknownImage, match="full one"):
        reference.parse("oci:relative")


def test_each_name_leads_to_its_kind(tmp_path: Path) -> None:
    machines = MachinesDir(tmp_path)
    kinds = {
        "debian": Debian, "debian:12": Oci, "host": Host, "host:/srv": Host, "/srv": Directory, "./x": Directory,
        "oci:/x": Oci, "docker://x": Oci, "a/b": Oci,
    }  # fmt: skip
    assert {name: type(catalogue.source(name, machines)) for name in kinds} == kinds


@pytest.mark.parametrize("name", ["ubuntu", "debain", "", "hots"])
def test_a_bare_word_that_is_no_image_fetches_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownImage) as error:
        catalogue.source(name, MachinesDir(tmp_path))
    assert "`debian`" in error.value.hint_text and "name:tag" in error.value.hint_text
