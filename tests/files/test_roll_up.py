"""Packs written by checkpoints are rolled up, so that their number stays small and nothing in them is lost."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.files.objects import Objects
from takeback.host import git


def test_many_small_packs_become_few_and_every_object_can_still_be_read(tmp_path: Path) -> None:
    store = os.fsencode(tmp_path / "store.git")
    git.init_store(store, "sha1")
    objects = Objects(git.Git(store, store=True), "sha1")
    written: dict[str, bytes] = {}
    for batch in range(70):
        for number in range(30):
            data = b"%d %d" % (batch, number)
            written[objects.write("blob", data)] = data
        objects.flush()
    packs = [name for name in os.listdir(os.path.join(store, b"objects", b"pack")) if name.endswith(b".pack")]
    assert 1 <= len(packs) <= 60
    assert {name: objects.read(name, "blob") for name in written} == written
    objects.close()
    fresh = Objects(git.Git(store, store=True), "sha1")
    assert all(fresh.read(name, "blob") == data for name, data in written.items())
    fresh.close()
