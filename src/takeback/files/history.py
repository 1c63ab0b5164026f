"""Keep what a repository holds beside its refs: reflogs, and commits that nothing but a reflog or nothing at all names.

Saved before a step that may drop them for good (`git gc --prune=now`, `git reflog expire`, a deleted `.git`), as a
commit in the private store: its parents are the commits, its tree the reflog files. Does not cover: refs, index and
stash (`gitstate`, `gitrestore`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from takeback.errors import CannotWrite
from takeback.files.objects import receive_pack
from takeback.files.tree import decode_tree
from takeback.files.workspace import Workspace
from takeback.host import atomic

REF = "refs/checkpoints/history/"


def save(w: Workspace) -> str | None:
    """Save reflogs and unnamed commits; return the commit's id, None where there is nothing of the kind.

    The checkpoint of the same moment is already taken, so what refs reach is in the store. Raises GitFailed, DiskFull.
    """
    if not w.has_git or w.place.common_dir is None:
        return None
    user = w.place.repository()
    logs = _read_logs(w)
    tips = set(user.run("rev-list", "--no-walk", "--reflog", ok=(0, 128)).decode().split()) if logs else set()
    found = user.run("fsck", "--unreachable", "--connectivity-only", "--no-progress", ok=range(256))
    lines = found.decode("ascii", "replace").splitlines()
    tips |= {line.split()[2] for line in lines if line.startswith("unreachable commit ")}
    if not logs and not tips:
        return None
    named = user.run("for-each-ref", "--format=%(objectname)").decode().split()
    known = sorted(set(named) - w.store.missing(named)) if not user.missing(named) else []
    wanted = sorted(tips - user.missing(tips))
    if wanted:
        receive_pack(w.store, user, wanted, known, os.fsencode(w.dir.path))
    items = []
    for number, (name, text) in enumerate(sorted(logs.items())):
        # The name stands in front, since a tree's own names may not hold slashes.
        oid = w.objects.write("blob", name + b"\0" + text)
        items.append(b"100644 %08d\0" % number + bytes.fromhex(oid))
    tree = w.objects.write("tree", b"".join(items))
    w.objects.flush()
    who = f"takeback <takeback@localhost> {w.now_ns() // 10**9} +0000"
    parents = "".join(f"parent {oid}\n" for oid in wanted)
    said = f"tree {tree}\n{parents}author {who}\ncommitter {who}\n\nreflogs and unnamed commits\n"
    commit = w.objects.write("commit", said.encode())
    w.objects.flush()
    w.store.run("update-ref", REF + commit, commit)
    return commit


def put_back(w: Workspace, commit: str) -> bool:
    """Bring commits and reflogs back into the repository; lines written since stay, after them.

    Returns whether something had been lost. Raises GitFailed, CannotWrite.
    """
    w.found_git()
    if not w.has_git or w.place.common_dir is None:
        return False
    head, _, _ = w.objects.read(commit, "commit").decode("ascii", "replace").partition("\n\n")
    words = [line.split(" ", 1) for line in head.split("\n")]
    user = w.place.repository()
    missing = sorted(user.missing([value for key, value in words if key == "parent"]))
    if missing:
        receive_pack(user, w.store, missing, [], os.fsencode(w.dir.path))
    changed = bool(missing)
    tree = next(value for key, value in words if key == "tree")
    for _, oid in decode_tree(w.objects.read(tree, "tree"), w.objects.raw_length).values():
        name, _, text = w.objects.read(oid, "blob").partition(b"\0")
        changed |= _put_log(w, name, text)
    return changed


def _folders(w: Workspace) -> dict[bytes, bytes]:
    """The folders with reflogs, by the letter that stands for each in a saved name."""
    assert w.place.common_dir is not None and w.place.git_dir is not None
    common, own = os.path.join(w.place.common_dir, b"logs"), os.path.join(w.place.git_dir, b"logs")
    return {b"c": common} if common == own else {b"c": common, b"w": own}


def _read_logs(w: Workspace) -> dict[bytes, bytes]:
    logs = {}
    for letter, folder in _folders(w).items():
        for top, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(top, name)
                try:
                    with open(path, "rb") as file:
                        logs[letter + b"/" + os.path.relpath(path, folder)] = file.read()
                except OSError:
                    continue  # git removed it meanwhile
    return logs


def _put_log(w: Workspace, name: bytes, saved: bytes) -> bool:
    letter, _, rest = name.partition(b"/")
    folder = _folders(w).get(letter)
    if folder is None or rest == b"refs/stash":  # the stash is put back entry by entry
        return False
    path = os.path.join(folder, rest)
    try:
        with open(path, "rb") as file:
            now = file.read()
    except OSError:
        now = b""
    had = set(saved.splitlines(keepends=True))
    fresh = b"".join(line for line in now.splitlines(keepends=True) if line not in had)
    if saved + fresh == now:
        return False
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode) if now else 0o644
        os.makedirs(os.path.dirname(path), exist_ok=True)
        atomic.write_bytes(Path(os.fsdecode(path)), saved + fresh, durable=False)
        os.chmod(path, mode)
    except OSError as error:
        raise CannotWrite(path=os.fsdecode(path), why=error.strerror) from error
    return True
