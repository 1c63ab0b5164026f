"""Write a plan to the project: stage every new file, then rename and delete, then verify.

    stage    new content as files in ROOT/.takeback-stage.PID      a full disk is met here, nothing visible changed
    commit   deletes (deepest first) - folders - renames - modes - git state - folder times
    verify   every path is what was wanted

Paths are opened from the root one name at a time and never through a link; a file with other hard links is replaced,
not written. Does not cover: what to write (`plan`, `undo`), or surviving a kill (`journal`).
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from takeback.errors import CannotWrite, DiskFull, GitFailed, OpenFileInUse
from takeback.files import leftovers, names, sqlite_copy
from takeback.files.gitrestore import GitRestorer, init_repository
from takeback.files.listing import STAGE
from takeback.files.names import human
from takeback.files.plan import Plan
from takeback.files.workspace import Workspace
from takeback.model import Entry


class Applier:
    """Writes one plan into one worktree."""

    def __init__(self, workspace: Workspace, plan: Plan) -> None:
        self._w = workspace
        self._plan = plan
        self._stage = os.path.join(workspace.place.root, STAGE + b".%d" % os.getpid())
        self._staged: dict[bytes, bytes] = {}
        self._as_root = os.geteuid() == 0

    # -- before the first write ----------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Raise what would stop the plan half-way: locked index, open databases, folders in the way, no space."""
        if self._w.has_git and self._plan.git:
            self._restorer().check(self._plan.git)
        self._check_databases()
        for path, (now, want) in self._plan.paths.items():
            if want is not None and not want.is_dir and (now is None or now.is_dir):
                self._check_in_the_way(path)
            self._check_writable(path)
        need = sum(self._w.objects.sizes(self._to_stage().values()).values())
        disk = os.statvfs(self._w.place.root)
        if need and need > disk.f_bavail * disk.f_frsize:
            raise DiskFull(path=f"{names.show(self._w.place.root)} ({human(need)} needed)")

    def _check_in_the_way(self, path: bytes) -> None:
        full = self._w.real(path)
        if not os.path.isdir(full) or os.path.islink(full):
            return
        leaving = {gone for gone, (_, want) in self._plan.paths.items() if want is None}
        for folder, dirs, files in os.walk(full):
            for name in [*dirs, *files]:
                inner = os.path.relpath(os.path.join(folder, name), self._w.place.root)
                if inner not in leaving:
                    why = f"a folder is there, and {names.show(inner)} in it is in no checkpoint"
                    raise OpenFileInUse(path=names.show(path), why=why)

    def _check_writable(self, path: bytes) -> None:
        if self._as_root:
            return
        above = path
        while above:
            above = above.rpartition(b"/")[0]
            found = self._w.reader.look(above)
            if found is None or not stat.S_ISDIR(found.st_mode):
                continue
            ours = found.st_uid == os.geteuid()  # then its mode can be changed for the while
            if not ours and not os.access(self._w.real(above), os.W_OK | os.X_OK):
                raise CannotWrite(
                    path=names.show(path), why="its folder is not writable", next="give yourself write permission"
                )
            return

    def _check_databases(self) -> None:
        groups = self._databases()
        sqlite_copy.refuse_if_in_use(groups)

    def databases_in_use(self) -> dict[bytes, str]:
        """Return the planned paths that belong to a database some process has open, with who it is."""
        groups = self._databases()
        result: dict[bytes, str] = {}
        for full, holders in sqlite_copy.in_use_by(groups).items():
            for path in groups[full]:
                result[path] = f"open in process {holders[0].pid} ({holders[0].command})"
        return result

    def _databases(self) -> dict[bytes, list[bytes]]:
        """Return databases on disk that the plan touches: path on disk -> planned paths of it and its companions."""
        groups: dict[bytes, list[bytes]] = {}
        for path in self._plan.paths:
            full = self._w.real(sqlite_copy.database_of(path) or path)
            if full in groups or self._w.databases.is_database(full):
                groups.setdefault(full, []).append(path)
        return groups

    # -- writing -------------------------------------------------------------------------------------------------

    def run(self, reason: str) -> None:
        """Write everything.

        Raises DiskFull or CannotWrite; when the first visible change had not been made, nothing is changed.
        """
        if self._plan.rebuild_git and not self._w.has_git:
            init_repository(self._w.place.root, self._w.project.object_format)
            self._w.found_git()
        try:
            try:
                self._stage_all()
                self._commit_paths()
            finally:
                shutil.rmtree(self._stage, ignore_errors=True)
            if self._w.has_git and self._plan.git:
                self._restorer().apply(self._plan.git, reason)
        except OSError as error:
            raise self._explain(error) from error
        except GitFailed as error:
            if leftovers.disk_is_full(error, self._w.place.root):
                raise DiskFull(path=names.show(self._w.place.root)) from error
            raise
        self._set_folder_times()

    def _restorer(self) -> GitRestorer:
        return GitRestorer(self._w.place, self._w.store, self._w.objects, os.fsencode(self._w.dir.path))

    def _explain(self, error: OSError) -> Exception:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(path=names.show(self._w.place.root))
        path = error.filename
        text = names.show(os.fsencode(path)) if isinstance(path, str | bytes) else "the project"
        return CannotWrite(path=text, why=error.strerror or str(error), next="mend that and repeat the command")

    def _to_stage(self) -> dict[bytes, str]:
        return {
            path: want.oid
            for path, (now, want) in self._plan.paths.items()
            if want is not None and not want.is_dir and not self._in_place(path, now, want)
        }

    def _in_place(self, path: bytes, now: Entry | None, want: Entry) -> bool:
        """Whether only mode, owner or time differ, on a file no other name leads to."""
        if now is None or now.oid != want.oid or stat.S_IFMT(now.mode) != stat.S_IFMT(want.mode) or want.is_link:
            return False
        found = self._w.reader.look(path)
        return found is not None and found.st_nlink == 1

    def _stage_all(self) -> None:
        wanted = self._to_stage()
        if not wanted:
            return
        os.mkdir(self._stage, 0o700)
        for number, (path, oid) in enumerate(wanted.items()):
            want = self._plan.paths[path][1]
            assert want is not None
            target = os.path.join(self._stage, b"%d" % number)
            if want.is_link:
                os.symlink(self._w.objects.read(oid, "blob"), target)
            else:
                self._w.reader.written[path] = want
                fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    self._w.objects.extract(oid, fd)
                finally:
                    os.close(fd)
            self._dress(target, want)
            self._staged[path] = target

    def _dress(self, target: bytes, want: Entry) -> None:
        if self._as_root:
            os.chown(target, want.uid, want.gid, follow_symlinks=False)
        if not want.is_link:
            os.chmod(target, stat.S_IMODE(want.mode))  # after chown, which clears set-uid bits
        if not (self._plan.fresh_times and stat.S_ISREG(want.mode)):
            os.utime(target, ns=(want.mtime_ns, want.mtime_ns), follow_symlinks=False)

    def _commit_paths(self) -> None:
        paths = self._plan.paths
        folders = Folders(self._w)
        try:
            with self._opened(folders):
                for path in sorted(paths, reverse=True):
                    now, want = paths[path]
                    if want is None or (now is not None and now.is_dir != want.is_dir):
                        folders.remove(path)
                for path in sorted(paths):
                    want = paths[path][1]
                    if want is not None and want.is_dir:
                        folders.make(path)
                for path, target in self._staged.items():
                    folders.put(path, target)
                for path in sorted(paths):
                    now, want = paths[path]
                    if want is not None and not want.is_dir and path not in self._staged:
                        folders.dress(path, lambda fd, want=want: self._dress_fd(fd, want))
                # Deepest first, so that a folder losing its write bit does not lock out those below.
                for path in sorted(paths, reverse=True):
                    want = paths[path][1]
                    if want is not None and want.is_dir:
                        folders.dress(path, lambda fd, want=want: self._dress_fd(fd, want))
        finally:
            folders.close()

    def _dress_fd(self, fd: int, want: Entry) -> None:
        if self._as_root:
            os.fchown(fd, want.uid, want.gid)
        os.fchmod(fd, stat.S_IMODE(want.mode))
        if not (self._plan.fresh_times and stat.S_ISREG(want.mode)):
            os.utime(fd, ns=(want.mtime_ns, want.mtime_ns))

    @contextmanager
    def _opened(self, folders: Folders) -> Iterator[None]:
        """Give folders without a write bit one while we work in them, as an ordinary user must."""
        changed: dict[bytes, int] = {}
        if not self._as_root:
            above: set[bytes] = {b""}
            for path in self._plan.paths:
                above.update(names.parents(path))
            for path in sorted(above):  # outermost first: below a closed folder nothing is seen
                found = self._w.reader.look(path)
                if found is not None and stat.S_ISDIR(found.st_mode) and found.st_mode & 0o300 != 0o300:
                    changed[path] = stat.S_IMODE(found.st_mode)
                    os.chmod(self._w.real(path), stat.S_IMODE(found.st_mode) | 0o700)
        yield
        for path, mode in reversed(changed.items()):
            if path not in self._plan.paths and os.path.isdir(self._w.real(path)):
                os.chmod(self._w.real(path), mode)

    def _set_folder_times(self) -> None:
        """Folders whose entries we changed get the time they had; last, because every write moved it."""
        touched = {path.rpartition(b"/")[0] for path in self._plan.paths}
        touched.update(self._plan.folder_times)  # of the rest of a plan: a killed process may have moved these
        touched.add(b"")  # staging moved its time
        for path, (_, want) in self._plan.paths.items():
            if want is not None and want.is_dir:
                touched.add(path)
        for path in sorted(touched, reverse=True):
            time = self._plan.folder_times.get(path)
            wanted = self._plan.paths.get(path, (None, None))[1]
            if wanted is not None and wanted.is_dir:
                time = wanted.mtime_ns
            if time is None or path == b".git" or path.startswith(b".git/"):
                continue
            try:
                fd = os.open(self._w.real(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                os.utime(fd, ns=(time, time))
            except OSError:
                pass
            finally:
                os.close(fd)

    # -- afterwards ----------------------------------------------------------------------------------------------

    def verify(self) -> list[bytes]:
        """Return the paths that are not what was wanted."""
        wrong = []
        for path, (_, want) in self._plan.paths.items():
            found = self._w.reader.look(path)
            if want is None:
                gone = found is None or (stat.S_ISDIR(found.st_mode) and self._plan_keeps(path))
                if not gone:
                    wrong.append(path)
            elif found is None and self._w.reader.hidden(path):
                continue  # put there, and out of our own sight again
            elif found is None or found.st_mode != want.mode:
                wrong.append(path)
            elif not want.is_dir:
                read = self._w.reader.read(path)
                if not hasattr(read, "entry") or read.entry.oid != want.oid:  # type: ignore[union-attr]
                    wrong.append(path)
        self._w.objects.discard()
        return wrong

    def _plan_keeps(self, path: bytes) -> bool:
        """A folder that was to go stays while something that was never ours to delete is in it."""
        try:
            return bool(os.listdir(self._w.real(path)))
        except OSError:
            return False


class Folders:
    """Opens folders of the project from its root, one name at a time, never through a link."""

    def __init__(self, workspace: Workspace) -> None:
        self._w = workspace
        self._at: bytes | None = None
        self._fd = -1

    def close(self) -> None:
        """Close the folder that is open."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._at = -1, None

    def _open(self, folder: bytes) -> int:
        if folder == self._at:
            return self._fd
        self.close()
        base, rest = self._base(folder)
        fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in rest.split(b"/") if rest else []:
            try:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except FileNotFoundError:
                os.mkdir(name, 0o777, dir_fd=fd)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        self._at, self._fd = folder, fd
        return fd

    def _base(self, folder: bytes) -> tuple[bytes, bytes]:
        if (folder == b".git" or folder.startswith(b".git/")) and self._w.place.common_dir:
            return self._w.place.common_dir, folder[5:]
        return self._w.place.root, folder

    def _split(self, path: bytes) -> tuple[int, bytes]:
        folder, _, name = path.rpartition(b"/")
        return self._open(folder), name

    def remove(self, path: bytes) -> None:
        """Delete a file, link or empty folder; a folder that still holds something stays."""
        folder, _, name = path.rpartition(b"/")
        if not os.path.isdir(self._w.real(folder)):
            return
        fd = self._open(folder)
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                os.rmdir(name, dir_fd=fd)
            else:
                os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def make(self, path: bytes) -> None:
        """Make a folder unless it is there."""
        if path == b"":
            return
        fd, name = self._split(path)
        try:
            os.mkdir(name, 0o777, dir_fd=fd)
        except FileExistsError:
            pass

    def put(self, path: bytes, staged: bytes) -> None:
        """Move a staged file to its place, replacing what is there."""
        fd, name = self._split(path)
        try:
            os.rename(staged, name, dst_dir_fd=fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise OSError(error.errno, error.strerror, path) from error
            # Another filesystem is mounted inside the project: copy beside the target, then rename.
            near = b".takeback-stage.%d" % os.getpid()
            shutil.copy2(staged, os.path.join(self._w.real(path.rpartition(b"/")[0]), near), follow_symlinks=False)
            os.rename(near, name, src_dir_fd=fd, dst_dir_fd=fd)

    def dress(self, path: bytes, change: object) -> None:
        """Call `change` with the path opened, for modes and times."""
        assert callable(change)
        if path == b"":
            fd = os.open(self._w.place.root, os.O_RDONLY | os.O_CLOEXEC)
        else:
            folder, name = self._split(path)
            try:
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except PermissionError:
                os.chmod(name, 0o700, dir_fd=folder)  # ours but unreadable: open it for a moment
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            change(fd)
        finally:
            os.close(fd)
