"""Take a checkpoint: scan, save what git does not see, save the repository's own state, write one commit.

Does not cover: putting anything back (`plan`, `apply`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from takeback.errors import Damaged, DiskFull, GitFailed
from takeback.files import gitstate, leftovers, names
from takeback.files import rules as rule_files
from takeback.files.anchor import anchor
from takeback.files.cursor import Cursor
from takeback.files.gitstate import GitSaved
from takeback.files.listing import list_ignored, roots_of
from takeback.files.objects import Objects
from takeback.files.record import REF, Recorder, parents_of
from takeback.files.tree import decode_tree
from takeback.files.workspace import Workspace
from takeback.host import process
from takeback.model import Checkpoint, CheckpointResult, Kind, NotCovered

_PARTS = ("files", "state", "index", "refs", "unfinished", "info")


@dataclass(frozen=True)
class Parts:
    """Object names of a checkpoint's parts, None where it has none."""

    files: str | None = None
    state: str | None = None
    index: str | None = None
    refs: str | None = None
    unfinished: str | None = None
    info: str | None = None


def take(
    workspace: Workspace,
    recorder: Recorder,
    *,
    text: str = "",
    session: str | None = None,
    task: str | None = None,
    state: bool = True,
    only: Iterable[bytes] | None = None,
    just_scanned: Iterable[bytes] | None = None,
    same_git: bool = False,
    own: bool = False,
) -> CheckpointResult:
    """Save the worktree now; the caller holds its lock.

    `only` names the paths a coming step can touch: the rest is believed as last seen, and the checkpoint says so.
    `just_scanned` names what was written since a scan under this same lock: the rest is known, and it is a full one;
    `same_git`: and nothing was written in the repository.
    `own`: taken for a step or a restore, so that a plain `undo` does not take it for one somebody asked for.
    Raises TooBig before anything is copied, DiskFull, GitFailed, Damaged.
    """
    started = time.monotonic()
    try:
        known = only if only is not None else just_scanned
        asked = _Asked(
            text, session, task, state, None if known is None else list(known), only is not None, own, same_git
        )
        try:
            result = _take(workspace, recorder, asked)
        except (Damaged, GitFailed):
            if not leftovers.drop_damaged_index(workspace):
                raise
            result = _take(workspace, recorder, asked)
    except BaseException as error:
        process.end_running()
        workspace.drop_cursor()
        if leftovers.disk_is_full(error, workspace.project.store):
            leftovers.clean_scratch(workspace)
            leftovers.clean_store(workspace)
            raise DiskFull(path=str(workspace.project.path)) from error
        raise
    made, new, not_covered, files = result
    return CheckpointResult(
        id=made.id,
        kind=made.kind,
        ref=REF + made.id,
        tree=files,
        new=new,
        files=made.files,
        not_covered=tuple(not_covered),
        ms=(time.monotonic() - started) * 1000,
    )


@dataclass(frozen=True)
class _Asked:
    text: str
    session: str | None
    task: str | None
    state: bool
    paths: list[bytes] | None
    partial: bool
    own: bool
    same_git: bool = False


def peek(workspace: Workspace, recorder: Recorder, *, state: bool) -> tuple[Checkpoint, Parts]:
    """Save the worktree as it is now without recording a checkpoint, for comparing; raises as `take` does."""
    try:
        draft, parts, _, _ = _save(workspace, recorder, _Asked("", None, None, state, None, False, True))
    except BaseException:
        process.end_running()
        workspace.drop_cursor()
        raise
    workspace.save_cursor()
    return draft, parts


def _take(w: Workspace, recorder: Recorder, asked: _Asked) -> tuple[Checkpoint, bool, list[NotCovered], str]:
    draft, parts, keep, not_covered = _save(w, recorder, asked)
    cursor = w.cursor
    last = recorder.timeline.checkpoint(cursor.last) if cursor.last else None
    named = asked.text != "" and not asked.own
    if last is not None and _same(w.objects, last, parts, draft) and not (named and last.text != asked.text):
        w.save_cursor()
        return last, False, not_covered, parts.files or ""
    made = recorder.checkpoint(_write_parts(w.objects, parts), keep, draft, own=asked.own)
    if w.settings.store == "repository" and w.has_git:
        anchor(w, made)
    cursor.last = made.id
    w.save_cursor()
    return made, True, not_covered, parts.files or ""


