"""Find what changed in the files git would see, and put it into the store.

    private index  (git's stat cache)  --diff-files-->  dirty paths   \\
    worktree       (git's own walk)    --ls-files -o->  new paths      > examined -> overlay -> tree
    known folders  (lstat by us)       ------------->   modes, `.git` /

Does not cover: ignored files (`ignored`), the index and refs (`gitstate`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from takeback.errors import Damaged, GitFailed
from takeback.files import listing as listings
from takeback.files import names
from takeback.files.cursor import Cursor, DirStamp
from takeback.files.databases import suspects, with_databases
from takeback.files.listing import Found, Listing
from takeback.files.names import human
from takeback.files.objects import Objects
from takeback.files.reader import COARSE_SLACK_NS, SLACK_NS, Reader, Seen, Skip, stamp_of
from takeback.files.tree import TreeEditor
from takeback.host.git import Git, checked, split
from takeback.host.process import Child
from takeback.model import Entry

_FOLD_FROM = 400
_CHUNK = 10_000
_SPECS = 400
_CHUNKS = 8  # so many processes at most, before all is listed by one
UNSAVED = b".unsaved"  # beside the private index: it was written since the cursor was saved
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Scanned:
    """The files tree now, whether anything but directory times differs from the last scan's, and what left the
    private index: a listing of ignored files that began before the scan does not have those.
    """

    tree: str
    changed: bool
    dropped: frozenset[bytes] = frozenset()
    touched: dict[bytes, DirStamp] = field(default_factory=dict)


class Scanner:
    """Scans one worktree; what it learns goes into the cursor it is given."""

    def __init__(
        self,
        git: Git,
        root: bytes,
        objects: Objects,
        reader: Reader,
        now_ns: Callable[[], int],
        *,
        tracked: Callable[[], Iterable[bytes]],
        check_size: Callable[[dict[bytes, int]], None],
        progress: Progress | None = None,
    ) -> None:
        self._git = git
        self._root = root
        self._objects = objects
        self._reader = reader
        self._now_ns = now_ns
        self._tracked = tracked
        self._check_size = check_size
        self._progress = progress
        self.listing = Listing(git, root)

    def scan(self, cursor: Cursor, rules: str, extra: Iterable[bytes] = ()) -> Scanned:
        """Bring `cursor` up to date with the whole worktree; `extra` paths are examined in any case."""
        if cursor.tree is None or not self._index_exists():
            return self._first(cursor, rules)
        diff = self._git.start("diff-files", "--name-only", "-z")
        others = self.listing.start_others()
        gone, moded, touched = self._look_at_dirs(cursor)
        candidates = {*cursor.overlay, *cursor.recheck, *cursor.skipped, *extra}
        dirty = split(_out(diff))
        found = self.listing.expand(split(_out(others)))
        dropped = set(self.listing.became_folders(dirty, found))
        if dropped:
            self._forget(dropped)
        candidates |= found.files
        candidates.update(dirty)
        candidates = with_databases(candidates)
        new_dirs = self._new_dirs(cursor, found, candidates, gone)
        for path in [*touched, *new_dirs]:
            listings.look_inside(self._root, path, found)
        candidates |= found.special
        cursor.nested = {
            path
            for path in cursor.nested | found.nested
            if os.path.lexists(self._reader.full(path) + b"/.git") or self._reader.hidden(path + b"/.git")
        }
        self._check_growth(cursor, candidates)
        editor = TreeEditor(self._objects, cursor.tree)
        moved = self._examine(cursor, editor, candidates, set(dirty) | found.files)
        if rules != cursor.rules or any(path.rpartition(b"/")[2] == b".gitignore" for path in moved):
            ignored = self._drop_ignored(cursor, editor)
            moved |= ignored
            dropped |= ignored
            cursor.rules = rules
        changed = self._edit_dirs(cursor, editor, gone, moded, new_dirs)
        if not (moved or changed):
            assert cursor.tree is not None
            return Scanned(cursor.tree, False, frozenset(), touched)
        self._set_times(cursor, editor, touched)
        tree = self._finish(cursor, editor)
        if len(cursor.overlay) > _FOLD_FROM or len(new_dirs) > 8 or found.nested:
            self._fold(cursor)
        return Scanned(tree, True, frozenset(dropped))

    def with_times(self, cursor: Cursor, scanned: Scanned) -> Scanned:
        """Bring the times of directories along when something the scan does not see has changed."""
        if scanned.changed or not scanned.touched:
            return scanned
        editor = TreeEditor(self._objects, scanned.tree)
        self._set_times(cursor, editor, scanned.touched)
        return Scanned(self._finish(cursor, editor), True)

    def _set_times(self, cursor: Cursor, editor: TreeEditor, touched: dict[bytes, DirStamp]) -> None:
        for path, stamp in touched.items():
            if path in cursor.dirs:
                editor.set(path, Entry(*stamp[:4], ""))
                cursor.dirs[path] = stamp

    def is_folder(self, cursor: Cursor, path: bytes) -> bool:
        """Whether a path is a folder, or was one at the last scan."""
        found = self._reader.look(path)
        return path in cursor.dirs or (found is not None and stat.S_ISDIR(found.st_mode))

    def known(self, cursor: Cursor, paths: Iterable[bytes]) -> Scanned:
        """Examine only `paths` and the folders above them; the rest is believed as last seen."""
        assert cursor.tree is not None
        editor = TreeEditor(self._objects, cursor.tree)
        wanted = with_databases({*paths, *cursor.skipped}) - {b""}
        folders = {b"", *wanted}
        for path in wanted:
            folders.update(names.parents(path))
        gone: set[bytes] = set()
        stamps: dict[bytes, DirStamp] = {}
        for path in folders:
            found = self._reader.look(path)
            if found is not None and stat.S_ISDIR(found.st_mode):
                stamps[path] = _dir_stamp(found)
            elif path in cursor.dirs:
                gone.add(path)
        changed = bool(self._examine(cursor, editor, wanted, None))
        changed |= self._edit_dirs(cursor, editor, gone, {}, {})
        for path, stamp in stamps.items():
            old = cursor.dirs.get(path)
            if old is None or old[:3] != stamp[:3] or (changed and old != stamp):
                editor.set(path, Entry(*stamp[:4], ""))
                cursor.dirs[path] = stamp
                changed = True
        if not changed:
            return Scanned(cursor.tree, False)
        return Scanned(self._finish(cursor, editor), True)

    def _finish(self, cursor: Cursor, editor: TreeEditor) -> str:
        cursor.tree = tree = editor.write()
        cursor.files += editor.files_delta
        self._objects.flush()
        return tree

    # -- the first time ------------------------------------------------------------------------------------------

    def _first(self, cursor: Cursor, rules: str) -> Scanned:
        started = self._now_ns()
        cursor.forget_files()
        cursor.rules = rules
        self._remove_index()
        found = self.listing.everything()
        tracked = set(self._tracked())
        paths = found.files | tracked
        paths -= listings.behind_link(self._root, tracked)
        sizes: dict[bytes, int] = {}
        odd: set[bytes] = set()
        maybe_held = suspects(paths)
        present: list[bytes] = []
        for path in paths:
            seen = self._reader.look(path)
            if seen is None or stat.S_ISDIR(seen.st_mode):
                continue
            sizes[path] = seen.st_size if stat.S_ISREG(seen.st_mode) else 0
            if self._reader.is_plain(path, seen) and not (names.has_dot_git(path) or path in maybe_held):
                present.append(path)
            else:
                odd.add(path)
        self._check_size(sizes)
        odd |= self._bulk(sorted(present), sum(sizes.values()))
        editor = TreeEditor(self._objects, None)
        for record in split(self._git.run("ls-files", "-s", "-z")):
            head, _, path = record.partition(b"\t")
            seen = self._reader.look(path)
            if seen is None or stat.S_ISDIR(seen.st_mode):
                cursor.recheck.add(path)
                continue
            entry = Entry(seen.st_mode, seen.st_uid, seen.st_gid, seen.st_mtime_ns, head.split(b" ")[1].decode())
            editor.set(path, entry)
            if seen.st_ctime_ns >= started - SLACK_NS:
                cursor.recheck.add(path)
            elif seen.st_ctime_ns >= started - COARSE_SLACK_NS:
                cursor.overlay[path] = Seen(entry, stamp_of(seen), True)
        cursor.nested = found.nested
        found.dirs.add(b"")
        for path in paths:
            found.dirs.update(names.parents(path))
        for path in found.dirs:
            seen = self._reader.look(path)
            if seen is not None and stat.S_ISDIR(seen.st_mode):
                cursor.dirs[path] = _dir_stamp(seen)
                editor.set(path, Entry(*cursor.dirs[path][:4], ""))
        self._watch(cursor, tracked)
        self._examine(cursor, editor, odd | found.special, odd)
        return Scanned(self._finish(cursor, editor), True)

    def _bulk(self, paths: list[bytes], size: int) -> set[bytes]:
        """Let git read many paths at once; return those it could not take, to be read one by one."""
        left: set[bytes] = set()
        # Measured: 60 microseconds a file and 80 MB a second where nothing is shared with the project's own objects.
        seconds = len(paths) * 60e-6 + size / 80e6
        what = f"saving {len(paths)} files, {human(size)}, at most about {seconds:.0f} s"
        for at in range(0, len(paths), _CHUNK):
            if self._progress:
                self._progress(what, at, len(paths))
            chunk = paths[at : at + _CHUNK]
            try:
                self._update_index(chunk)
            except GitFailed:
                # Something moved under us, or a file cannot be read: nothing of this chunk is in the index.
                left.update(chunk)
        if self._progress:
            self._progress(what, len(paths), len(paths))
        return left

    def _mark_unsaved(self) -> None:
        """Leave a mark until the cursor is saved: an index newer than the cursor would hide what changed between."""
        if self._git.index is not None:
            os.close(os.open(self._git.index + UNSAVED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _update_index(self, paths: Iterable[bytes]) -> None:
        self._mark_unsaved()
        self._git.run("update-index", "--add", "--remove", "-z", "--stdin", feed=b"".join(p + b"\0" for p in paths))

    # -- what changed --------------------------------------------------------------------------------------------

    def _look_at_dirs(self, cursor: Cursor) -> tuple[set[bytes], dict[bytes, DirStamp], dict[bytes, DirStamp]]:
        """Return folders that are gone, those with other modes or owners, and those with other times."""
        gone: set[bytes] = set()
        moded: dict[bytes, DirStamp] = {}
        touched: dict[bytes, DirStamp] = {}
        prefix = self._root + b"/"
        for path, old in cursor.dirs.items():
            try:
                found = os.lstat(prefix + path)
            except PermissionError:
                continue  # hidden, and as far as anybody can say still there
            except OSError:
                gone.add(path)
                continue
            if found.st_ctime_ns == old[4] and found.st_mtime_ns == old[3]:
                continue
            if not stat.S_ISDIR(found.st_mode):
                gone.add(path)
                continue
            touched[path] = _dir_stamp(found)
            if touched[path][:3] != old[:3]:
                moded[path] = touched[path]
        if gone:  # below a folder that is a link now, lstat sees other people's folders
            gone |= {path for path in cursor.dirs if not gone.isdisjoint(names.parents(path))}
            for path in gone:
                moded.pop(path, None)
                touched.pop(path, None)
        return gone, moded, touched

    def _new_dirs(
        self, cursor: Cursor, found: Found, candidates: set[bytes], gone: set[bytes]
    ) -> dict[bytes, DirStamp]:
        wanted = set(found.dirs)
        for path in candidates:
            wanted.update(names.parents(path))
        result: dict[bytes, DirStamp] = {}
        for path in wanted:
            if path in cursor.dirs and path not in gone:
                continue
            seen = self._reader.look(path)
            if seen is not None and stat.S_ISDIR(seen.st_mode):
                result[path] = _dir_stamp(seen)
        linked = listings.behind_link(self._root, result)
        return {path: stamp for path, stamp in result.items() if path not in linked}

    def _edit_dirs(
        self,
        cursor: Cursor,
        editor: TreeEditor,
        gone: set[bytes],
        moded: dict[bytes, DirStamp],
        new: dict[bytes, DirStamp],
    ) -> bool:
        for path in sorted(gone, reverse=True):
            old = editor.get(path)
            if old is not None and old.is_dir:
                editor.remove(path)
            cursor.dirs.pop(path, None)
        for path, stamp in {**moded, **new}.items():
            editor.set(path, Entry(*stamp[:4], ""))
            cursor.dirs[path] = stamp
        return bool(gone or moded or new)

    def _examine(
        self, cursor: Cursor, editor: TreeEditor, candidates: set[bytes], listed: set[bytes] | None
    ) -> set[bytes]:
        """Read the candidates, put what differs into the tree and the overlay, and return the paths that differ.

        `listed`: what git named this time; a path of the overlay that it did not name is as the index has it, is
        ignored now, or is gone. None: do not ask git.
        """
        moved: set[bytes] = set()
        linked = listings.behind_link(self._root, candidates)
        cursor.recheck -= candidates
        quiet: list[bytes] = []
        # Deepest first: what was below a directory leaves before a file takes its place.
        for path in sorted(candidates, reverse=True):
            if path.startswith(listings.STAGE):
                continue
            if listed is not None and path not in listed and path in cursor.overlay and path not in linked:
                if not names.has_dot_git(path) and self._reader.look(path) is not None:
                    quiet.append(path)
                    continue
            old = editor.get(path)
            if old is not None and old.is_dir:
                old = None
            seen = None if path in linked else self._reader.read(path, cursor.overlay.get(path), old)
            if self._take(cursor, editor, path, old, seen):
                moved.add(path)
        return moved | self._settle(cursor, editor, quiet)

    def _take(
        self, cursor: Cursor, editor: TreeEditor, path: bytes, old: Entry | None, seen: Seen | Skip | None
    ) -> bool:
        if isinstance(seen, Skip):
            news = cursor.skipped.get(path) != seen.why
            cursor.skipped[path] = seen.why
            if seen.hidden:
                return news
            cursor.overlay.pop(path, None)
            if old is not None:
                editor.remove(path)
            return news or old is not None
        cursor.skipped.pop(path, None)
        cursor.overlay[path] = seen
        if seen is None:
            if old is not None:
                editor.remove(path)
            return old is not None
        if seen.entry == old:
            return False
        editor.set(path, seen.entry)
        return True

    def _settle(self, cursor: Cursor, editor: TreeEditor, quiet: list[bytes]) -> set[bytes]:
        """Overlay paths on disk that git no longer names are equal to the index again, or ignored now."""
        moved: set[bytes] = set()
        known: dict[bytes, str] = {}
        chunks = [quiet[at : at + _SPECS] for at in range(0, len(quiet), _SPECS)]
        # Of a tree that was just checked out, all are quiet: one list of everything takes less than many processes.
        for chunk in chunks if len(chunks) <= _CHUNKS else [[]]:
            for record in split(self._git.run("ls-files", "-s", "-z", "--", *chunk)):
                head, _, name = record.partition(b"\t")
                known[name] = head.split(b" ")[1].decode()
        settled = self._now_ns() - COARSE_SLACK_NS
        forced: set[bytes] | None = None
        for path in quiet:
            before = cursor.overlay[path]
            found = self._reader.look(path)
            if before is not None and before.trusted and path in known and found and stamp_of(found) == before.stamp:
                # As it was read, and so as the tree has it, which need not be opened for that: after a checkout this is
                # every file.
                cursor.skipped.pop(path, None)
                if before.entry.oid == known[path] and before.stamp.ctime_ns < settled:
                    del cursor.overlay[path]
                continue
            old = editor.get(path)
            if old is not None and old.is_dir:
                old = None
            is_file = found is not None and not stat.S_ISDIR(found.st_mode)
            if is_file and path not in known:
                forced = set(self._tracked()) if forced is None else forced
            if is_file and (path in known or (forced and path in forced)):  # `git add -f`: ignored, yet the user's
                seen = self._reader.read(path, cursor.overlay[path], old)
                if self._take(cursor, editor, path, old, seen):
                    moved.add(path)
                # The index compares whole seconds: it may be believed when its bytes are right and can only age.
                if isinstance(seen, Seen) and seen.trusted and seen.entry.oid == known.get(path):
                    if seen.stamp.ctime_ns < settled:
                        del cursor.overlay[path]
                continue
            del cursor.overlay[path]
            if old is not None:
                moved.add(path)
                editor.remove(path)
        return moved

    def _check_growth(self, cursor: Cursor, candidates: set[bytes]) -> None:
        sizes: dict[bytes, int] = {}
        for path in candidates:
            known = cursor.overlay.get(path)
            found = self._reader.look(path)
            if found is not None and stat.S_ISREG(found.st_mode):
                if known is None or known.stamp.mtime_ns != found.st_mtime_ns or known.stamp.size != found.st_size:
                    sizes[path] = found.st_size
        self._check_size(sizes)

    # -- keeping the private index in shape ------------------------------------------------------------------------

    def _drop_ignored(self, cursor: Cursor, editor: TreeEditor) -> set[bytes]:
        """Files that the rules now ignore leave the private index and the tree, unless the user's index has them."""
        dropped = self.listing.index_ignored()
        tracked = set(self._tracked())
        self._watch(cursor, tracked)
        dropped -= tracked
        if dropped:
            self._forget(dropped)
            for path in dropped:
                cursor.overlay.pop(path, None)
                editor.remove(path)
        return dropped

    def _watch(self, cursor: Cursor, tracked: set[bytes]) -> None:
        """Look at ignored paths of the user's index that are not on disk every time: no listing will show them."""
        gone = [path for path in tracked if path not in cursor.overlay and self._reader.look(path) is None]
        for path in self.listing.ignored_of(set(gone) - listings.behind_link(self._root, gone)):
            cursor.overlay[path] = None

    def _forget(self, paths: Iterable[bytes]) -> None:
        self._mark_unsaved()
        feed = b"".join(path + b"\0" for path in paths)
        self._git.run("update-index", "--force-remove", "-z", "--stdin", feed=feed)

    def _fold(self, cursor: Cursor) -> None:
        """Move trusted values of the overlay into the private index.

        Debian builds git without USE_NSEC, so the index compares whole seconds: what changed just now stays ours.
        """
        settled = self._now_ns() - COARSE_SLACK_NS
        folded = [
            path
            for path, seen in cursor.overlay.items()
            if (seen is None or (seen.trusted and seen.stamp.ctime_ns < settled)) and not names.has_dot_git(path)
        ]
        try:
            # Anew, for git keeps an entry whose stat data agree, in whole seconds.
            self._forget(folded)
            self._update_index(folded)
        except GitFailed:
            return  # the overlay stays as it is; the index is only a cache
        for path in folded:
            seen = cursor.overlay.pop(path)
            found = self._reader.look(path)
            if found is None or stat.S_ISDIR(found.st_mode):
                if seen is not None:
                    cursor.recheck.add(path)
            elif seen is None or seen.stamp.ctime_ns != found.st_ctime_ns or seen.stamp.ino != found.st_ino:
                cursor.recheck.add(path)

    def _index_exists(self) -> bool:
        index = self._git.index
        return index is not None and os.path.exists(index)

    def _remove_index(self) -> None:
        index = self._git.index
        if index is not None:
            for path in (index, index + b".lock"):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass


def _dir_stamp(found: os.stat_result) -> DirStamp:
    return (found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, found.st_ctime_ns)


def _out(child: Child) -> bytes:
    try:
        return checked(("scan",), child.finish()).out
    except GitFailed as error:
        raise Damaged(what="the private index", detail=str(error), next="repeat the command") from error
