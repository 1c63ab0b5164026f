"""The files of a sandbox, blocking: `sandbox.files`.

Does not cover: the same for asyncio (`aio`). Paths are absolute; calls act as the sandbox's user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from takeback.machines.client import fileops
from takeback.machines.client.commands import Data
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import items, run
from takeback.machines.client.hosted import HostedFiles

Entry = dict[str, Any]
Entries = list[Entry]


class Files(HostedFiles):
    """Read, write and move files in a sandbox."""

    def __init__(self, client: Client, sandbox_id: str) -> None:
        self._client = client
        self._id = sandbox_id

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises FileNotFound, IsADirectory, PermissionDenied."""
        return run(self._client, fileops.read(self._id, path))

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """Return the text of a file."""
        return self.read(path).decode(encoding)

    def read_stream(self, path: str) -> Iterator[bytes]:
        """Give the bytes of a file in pieces, so that it may be larger than memory."""
        yield from items(self._client, fileops.read_stream(self._id, path))

    def write(self, path: str, data: Data, mode: int | str | None = None) -> Entry:
        """Replace a file at once, making its folders; without `mode` a new one is 0644 and an old one keeps its."""
        return run(self._client, fileops.write(self._id, path, data, mode))

    def list(
        self,
        path: str = "/workspace",
        *,
        depth: int | None = None,
        glob: str | None = None,
        hidden: bool | None = None,
        limit: int | None = None,
    ) -> Entries:
        """Return the entries below a folder: name, path, type, size, mode, modifiedAt, uid, gid, symlinkTarget."""
        return run(self._client, fileops.listing(self._id, path, depth, glob, hidden, limit))

    def glob(self, pattern: str, root: str = "/workspace", *, limit: int | None = None) -> Entries:
        """Return the entries whose path below `root` fits; `**` stands for any folders."""
        return run(self._client, fileops.listing(self._id, root, fileops.DEEP, pattern, True, limit))

    def stat(self, path: str) -> Entry:
        """Return what a path is, `exists` first."""
        return run(self._client, fileops.stat(self._id, path))

    def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        return bool(self.stat(path)["exists"])

    def mkdir(self, path: str, parents: bool = True) -> None:
        """Make a folder; with `parents` one that is there already is no error."""
        run(self._client, fileops.simple("mkdir", self._id, path, parents=parents))

    def remove(self, path: str, recursive: bool = False) -> bool:
        """Remove a file or folder, and return whether there was one."""
        return bool(run(self._client, fileops.simple("remove", self._id, path, recursive=recursive))["removed"])

    def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        """Move a file or folder. Raises FileExists without `overwrite`."""
        target = fileops.absolute(target)
        run(self._client, fileops.simple("rename", self._id, source, to=target, overwrite=overwrite))

    def chmod(self, path: str, mode: int | str) -> None:
        """Set the mode of a file or folder."""
        run(self._client, fileops.simple("chmod", self._id, path, mode=fileops.as_mode(mode)))

    def upload(self, local_path: fileops.Local, remote_path: str, *, user: str = "sandbox") -> None:
        """Copy a file or a whole folder of this machine into the sandbox."""
        run(self._client, fileops.upload(self._id, local_path, remote_path, user))

    def download(self, remote_path: str, local_path: fileops.Local, *, user: str = "sandbox") -> None:
        """Copy a file or a whole folder of the sandbox to this machine; links that lead outside are refused."""
        run(self._client, fileops.download(self._id, remote_path, local_path, user))

    def archive(
        self, path: str, *, gzip: bool = True, user: str = "sandbox", exclude: Sequence[str] | None = None
    ) -> bytes:
        """Return a folder as a tar stream, compressed unless `gzip` is False; names that fit `exclude` are left out."""
        return run(self._client, fileops.archive(self._id, path, gzip, user, exclude))

    def unarchive(
        self,
        path: str,
        data: bytes,
        *,
        gzip: bool | None = None,
        user: str = "sandbox",
        idempotency_key: str | None = None,
    ) -> None:
        """Unpack a tar stream, compressed or not, below a folder; nothing is written outside it."""
        run(self._client, fileops.unarchive(self._id, path, data, gzip, user))