def _save(w: Workspace, recorder: Recorder, asked: _Asked) -> tuple[Checkpoint, Parts, str | None, list[NotCovered]]:
    """Scan and store everything; return the checkpoint it would be, its parts, its keep commit, what is not covered."""
    recorder.sync()
    w.refresh()
    cursor = w.cursor
    w.databases.begin(cursor.databases)
    gitstate.note_link_times(cursor)
    rules = w.rules()
    state, paths = asked.state, asked.paths
    if cursor.tree is None or cursor.last == "":
        paths = None
    elif asked.partial and any(w.scanner.is_folder(cursor, path) for path in paths or ()):
        paths = None  # all below a folder is meant, and only a scan finds it
    partial = paths is not None and asked.partial
    saved = GitSaved()
    if partial or (asked.same_git and paths is not None):
        saved = _reused(cursor.git)
    elif w.has_git:
        saved = _save_git(w, cursor, recorder)
    if paths is not None:
        looked = [path for path in paths if not path.startswith(b".git/")]
        scanned = w.scanner.known(cursor, {*looked, *saved.newly_tracked})
    else:
        ignored = w.scanner.listing.start_ignored() if cursor.tree else None
        scanned = w.scanner.scan(cursor, rules, saved.newly_tracked)
        listed = [] if ignored is None else list_ignored(ignored)
        if ignored is None or scanned.dropped:
            listed = list_ignored(w.scanner.listing.start_ignored())
        cursor.unseen_rules = rule_files.read(w.place.root, listed, cursor.nested, w.excludes())
        if state:
            walked = w.walker.walk(cursor.state, roots_of(listed), cursor.nested, w.git_parts(), times=asked.own)
            cursor.state, cursor.state_skipped = walked.tree, walked.not_covered
        if asked.own or (state and walked.changed):
            scanned = w.scanner.with_times(cursor, scanned)
    not_covered = [NotCovered(path, why) for path, why in sorted(cursor.skipped.items())]
    not_covered += _closed_folders(w)
    if state:
        not_covered += cursor.state_skipped
    not_covered += saved.not_covered
    kind = Kind.STATE if state and not partial else Kind.FILES
    parts = Parts(
        files=scanned.tree,
        state=cursor.state if kind is Kind.STATE else None,
        index=saved.index,
        refs=saved.refs,
        unfinished=saved.unfinished,
        info=w.objects.write("blob", _info(not_covered, kind, w, cursor.unseen_rules)),
    )
    gitstate.restore_link_times(cursor)
    draft = Checkpoint(
        id="",
        commit="",
        kind=kind,
        at_ns=w.now_ns(),
        worktree=w.dir.key,
        root=w.place.root,
        text=asked.text,
        session=asked.session,
        task=asked.task,
        files=cursor.files,
        only=tuple(paths or ()) if partial else (),
    )
    w.objects.flush()
    return draft, parts, saved.keep, not_covered


def _closed_folders(w: Workspace) -> list[NotCovered]:
    """Folders that may not be listed: unnamed, a restore would delete what is in them as never seen."""
    if os.geteuid() == 0:
        return []
    maybe = [path for path, stamp in w.cursor.dirs.items() if stamp[0] & 0o555 != 0o555]
    closed = [path for path in sorted(maybe) if not os.access(w.real(path), os.R_OK | os.X_OK)]
    return [NotCovered(path, "cannot be read: Permission denied") for path in closed if os.path.lexists(w.real(path))]


def _save_git(w: Workspace, cursor: Cursor, recorder: Recorder) -> GitSaved:
    """Save the repository's own state; one that git no longer takes for a repository is no repository."""
    try:
        return w.gitstate().save(cursor, () if "tips" in cursor.git else _tips_elsewhere(w, recorder))
    except GitFailed:
        w.found_git()
        if w.has_git:
            raise
        return GitSaved()


