"""Packs that we write are packs to git."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from takeback.files.objects import Objects
from takeback.host.git import Git


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_git_reads_and_checks_a_pack_of_ours(tmp_path: Path, object_format: str) -> None:
    subprocess.run(["git", "init", "-q", "--bare", f"--object-format={object_format}", tmp_path], check=True)
    git = Git(bytes(tmp_path))
    chance = random.Random(3)
    contents = [b"", b"a", *(chance.randbytes(size) for size in (15, 16, 2047, 2048, 300_000)), b"x" * 5_000_000]
    contents += [b"%d" % number for number in range(600)]
    with_objects = Objects(git, object_format)
    names = [with_objects.write("blob", content) for content in contents]
    entry = bytes.fromhex(names[0])
    tree = with_objects.write("tree", b"100644 a\0" + entry)
    with_objects.flush()
    with_objects.close()
    (pack,) = (tmp_path / "objects/pack").glob("*.pack")
    assert sorted(path.name for path in pack.parent.iterdir()) == [pack.stem + ".idx", pack.name]
    subprocess.run(["git", "verify-pack", pack], cwd=tmp_path, check=True)
    subprocess.run(["git", "fsck", "--strict"], cwd=tmp_path, check=True)
    again = Objects(git, object_format)
    assert again.sizes(names) == {name: len(content) for name, content in zip(names, contents, strict=True)}
    assert [again.read(name, "blob") for name in names] == contents
    assert again.read(tree, "tree") == b"100644 a\0" + entry
    assert again.missing([*names, "1" * len(tree)]) == {"1" * len(tree)}
    again.close()
