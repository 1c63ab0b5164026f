"""Save a repository's own state: index, HEAD, refs, stash, unfinished operations; and keep their objects alive.

    index/entries  stage 0 as a tree (git write-tree on a copy of the index, never on the index)
    index/flags    `takeback-index 1`, then records as `git ls-files -s -v -z` prints them, for every entry a tree
                   cannot say: other stages, assume-unchanged (h), skip-worktree (S, s), intent-to-add (N)
    refs           `takeback-refs 1`, then lines `HEAD ref NAME` or `HEAD OID`, `ref OID TYPE NAME`,
                   `sym TARGET NAME`, `stash OID MESSAGE` (newest first), `tip OID` (named by an unfinished operation)
    unfinished/    the files themselves

Does not cover: putting any of it back (`gitrestore`).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from takeback.errors import DiskFull, GitFailed
from takeback.files.cursor import Cursor
from takeback.files.objects import Objects, receive_pack
from takeback.files.place import Place
from takeback.files.reader import SLACK_NS
from takeback.host.git import Git, checked, split
from takeback.model import NotCovered

INDEX_MAGIC = b"takeback-index 1\n"
REFS_MAGIC = b"takeback-refs 1\n"
UNFINISHED = (
    b"MERGE_HEAD", b"MERGE_MSG", b"MERGE_MODE", b"MERGE_RR", b"AUTO_MERGE", b"SQUASH_MSG", b"ORIG_HEAD",
    b"CHERRY_PICK_HEAD", b"REVERT_HEAD", b"REBASE_HEAD", b"BISECT_LOG", b"BISECT_START", b"BISECT_NAMES",
    b"BISECT_TERMS", b"BISECT_EXPECTED_REV", b"BISECT_ANCESTORS_OK", b"rebase-merge", b"rebase-apply", b"sequencer",
)  # fmt: skip
Stamps = list[list[int | str]]
_OID = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")


@dataclass
class GitSaved:
    """Object names of what was saved; None where the project has none."""

    index: str | None = None
    refs: str | None = None
    keep: str | None = None
    unfinished: str | None = None
    not_covered: list[NotCovered] = field(default_factory=list)
    newly_tracked: set[bytes] = field(default_factory=set)


class GitState:
    """Saves the git state of one worktree into the private store."""

    def __init__(self, place: Place, store: Git, objects: Objects, scratch: bytes, now_ns: Callable[[], int]) -> None:
        assert place.git_dir is not None and place.common_dir is not None
        self._place = place
        self._git_dir = place.git_dir
        self._store = store
        self._objects = objects
        self._scratch = scratch
        self._copy = os.path.join(scratch, b"index.copy")
        self._now_ns = now_ns
        # To make files of a sparse index's folders writes trees, and so does the reverse: git reads it as it is.
        sparse = str(_has_sparse_folders(self._git_dir)).lower()
        as_it_is = {"index.sparse": sparse, "sparse.expectFilesOutsideOfPatterns": "true"}
        self._user = place.repository().view(settings=as_it_is)
        # Sees no object of the user's: git gives an object that it would write, and that is there already, a new mtime.
        self._private = self._user.view(index=self._copy, objects=os.path.join(store.git_dir, b"objects"))
        # Reads with the user's repository settings (formats, sparse checkout), writes only into the store.
        self._both = self._user.view(
            index=self._copy,
            objects=os.path.join(store.git_dir, b"objects"),
            alternates=os.path.join(place.common_dir, b"objects"),
        )

    def tracked(self) -> list[bytes]:
        """Return the paths in the user's index."""
        try:
            with self._shared_index_times():
                return [record.partition(b"\t")[2] for record in self._records(self._user)[0]]
        except GitFailed:
            return []  # an index that git cannot read tracks nothing

    def save(self, cursor: Cursor, elsewhere: Iterable[str] = ()) -> GitSaved:
        """Save everything, reusing what the cursor shows to be unchanged.

        `elsewhere`: tips that the store has whole although this worktree never saved any.
        """
        saved = GitSaved()
        if not cursor.git.get("linked"):
            self._link(cursor)
        old_entries = cursor.git.get("entries")
        with self._shared_index_times():
            self._save_index(cursor, saved)
        self._save_unfinished(cursor, saved)
        lines, tips, kept = self._read_refs(cursor)
        self._import(cursor, saved, tips, kept, old_entries, elsewhere)
        entries = cursor.git.get("entries")
        if entries and old_entries and entries != old_entries:
            # What `git add -f` put into the index is to be looked at though the rules ignore it.
            args = ("diff-tree", "-r", "-z", "--name-only", "--diff-filter=A", old_entries, entries)
            saved.newly_tracked = set(split(self._store.run(*args, ok=(0, 128))))
        text = REFS_MAGIC + b"".join(line + b"\n" for line in lines)
        saved.refs = self._objects.write("blob", text)
        if cursor.git.get("refs") == saved.refs and cursor.git.get("keep"):
            saved.keep = cursor.git["keep"]
        else:
            saved.keep = self._write_keep(tips)
        cursor.git.update(refs=saved.refs, keep=saved.keep, tips=sorted(tips), unfinished=saved.unfinished)
        return saved

    # -- objects -------------------------------------------------------------------------------------------------

    def _link(self, cursor: Cursor) -> None:
        """Hard-link the project's packs into the store; loose objects come in as one pack (see `_import`)."""
        assert self._place.common_dir is not None
        linked = True
        target = os.path.join(self._store.git_dir, b"objects", b"pack")
        os.makedirs(target, exist_ok=True)
        for folder in _object_folders(os.path.join(self._place.common_dir, b"objects")):
            packs = os.path.join(folder, b"pack")
            for name in sorted(os.listdir(packs)) if os.path.isdir(packs) else []:
                if not name.endswith((b".pack", b".idx")):
                    continue
                try:
                    os.link(os.path.join(packs, name), os.path.join(target, name))
                except FileExistsError:
                    pass
                except OSError:
                    linked = False
                    continue
                if name.endswith(b".pack"):
                    pack = os.path.join(target, name)
                    cursor.links[pack] = os.stat(pack).st_mtime_ns
                    with open(pack[:-5] + b".keep", "wb"):
                        pass  # `git repack` leaves a kept pack alone, and so shared with the project
        cursor.git["linked"] = "all" if linked else "some"
        shallow = os.path.join(self._place.common_dir, b"shallow")
        if os.path.exists(shallow):
            shutil.copyfile(shallow, os.path.join(self._store.git_dir, b"shallow"))

    def _import(
        self, cursor: Cursor, saved: GitSaved, tips: set[str], kept: set[str], old_entries: str | None,
        elsewhere: Iterable[str],
    ) -> None:  # fmt: skip
        """Copy what the store does not have of the tips, the kept objects and the index."""
        first = "tips" not in cursor.git
        entries = cursor.git.get("entries")
        wanted = [*tips, *kept]
        if not first:
            wanted = sorted(self._objects.missing(wanted))
        if entries and (first or entries != old_entries):
            wanted.append(entries)
        if wanted:
            known = list(elsewhere) if first else [*cursor.git["tips"], *([old_entries] if old_entries else [])]
            lost = (self._store if first else self._both).missing(known)
            known = [oid for oid in known if oid not in lost]
            head_tree = [] if first and not known else self._tree_of_head()
            options = ["--unpacked"] if first and cursor.git["linked"] == "all" else []
            self._receive(saved, wanted, [*known, *head_tree], options)
        if kept:
            fresh = [oid for oid in sorted(kept) if oid not in cursor.git.get("kept", [])]
            feed = b"".join(b"update refs/checkpoints/keep/%b\0%b\0\0" % (o.encode(), o.encode()) for o in fresh)
            if fresh:
                self._store.run("update-ref", "--stdin", "-z", feed=feed)
            cursor.git["kept"] = sorted(kept)

    def _receive(self, saved: GitSaved, wanted: list[str], known: list[str], options: list[str]) -> None:
        for extra in ([], ["--missing=allow-any"]):
            try:
                receive_pack(self._store, self._both, wanted, known, self._scratch, [*options, *extra])
            except GitFailed as error:
                if "No space left" in str(error):
                    raise DiskFull(path=os.fsdecode(self._store.git_dir)) from error
                if extra:
                    why = f"not all objects could be copied: {error}"
                    saved.not_covered.append(NotCovered(b".git/objects", why))
            else:
                if extra:
                    saved.not_covered.append(
                        NotCovered(b".git/objects", "the repository itself does not have some objects")
                    )
                return

    def _tree_of_head(self) -> list[str]:
        out = self._user.run("rev-parse", "-q", "--verify", "HEAD^{tree}", ok=(0, 1, 128)).decode().strip()
        return [] if not out or self._objects.missing([out]) else [out]

    def _write_keep(self, tips: Iterable[str]) -> str:
        missing = self._store.missing(tips)
        parents = "".join(f"parent {oid}\n" for oid in sorted(tips) if oid not in missing)
        text = (
            f"tree {self._objects.write('tree', b'')}\n{parents}"
            "author takeback <takeback@localhost> 0 +0000\ncommitter takeback <takeback@localhost> 0 +0000\n\n"
            "tips of the project's refs\n"
        )
        return self._objects.write("commit", text.encode())

    @contextmanager
    def _shared_index_times(self) -> Iterator[None]:
        """git gives the shared part of a split index a new mtime whenever it reads it; give the old one back."""
        before: list[tuple[bytes, os.stat_result]] = []
        for name in os.listdir(self._git_dir):
            if name.startswith(b"sharedindex."):
                path = os.path.join(self._git_dir, name)
                before.append((path, os.stat(path)))
        try:
            yield
        finally:
            for path, found in before:
                try:
                    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
                except OSError:
                    pass

    # -- index ---------------------------------------------------------------------------------------------------

    def _save_index(self, cursor: Cursor, saved: GitSaved) -> None:
        path = os.path.join(self._git_dir, b"index")
        at = self._now_ns()
        try:
            found = os.stat(path)
        except FileNotFoundError:
            cursor.git.update(index=None, entries=None, index_stamp=None)
            return
        stamp = [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]
        if cursor.git.get("index_stamp") == stamp and cursor.git.get("index"):
            saved.index = cursor.git["index"]
            return
        shutil.copyfile(path, self._copy)
        try:
            records, sparse = self._records(self._both)
        except GitFailed as error:
            if self._user.code("rev-parse", "--git-dir") != 0:
                raise
            cursor.git.update(index=None, entries=None, index_stamp=None)
            saved.not_covered.append(NotCovered(b".git/index", f"git cannot read it: {error}"))
            return
        special = [record for record in records if record[:2] != b"H "]
        unmerged = {record.partition(b"\t")[2] for record in special if record[:1] == b"M"}
        private = self._private
        if sparse:
            os.unlink(self._copy)
            private = self._store.view(index=self._copy)
            plain = [record[2:] for record in records if record[:1] != b"M"]
            private.run("update-index", "-z", "--index-info", feed=b"".join(record + b"\0" for record in plain))
        elif unmerged:
            zero = b"0" * (self._objects.raw_length * 2)
            feed = b"".join(b"0 %b\t%b\0" % (zero, name) for name in unmerged)
            self._both.run("update-index", "-z", "--index-info", feed=feed)
        entries = private.run("write-tree", "--missing-ok").decode().strip()
        special += self._intent_to_add(records, entries)
        flags = self._objects.write("blob", INDEX_MAGIC + b"".join(record + b"\0" for record in sorted(special)))
        tree = b"40000 entries\0" + bytes.fromhex(entries) + b"100644 flags\0" + bytes.fromhex(flags)
        saved.index = self._objects.write("tree", tree)
        trusted = found.st_ctime_ns < at - SLACK_NS
        cursor.git.update(index=saved.index, entries=entries, index_stamp=stamp if trusted else None)
        os.unlink(self._copy)

    def _records(self, git: Git) -> tuple[list[bytes], bool]:
        """Return the index as `ls-files -s -v` prints it, and whether it held folders as single entries."""
        records: list[bytes] = []
        sparse = False
        for record in split(git.run("ls-files", "-s", "-v", "-z", "--sparse")):
            if record[2:8] != b"040000":
                records.append(record)
                continue
            sparse = True
            head, _, folder = record.partition(b"\t")
            for inner in split(git.run("ls-tree", "-r", "-z", "--full-tree", head.split(b" ")[2])):
                words, _, name = inner.partition(b"\t")
                mode, _, oid = words.split(b" ")
                records.append(b"%b %b %b 0\t%b%b" % (record[:1], mode, oid, folder, name))
        return records, sparse

    def _intent_to_add(self, records: list[bytes], entries: str) -> list[bytes]:
        """`git add -N` entries look like empty files in a listing, but are not in the written tree."""
        empty = self._objects.name_of(b"").encode()
        candidates = [record for record in records if record.split(b" ", 3)[2] == empty and record[:1] in b"HhSs"]
        if not candidates:
            return []
        paths = [record.partition(b"\t")[2] for record in candidates]
        present: set[bytes] = set()
        for at in range(0, len(paths), 400):
            words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--")
            out = self._both.run(*words, entries, *paths[at : at + 400])
            present.update(split(out))
        return [b"N" + record[1:] for record, path in zip(candidates, paths, strict=True) if path not in present]

    # -- refs ----------------------------------------------------------------------------------------------------

    def _read_refs(self, cursor: Cursor) -> tuple[list[bytes], set[str], set[str]]:
        """Return (lines of the refs blob, commits to keep, other objects to keep)."""
        # Not the type: one ref to a missing object would end the whole listing.
        listing = self._user.start("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
        head = read_head(self._place, self._user)
        lines = [head]
        tips: set[str] = set()
        kept: set[str] = set()
        if not head.startswith(b"HEAD ref ") and head != b"HEAD":
            tips.add(head.split(b" ")[1].decode())
        stash = False
        found: list[tuple[bytes, bytes]] = []
        for line in checked(("for-each-ref",), listing.finish()).out.splitlines():
            oid, name, target = (*line.split(b" "), b"")[:3]
            if name.startswith(b"refs/checkpoints/"):
                continue  # our own, anchored there by a setting
            if target:
                lines.append(b"sym %b %b" % (target, name))
            else:
                found.append((oid, name))
            stash = stash or name == b"refs/stash"
        types = self._types({oid.decode() for oid, _ in found}, cursor)
        for oid, name in found:
            kind = types[oid.decode()]
            lines.append(b"ref %b %b %b" % (oid, kind.encode(), name))
            if kind != "missing":
                (tips if kind == "commit" else kept).add(oid.decode())
        if stash:
            for entry in read_stash(self._user):
                lines.append(b"stash " + entry)
                tips.add(entry.split(b" ")[0].decode())
        named = sorted({oid.decode() for oid in cursor.git.get("unfinished_oids", "").encode().split()})
        for oid in named:
            lines.append(b"tip " + oid.encode())
            tips.add(oid)
        return lines, tips, kept

    def _types(self, oids: set[str], cursor: Cursor) -> dict[str, str]:
        """Return the type of each object, `missing` where there is none; what was asked before is remembered."""
        known: dict[str, str] = cursor.git.get("types", {})
        asked = sorted(oid for oid in oids if known.get(oid, "missing") == "missing")
        if asked:
            out = self._user.run(
                "cat-file", "--batch-check=%(objectname) %(objecttype)", feed="\n".join(asked).encode()
            )
            known = {**known, **dict(line.split(" ", 1) for line in out.decode().splitlines())}
        cursor.git["types"] = {oid: known[oid] for oid in oids}
        return dict(cursor.git["types"])

    # -- unfinished operations -----------------------------------------------------------------------------------

    def _save_unfinished(self, cursor: Cursor, saved: GitSaved) -> None:
        stamp = _stamp_of(self._git_dir)
        if cursor.git.get("unfinished_stamp") == stamp and "unfinished_oids" in cursor.git:
            saved.unfinished = cursor.git.get("unfinished")
            return
        at = self._now_ns()
        oids: set[bytes] = set()
        saved.unfinished = self._save_folder(self._git_dir, UNFINISHED, oids)
        names = sorted(oid.decode() for oid in oids)
        missing = self._user.missing(names)
        present = [oid for oid in names if oid not in missing]
        commits = []
        if present:
            feed = "\n".join(present).encode()
            out = self._user.run("cat-file", "--batch-check=%(objecttype) %(objectname)", feed=feed)
            commits = [line.split()[1].decode() for line in out.splitlines() if line.startswith(b"commit ")]
        settled = all(int(item[3]) < at - SLACK_NS for item in stamp)
        cursor.git.update(unfinished_oids=" ".join(commits), unfinished_stamp=stamp if settled else None)

    def _save_folder(self, folder: bytes, only: Iterable[bytes] | None, oids: set[bytes]) -> str | None:
        items: list[tuple[bytes, bytes]] = []
        try:
            present = os.listdir(folder)
        except OSError:
            return None
        for name in present if only is None else [name for name in only if name in set(present)]:
            path = os.path.join(folder, name)
            try:
                mode = os.lstat(path).st_mode
                if stat.S_ISDIR(mode):
                    tree = self._save_folder(path, None, oids)
                    if tree:
                        items.append((name + b"/", b"40000 " + name + b"\0" + bytes.fromhex(tree)))
                elif stat.S_ISREG(mode):
                    with open(path, "rb") as file:
                        data = file.read()
                    oids.update(_OID.findall(data))
                    blob = self._objects.write("blob", data)
                    kind = b"100755 " if mode & 0o100 else b"100644 "
                    items.append((name, kind + name + b"\0" + bytes.fromhex(blob)))
            except FileNotFoundError:
                continue
        return self._objects.write("tree", b"".join(item for _, item in sorted(items))) if items else None


def _stamp_of(git_dir: bytes) -> Stamps:
    """What tells one state of the unfinished-operation files from another; a list, so that it goes through JSON."""
    stamp: Stamps = []
    pending = [os.path.join(git_dir, name) for name in UNFINISHED]
    while pending:
        path = pending.pop()
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode):
                pending += [os.path.join(path, name) for name in sorted(os.listdir(path))]
        except OSError:
            continue
        stamp.append([path.decode("latin-1"), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino])
    return stamp