def _tips_elsewhere(w: Workspace, recorder: Recorder) -> list[str]:
    """Tips that the newest checkpoint of another worktree holds, for the first one of this: history is saved once.

    None for a worktree known before: one that lost its cursor is saved anew, which mends a store that lost objects.
    """
    if next(iter(recorder.timeline.checkpoints(w.dir.key)), None) is not None:
        return []
    newest = next(iter(recorder.timeline.checkpoints()), None)
    if newest is None:
        return []
    try:
        keep = parents_of(w.objects, newest.commit)
        return [tip for commit in keep for tip in parents_of(w.objects, commit)]
    except Damaged:
        return []


def _reused(known: dict[str, object]) -> GitSaved:
    def text(name: str) -> str | None:
        value = known.get(name)
        return value if isinstance(value, str) else None

    return GitSaved(index=text("index"), refs=text("refs"), keep=text("keep"), unfinished=text("unfinished"))


def _same(objects: Objects, last: Checkpoint, parts: Parts, draft: Checkpoint) -> bool:
    """Whether the last checkpoint already holds all of this one, and a restore of it would put back the same paths."""
    if set(last.only) != set(draft.only):
        return False
    try:
        have = read_parts(objects, last)
    except Damaged:
        return False
    if draft.kind is Kind.STATE:
        return last.kind is Kind.STATE and have == parts
    if last.kind is Kind.STATE:
        return False  # its ignored files are of then, and nobody looked whether they still are
    if read_rules(objects, have) != read_rules(objects, parts):
        return False
    return (have.files, have.index, have.refs, have.unfinished) == (
        parts.files,
        parts.index,
        parts.refs,
        parts.unfinished,
    )


def _info(not_covered: list[NotCovered], kind: Kind, w: Workspace, unseen: rule_files.Rules) -> bytes:
    data: dict[str, object] = {
        "format": 1,
        "kind": str(kind),
        "git": w.has_git,
        "not_covered": [
            {
                "path": names.show(item.path),
                "raw": item.path.decode("latin-1"),
                "why": item.why,
                "rebuild": item.rebuild,
            }
            for item in not_covered
        ],
    }
    if kind is Kind.FILES and unseen:  # with state all is held that the rules ignore
        data["rules"] = rule_files.to_json(unseen)
    return json.dumps(data, indent=1, sort_keys=True).encode()


def _write_parts(objects: Objects, parts: Parts) -> str:
    items = []
    for name in _PARTS:
        oid = getattr(parts, name)
        if oid is None:
            continue
        is_tree = name in ("files", "state", "index", "unfinished")
        mode = b"40000" if is_tree else b"100644"
        key = name.encode() + (b"/" if is_tree else b"")
        items.append((key, mode + b" " + name.encode() + b"\0" + bytes.fromhex(oid)))
    return objects.write("tree", b"".join(item for _, item in sorted(items)))


def read_parts(objects: Objects, checkpoint: Checkpoint) -> Parts:
    """Return the parts of a checkpoint.

    Raises Damaged when its commit or tree is gone.
    """
    commit = objects.read(checkpoint.commit, "commit")
    tree = commit[5 : commit.index(b"\n")].decode()
    found = decode_tree(objects.read(tree, "tree"), objects.raw_length)
    return Parts(**{name.decode(): oid for name, (_, oid) in found.items() if name.decode() in _PARTS})


def read_not_covered(objects: Objects, parts: Parts) -> list[NotCovered]:
    """Return what a checkpoint says it does not hold."""
    if parts.info is None:
        return []
    data = json.loads(objects.read(parts.info, "blob"))
    return [
        NotCovered(item["raw"].encode("latin-1"), item["why"], item["rebuild"]) for item in data.get("not_covered", [])
    ]


def read_rules(objects: Objects, parts: Parts) -> rule_files.Rules:
    """Return the ignore rules of a checkpoint without state that are not in its files."""
    if parts.info is None:
        return {}
    return rule_files.from_json(json.loads(objects.read(parts.info, "blob")).get("rules", {}))
