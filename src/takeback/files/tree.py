"""Trees of a checkpoint: read, edited along the changed paths only, compared, walked.

A stored directory is a git tree with one more blob, `%meta`: `takeback-meta 1`, newline, then one record per entry,
`MODE UID GID MTIME_NS NAME NUL` (mode octal with the file type; the directory's own record has an empty name).
Does not cover: where the values come from (`scan`, `ignored`) or go to (`apply`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator

from takeback.errors import Damaged
from takeback.files import names
from takeback.files.objects import Objects
from takeback.model import Entry

_MAGIC = b"takeback-meta 1\n"
Meta = tuple[int, int, int, int]  # mode, uid, gid, mtime_ns


def encode_meta(records: dict[bytes, Meta]) -> bytes:
    """Return the content of a `%meta` blob."""
    return _MAGIC + b"".join(b"%o %d %d %d %s\0" % (*records[name], name) for name in sorted(records))


def decode_meta(data: bytes) -> dict[bytes, Meta]:
    """Return the records of a `%meta` blob.

    Raises Damaged when it is not one.
    """
    if not data.startswith(_MAGIC):
        raise Damaged(what="a metadata blob", detail="unknown header", next="`takeback doctor`")
    result: dict[bytes, Meta] = {}
    for record in data[len(_MAGIC) :].split(b"\0")[:-1]:
        mode, uid, gid, mtime, name = record.split(b" ", 4)
        result[name] = (int(mode, 8), int(uid), int(gid), int(mtime))
    return result


def decode_tree(data: bytes, raw_length: int) -> dict[bytes, tuple[bool, str]]:
    """Return the entries of a git tree: stored name -> (is a tree, object name)."""
    result: dict[bytes, tuple[bool, str]] = {}
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        zero = data.index(b"\0", space)
        end = zero + 1 + raw_length
        result[data[space + 1 : zero]] = (data[at:space] == b"40000", data[zero + 1 : end].hex())
        at = end
    return result


class Folder:
    """One stored directory as read: its own record, files, and sub-directories by name on disk."""

    __slots__ = ("files", "folders", "own")

    def __init__(self) -> None:
        self.own: Meta | None = None
        self.files: dict[bytes, Entry] = {}
        self.folders: dict[bytes, str] = {}


def read_folder(objects: Objects, oid: str) -> Folder:
    """Read one stored directory.

    Raises Damaged when its tree or metadata is missing or contradicts itself.
    """
    folder = Folder()
    entries = decode_tree(objects.read(oid, "tree"), objects.raw_length)
    meta_entry = entries.pop(names.META, None)
    meta = decode_meta(objects.read(meta_entry[1], "blob")) if meta_entry else {}
    folder.own = meta.pop(b"", None)
    for stored, (is_tree, name_oid) in entries.items():
        name = names.on_disk(stored)
        if is_tree:
            folder.folders[name] = name_oid
        elif name in meta:
            folder.files[name] = Entry(*meta[name], name_oid)
        else:
            raise Damaged(what=f"tree {oid}", detail="a file without metadata", next="`takeback doctor`")
    return folder


class _Node:
    __slots__ = ("dirty", "files", "loaded", "nodes", "oid", "own")

    def __init__(self, oid: str | None) -> None:
        self.oid = oid
        self.loaded = oid is None
        self.dirty = oid is None
        self.own: Meta | None = None
        self.files: dict[bytes, Entry] = {}
        self.nodes: dict[bytes, _Node] = {}


class TreeEditor:
    """Change some paths of a stored tree; only directories on the way to them are read and written."""

    def __init__(self, objects: Objects, base: str | None) -> None:
        self._objects = objects
        self._root = _Node(base)
        self.files_delta = 0  # files now, less files in the base tree

    def _load(self, node: _Node) -> _Node:
        if not node.loaded and node.oid is not None:
            folder = read_folder(self._objects, node.oid)
            node.own = folder.own
            node.files = folder.files
            node.nodes = {name: _Node(oid) for name, oid in folder.folders.items()}
            node.loaded = True
        return node

    def get(self, path: bytes) -> Entry | None:
        """Return what the tree says of a path; the root is `b""`."""
        node = self._load(self._root)
        if path == b"":
            return Entry(*node.own, "") if node.own else None
        *above, name = path.split(b"/")
        for part in above:
            child = node.nodes.get(part)
            if child is None:
                return None
            node = self._load(child)
        if name in node.files:
            return node.files[name]
        child = node.nodes.get(name)
        if child is None:
            return None
        own = self._load(child).own
        return Entry(*own, "") if own else None

    def set(self, path: bytes, entry: Entry) -> None:
        """Put an entry at a path; a file replaces a directory of that name with all below it, and the reverse."""
        node = self._load(self._root)
        node.dirty = True
        if path == b"":
            node.own = entry[:4]
            return
        *above, name = path.split(b"/")
        for part in above:
            self._drop_file(node, part)
            child = node.nodes.get(part)
            if child is None:
                child = node.nodes[part] = _Node(None)
            node = self._load(child)
            node.dirty = True
        if entry.is_dir:
            self._drop_file(node, name)
            child = node.nodes.get(name)
            if child is None:
                child = node.nodes[name] = _Node(None)
            self._load(child).own = entry[:4]
            child.dirty = True
        else:
            child = node.nodes.pop(name, None)
            if child is not None:
                self.files_delta -= self._count(child)
            self.files_delta += name not in node.files
            node.files[name] = entry

    def _drop_file(self, node: _Node, name: bytes) -> None:
        if node.files.pop(name, None) is not None:
            self.files_delta -= 1

    def _count(self, node: _Node) -> int:
        self._load(node)
        return len(node.files) + sum(self._count(child) for child in node.nodes.values())

    def remove(self, path: bytes) -> None:
        """Take a path out; of a directory only its own record, so that what is below stays until removed itself."""
        node = self._load(self._root)
        trail = [node]
        *above, name = path.split(b"/")
        for part in above:
            child = node.nodes.get(part)
            if child is None:
                return
            node = self._load(child)
            trail.append(node)
        if name in node.files:
            self._drop_file(node, name)
        elif name in node.nodes:
            child = self._load(node.nodes[name])
            child.own = None
            child.dirty = True
        else:
            return
        for step in trail:
            step.dirty = True

    def files_in(self, path: bytes) -> list[bytes]:
        """Return the paths of the files (not directories) directly in a directory."""
        node = self._load(self._root)
        for part in path.split(b"/") if path else []:
            child = node.nodes.get(part)
            if child is None:
                return []
            node = self._load(child)
        return [path + b"/" + name if path else name for name in node.files]

    def drop(self, path: bytes) -> None:
        """Take a path out with everything below it."""
        node = self._load(self._root)
        trail = [node]
        *above, name = path.split(b"/")
        for part in above:
            child = node.nodes.get(part)
            if child is None:
                return
            node = self._load(child)
            trail.append(node)
        self._drop_file(node, name)
        child = node.nodes.pop(name, None)
        if child is not None:
            self.files_delta -= self._count(child)
        for step in trail:
            step.dirty = True

    def write(self) -> str:
        """Queue the changed directories and return the root tree's name."""
        return self._write(self._root) or self._write_empty()

    def _write_empty(self) -> str:
        return self._objects.write("tree", b"")

    def _write(self, node: _Node) -> str | None:
        if not node.dirty:
            return node.oid
        content: list[tuple[bytes, bytes]] = []
        for name, child in list(node.nodes.items()):
            oid = self._write(child)
            if oid is None:
                del node.nodes[name]
                continue
            stored = names.stored(name)
            content.append((stored + b"/", b"40000 " + stored + b"\0" + bytes.fromhex(oid)))
        records: dict[bytes, Meta] = {name: entry[:4] for name, entry in node.files.items()}
        for name, entry in node.files.items():
            stored = names.stored(name)
            content.append((stored, _git_mode(entry.mode) + b" " + stored + b"\0" + bytes.fromhex(entry.oid)))
        if node.own is not None:
            records[b""] = node.own
        if records:
            meta = self._objects.write("blob", encode_meta(records))
            content.append((names.META, b"100644 " + names.META + b"\0" + bytes.fromhex(meta)))
        node.dirty = False
        # git-mktree(1) order: a directory sorts as if its name ended in `/`.
        node.oid = self._objects.write("tree", b"".join(item for _, item in sorted(content))) if content else None
        return node.oid


