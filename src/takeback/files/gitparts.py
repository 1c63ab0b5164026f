"""Read the saved git state of a checkpoint back into values that can be compared: refs and index entries.

Does not cover: saving (`gitstate`) or putting back (`gitrestore`). The formats are described in `gitstate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from takeback.errors import Damaged
from takeback.files.gitstate import INDEX_MAGIC, REFS_MAGIC
from takeback.files.objects import Objects
from takeback.files.tree import decode_tree
from takeback.host.git import Git, split

IndexValue = tuple[tuple[str, str, str, int], ...]  # (tag, mode, object, stage) of every entry of one path


@dataclass
class Refs:
    """`head` is `ref NAME`, an object name, or empty; `stash` holds (object, message), newest first."""

    head: str = ""
    refs: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (object, type)
    symbolic: dict[str, str] = field(default_factory=dict)
    stash: tuple[tuple[str, str], ...] = ()

    def head_commit(self) -> str:
        """Return the commit HEAD leads to, empty when it leads nowhere yet."""
        if self.head.startswith("ref "):
            return self.refs.get(self.head[4:], ("", ""))[0]
        return self.head


def read_refs(objects: Objects, oid: str | None) -> Refs:
    """Return the refs of a checkpoint; none for a project without git.

    Raises Damaged when the blob is missing or not one of ours.
    """
    result = Refs()
    if oid is None:
        return result
    data = objects.read(oid, "blob")
    if not data.startswith(REFS_MAGIC):
        raise Damaged(what="the saved refs", detail="unknown header", next="`takeback doctor`")
    stash: list[tuple[str, str]] = []
    for line in data[len(REFS_MAGIC) :].decode("utf-8", "surrogateescape").splitlines():
        word, _, rest = line.partition(" ")
        if word == "HEAD":
            result.head = rest.strip()
        elif word == "ref":
            name_oid, kind, name = rest.split(" ", 2)
            result.refs[name] = (name_oid, kind)
        elif word == "sym":
            target, name = rest.split(" ", 1)
            result.symbolic[name] = target
        elif word == "stash":
            name_oid, _, message = rest.partition(" ")
            stash.append((name_oid, message))
    result.stash = tuple(stash)
    return result


@dataclass(frozen=True)
class SavedIndex:
    """The stage 0 tree and the special entries of a saved index."""

    entries: str
    special: dict[bytes, IndexValue]


def read_index(objects: Objects, oid: str | None) -> SavedIndex:
    """Return a saved index; an empty one for a project without."""
    if oid is None:
        return SavedIndex(objects.write("tree", b""), {})
    parts = decode_tree(objects.read(oid, "tree"), objects.raw_length)
    data = objects.read(parts[b"flags"][1], "blob")
    if not data.startswith(INDEX_MAGIC):
        raise Damaged(what="the saved index", detail="unknown header", next="`takeback doctor`")
    special: dict[bytes, list[tuple[str, str, str, int]]] = {}
    for record in split(data[len(INDEX_MAGIC) :]):
        head, _, path = record.partition(b"\t")
        tag, mode, name, stage = head.decode().split(" ")
        special.setdefault(path, []).append((tag, mode, name, int(stage)))
    return SavedIndex(parts[b"entries"][1], {path: tuple(sorted(values)) for path, values in special.items()})


IndexDiff = dict[bytes, tuple[IndexValue, IndexValue]]


def diff_index(store: Git, objects: Objects, before: str | None, after: str | None) -> IndexDiff:
    """Return the paths whose index entries differ, as path -> (before, after); () is no entry."""
    if before == after:
        return {}
    old, new = read_index(objects, before), read_index(objects, after)
    objects.flush()
    result: IndexDiff = {}
    plain: dict[bytes, tuple[IndexValue, IndexValue]] = {}
    if old.entries != new.entries:
        fields = split(store.run("diff-tree", "-r", "-z", "--raw", "--no-renames", old.entries, new.entries))
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, new_mode, old_oid, new_oid, _ = head[1:].decode().split(" ")
            plain[path] = (_plain(old_mode, old_oid), _plain(new_mode, new_oid))
    for path in plain.keys() | old.special.keys() | new.special.keys():
        one = old.special.get(path)
        two = new.special.get(path)
        if one is None:
            one = plain[path][0] if path in plain else _lookup(store, old.entries, path)
        if two is None:
            two = plain[path][1] if path in plain else _lookup(store, new.entries, path)
        if one != two:
            result[path] = (one, two)
    return result


def index_value(store: Git, objects: Objects, oid: str | None, path: bytes) -> IndexValue:
    """Return the entries of one path in a saved index."""
    saved = read_index(objects, oid)
    if path in saved.special:
        return saved.special[path]
    objects.flush()
    return _lookup(store, saved.entries, path)


def _plain(mode: str, oid: str) -> IndexValue:
    return () if mode == "000000" else (("H", mode, oid, 0),)


def _lookup(store: Git, entries: str, path: bytes) -> IndexValue:
    for record in split(store.run("ls-tree", "-z", "--full-tree", "--", entries, path)):
        head, _, name = record.partition(b"\t")
        mode, _, oid = head.decode().split(" ")
        if name == path and mode != "040000":
            return (("H", mode, oid, 0),)
    return ()
