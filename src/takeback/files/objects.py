"""Objects of the private store: read through one long-lived git process, written by us in bulk.

Does not cover: which objects there should be. Formats: gitformat-loose (a zlib stream of `type size NUL content`)
and gitformat-pack, version 2 without deltas.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress

from takeback.errors import Damaged
from takeback.files import packs
from takeback.host import process
from takeback.host.git import Git, checked

_UNPACK_BELOW = 150  # fewer objects than this, received as a pack, are kept as single files
_PACK_FROM = 24  # more new objects than this become one pack: to make a file costs more than to write it
_PACKS = 60  # more packs than this are rolled up
_ASK_AT_ONCE = 400  # the answers to these fit into a pipe, so that neither side waits for the other
_FLUSH_BYTES = 48 * 1024 * 1024
_KEEP, _KEEP_BELOW = 2000, 8192  # small objects kept in memory: how many, up to which size in bytes
_TYPES = (b"commit", b"tree", b"blob", b"tag")


class Objects:
    """Read and write objects of one store; what was written is on disk after `flush`."""

    def __init__(self, git: Git, object_format: str) -> None:
        self.git = git
        self.format = object_format
        self.raw_length = 20 if object_format == "sha1" else 32
        self.empty_tree = self._name("tree", b"")
        self._dir = os.path.join(git.git_dir, b"objects")
        self._pending: dict[str, tuple[str, bytes]] = {}
        self._pending_bytes = 0
        self._lately: dict[str, tuple[str, bytes]] = {}  # a folder is read once by each of several comparisons
        self._cat: process.Pipe | None = None

    def close(self) -> None:
        """End the reading process."""
        if self._cat is not None:
            assert self._cat.stdin is not None
            with suppress(OSError):
                self._cat.stdin.close()
            process.end(self._cat)
            self._cat = None

    def read(self, name: str, kind: str) -> bytes:
        """Return the content of an object of the given type.

        Raises Damaged when it is missing, unreadable or of another type.
        """
        waiting = self._pending.get(name) or self._lately.get(name)
        if waiting is not None and waiting[0] == kind:
            return waiting[1]
        found = self.find(name.encode())
        if found is None or found[0] != kind:
            raise Damaged(
                what=f"object {name}",
                detail="missing or unreadable in the store" if found is None else f"a {found[0]}, not a {kind}",
                next="`takeback doctor` lists what can still be restored",
            )
        if self._name(kind, found[1]) != name:  # git checks a stream's own checksum, not the name
            raise Damaged(what=f"object {name}", detail="not what was saved", next="`takeback doctor`")
        if len(found[1]) <= _KEEP_BELOW:
            if len(self._lately) >= _KEEP:
                self._lately.clear()
            self._lately[name] = found
        return found[1]

    def find(self, expression: bytes) -> tuple[str, bytes] | None:
        """Return (type, content) of a git object expression without NUL or newline, or None when there is none."""
        heads = self._ask(b"contents", [expression])
        if not heads or len(heads[0]) != 3 or heads[0][1] not in _TYPES:
            return None
        assert self._cat is not None and self._cat.stdout is not None
        size = int(heads[0][2])
        data = self._cat.stdout.read(size)
        self._cat.stdout.read(1)
        return (heads[0][1].decode(), data) if len(data) == size else None

    def _ask(self, command: bytes, expressions: Sequence[bytes]) -> list[list[bytes]]:
        """Return the words of git's answer to each; fewer answers when it died, as it does on a corrupt object."""
        if self._cat is None or self._cat.poll() is not None:
            self.close()
            self._cat = self.git.pipe("cat-file", "--batch-command")
        assert self._cat.stdin is not None and self._cat.stdout is not None
        heads: list[list[bytes]] = []
        try:
            self._cat.stdin.write(b"".join(b"%b %b\n" % (command, expression) for expression in expressions))
            self._cat.stdin.flush()
            for _ in expressions:
                head = self._cat.stdout.readline().split()
                if not head:
                    self.close()
                    break
                heads.append(head)
        except OSError:
            self.close()
        return heads

    def is_whole(self, name: str) -> bool:
        """Whether the store has this object and it is what its name says."""
        found = self.find(name.encode())
        return found is not None and self._name(found[0], found[1]) == name

    def write(self, kind: str, data: bytes) -> str:
        """Queue an object and return its name."""
        name = self._name(kind, data)
        if name not in self._pending:
            self._pending[name] = (kind, data)
            self._pending_bytes += len(data)
            if self._pending_bytes > _FLUSH_BYTES:
                self.flush()
        return name

    def write_stream(self, fd: int) -> str:
        """Store the rest of an open file, of any size, as a blob and return its name."""
        out = self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=fd)
        return out.decode().strip()

    def name_of(self, data: bytes) -> str:
        """Return the name of a blob with this content, storing nothing."""
        return self._name("blob", data)

    def extract(self, name: str, fd: int) -> None:
        """Write a blob's content to an open file; big blobs are streamed.

        Raises Damaged when the blob is not whole, OSError when the file cannot be written.
        """
        waiting = self._pending.get(name)
        if waiting is not None:
            _write_all(fd, waiting[1])
            return
        size = self.size(name)
        if size is not None and size <= _FLUSH_BYTES:
            _write_all(fd, self.read(name, "blob"))
            return
        done = self.git.start("cat-file", "blob", name, stdout=fd).finish()
        if done.code != 0:
            if b"write" in done.err or os.fstat(fd).st_size not in (0, size):
                raise OSError(28, "cannot write", name)
            raise Damaged(what=f"object {name}", detail="unreadable in the store", next="`takeback doctor`")
        if self._name_of_file(fd) != name:
            raise Damaged(what=f"object {name}", detail="not what was saved", next="`takeback doctor`")

    def size(self, name: str) -> int | None:
        """Return a blob's size in bytes, or None when the store does not have it."""
        waiting = self._pending.get(name)
        if waiting is not None:
            return len(waiting[1])
        return self.sizes([name]).get(name)

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those blobs the store has."""
        wanted = list(dict.fromkeys(names))
        result = {name: len(self._pending[name][1]) for name in wanted if name in self._pending}
        rest = [name for name in wanted if name not in result]
        for start in range(0, len(rest), _ASK_AT_ONCE):
            asked = rest[start : start + _ASK_AT_ONCE]
            for name, head in zip(asked, self._ask(b"info", [name.encode() for name in asked]), strict=False):
                if len(head) == 3:
                    result[name] = int(head[2])
        return result

    def missing(self, names: Iterable[str]) -> set[str]:
        """Return those names the store has no object for."""
        wanted = set(names)
        return wanted - self.sizes(wanted).keys()

    def flush(self) -> None:
        """Put everything queued on disk.

        Raises OSError (also ENOSPC); what was queued stays queued then.
        """
        if not self._pending:
            return
        if len(self._pending) < _PACK_FROM and self._pending_bytes < _FLUSH_BYTES:
            for name, (kind, data) in self._pending.items():
                self._write_loose(name, kind, data)
        else:
            self._write_pack()
            self._roll_up()
        self._pending.clear()
        self._pending_bytes = 0

    def discard(self) -> None:
        """Forget everything queued."""
        self._pending.clear()
        self._pending_bytes = 0

    def _name(self, kind: str, data: bytes) -> str:
        digest = hashlib.new(self.format, usedforsecurity=False)
        digest.update(f"{kind} {len(data)}\0".encode())
        digest.update(data)
        return digest.hexdigest()

    def _name_of_file(self, fd: int) -> str:
        digest = hashlib.new(self.format, usedforsecurity=False)
        digest.update(f"blob {os.fstat(fd).st_size}\0".encode())
        with open(f"/dev/fd/{fd}", "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()

    def _write_loose(self, name: str, kind: str, data: bytes) -> None:
        folder = os.path.join(self._dir, name[:2].encode())
        path = os.path.join(folder, name[2:].encode())
        content = f"{kind} {len(data)}\0".encode() + data
        if _holds(path, content):
            return
        os.makedirs(folder, exist_ok=True)
        fd, temp = tempfile.mkstemp(prefix=b"tmp_obj_", dir=folder)
        try:
            try:
                _write_all(fd, zlib.compress(content, 1))
                os.fchmod(fd, 0o444)
            finally:
                os.close(fd)
            os.rename(temp, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temp)
            raise

    def _write_pack(self) -> None:
        records = ((name, kind, data) for name, (kind, data) in self._pending.items())
        pack, index, checksum = packs.encode(records, self.format)
        target = os.path.join(self._dir, b"pack", b"pack-" + checksum.encode())
        os.makedirs(os.path.dirname(target), exist_ok=True)
        for content, suffix in ((pack, b".pack"), (index, b".idx")):  # the index last: git looks for that
            fd, temp = tempfile.mkstemp(prefix=b"tmp_pack_", dir=os.path.dirname(target))
            try:
                try:
                    _write_all(fd, content)
                    os.fsync(fd)
                    os.fchmod(fd, 0o444)
                finally:
                    os.close(fd)
                os.rename(temp, target + suffix)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temp)
                raise

    def _roll_up(self) -> None:
        """Join small packs into bigger ones (git-repack(1), --geometric), so that their number stays small."""
        there = os.listdir(os.path.join(self._dir, b"pack"))
        if sum(name.endswith(b".pack") for name in there) - sum(name.endswith(b".keep") for name in there) > _PACKS:
            self.git.run("repack", "-d", "-q", "--geometric=2")


def receive_pack(
    git: Git, source: Git, wanted: Iterable[str], known: Iterable[str], scratch: bytes, options: Iterable[str] = ()
) -> None:
    """Copy what `wanted` reaches and `known` does not from one repository into another, without either's config.

    The pack goes through a file in `scratch`.

    Raises GitFailed when the source cannot give them.
    """
    lines = "".join(f"{oid}\n" for oid in wanted) + "".join(f"^{oid}\n" for oid in known)
    args = ("pack-objects", "--revs", "--stdout", "-q", "--window=0", "--delta-base-offset", *options)
    with tempfile.TemporaryFile(dir=scratch) as file:
        child = source.start(*args, feed=lines.encode(), stdout=file)
        checked(args, child.finish())
        # The children share this file's offset, which Python's own buffering would move.
        count = int.from_bytes(os.pread(file.fileno(), 12, 0)[8:12], "big")
        if count == 0:
            return
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        if count < _UNPACK_BELOW:
            git.run("unpack-objects", "-q", stdin=file.fileno())
        else:
            git.run("index-pack", "--stdin", stdin=file.fileno())


def _holds(path: bytes, content: bytes) -> bool:
    """Whether an object is there and whole: a damaged one is written again, which mends every checkpoint with it."""
    try:
        with open(path, "rb") as file:
            return zlib.decompress(file.read()) == content
    except (OSError, zlib.error):
        return False


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