def _git_mode(mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return b"120000"
    return b"100755" if mode & 0o100 else b"100644"


def walk(objects: Objects, oid: str, prefix: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """Yield every path of a stored tree with its entry, directories before what they hold, the root as `b""`."""
    pending = [(prefix, oid)]
    while pending:
        at, tree = pending.pop()
        folder = read_folder(objects, tree)
        if folder.own is not None:
            yield at, Entry(*folder.own, "")
        base = at + b"/" if at else b""
        for name, entry in folder.files.items():
            yield base + name, entry
        pending.extend((base + name, child) for name, child in folder.folders.items())


Difference = dict[bytes, tuple[Entry | None, Entry | None]]


def diff(objects: Objects, before: str | None, after: str | None) -> Difference:
    """Return the paths whose entries differ between two stored trees, reading only directories that differ."""
    result: Difference = {}
    pending: list[tuple[bytes, str | None, str | None]] = [(b"", before, after)]
    empty = Folder()
    while pending:
        at, old_oid, new_oid = pending.pop()
        if old_oid == new_oid:
            continue
        old = read_folder(objects, old_oid) if old_oid else empty
        new = read_folder(objects, new_oid) if new_oid else empty
        if old.own != new.own:
            # Where a file became a directory (or the reverse) the file's side is already here.
            was, now = result.get(at, (None, None))
            result[at] = (
                Entry(*old.own, "") if old.own else was,
                Entry(*new.own, "") if new.own else now,
            )
        base = at + b"/" if at else b""
        for name in old.files.keys() | new.files.keys():
            one, two = old.files.get(name), new.files.get(name)
            if one != two:
                result[base + name] = (one, two)
        for name in old.folders.keys() | new.folders.keys():
            pending.append((base + name, old.folders.get(name), new.folders.get(name)))
    return result