def _has_sparse_folders(git_dir: bytes) -> bool:
    """Whether the index may hold folders as single entries (index-format, extension `sdir`)."""
    if not os.path.exists(os.path.join(git_dir, b"info", b"sparse-checkout")):
        return False
    try:
        with open(os.path.join(git_dir, b"index"), "rb") as file:
            return b"sdir" in file.read()
    except OSError:
        return False


def read_head(place: Place, user: Git) -> bytes:
    """Return `HEAD ref NAME` or `HEAD OID` for a worktree."""
    assert place.git_dir is not None
    try:
        with open(os.path.join(place.git_dir, b"HEAD"), "rb") as file:
            text = file.read().strip()
    except OSError:
        text = b""
    # gitrepository-layout: a reftable repository has `ref: refs/heads/.invalid` here; then git must be asked.
    if text.startswith(b"ref: refs/heads/") and text != b"ref: refs/heads/.invalid":
        return b"HEAD ref " + text[5:]
    out = user.run("symbolic-ref", "-q", "HEAD", ok=(0, 1, 128)).strip()
    if out:
        return b"HEAD ref " + out
    return b"HEAD " + user.run("rev-parse", "-q", "--verify", "HEAD", ok=(0, 1, 128)).strip()


def read_stash(user: Git) -> list[bytes]:
    """Return the stash as `OID MESSAGE`, newest first."""
    out = user.run("log", "-g", "-z", "--format=%H %gs", "refs/stash", "--", ok=(0, 128))
    return [line for line in out.split(b"\0") if line]


def _object_folders(first: bytes) -> list[bytes]:
    """Return an object folder and its alternates (gitrepository-layout: objects/info/alternates)."""
    found = [first]
    for folder in found:
        try:
            with open(os.path.join(folder, b"info", b"alternates"), "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            path = os.path.join(folder, line)
            if line and not line.startswith(b"#") and path not in found and len(found) < 50:
                found.append(path)
    return found


def note_link_times(cursor: Cursor) -> None:
    """Remember the mtimes of the project's packs: its own git freshens them too, and that is not ours to take back."""
    for path in list(cursor.links):
        try:
            cursor.links[path] = os.stat(path).st_mtime_ns
        except OSError:
            del cursor.links[path]


def restore_link_times(cursor: Cursor) -> None:
    """Give the project's packs their mtime back where git "freshened" them through our hard link."""
    for path, mtime in list(cursor.links.items()):
        try:
            found = os.stat(path)
            if found.st_mtime_ns != mtime:
                os.utime(path, ns=(found.st_atime_ns, mtime))
        except FileNotFoundError:
            del cursor.links[path]
        except OSError:
            pass
