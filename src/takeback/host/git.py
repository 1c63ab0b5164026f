"""The one module that spells `git`: its environment, its minimum version, and one method per kind of call.

Does not cover: what the answers mean (see `files`). Every path is bytes; every list is NUL-terminated (`-z`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from takeback.errors import GitFailed, GitMissing, GitTooOld
from takeback.host import atomic, process
from takeback.host.process import Child, Finished

# 2.38: cat-file -z, update-index inside one object transaction. 2.39: what Debian 12 ships and what we test.
MINIMUM = (2, 39)
MINIMUM_TEXT = "2.39"

# Settings of ours that beat every configuration file. Each line is something that went wrong for somebody.
_ALWAYS = {
    "core.hooksPath": os.devnull,  # post-index-change and reference-transaction run on plumbing too
    "core.fsmonitor": "false",  # a program of the user's choice
    "core.splitIndex": "false",  # else a copied index writes a shared part into the user's .git
    "core.untrackedCache": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.directory": "*",  # root in a user's project; we run none of its code
    "protocol.allow": "never",  # a partial clone must not call its server during an undo
}
# Only for the private store, where bytes on disk are stored as they are.
_STORE = {
    "core.autocrlf": "false",
    "core.attributesFile": os.devnull,
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.preloadIndex": "true",
    "core.protectNTFS": "false",  # `git~1` and `a\\b` are good names on Linux
    "core.protectHFS": "false",
    "core.sparseCheckout": "false",
    "core.looseCompression": "1",
    "core.bigFileThreshold": "32m",  # bigger files are streamed, not held in memory
    "pack.writeReverseIndex": "false",
    "pack.threads": "2",
}


@cache
def version() -> tuple[int, ...]:
    """Return git's version, for example (2, 39, 5).

    Raises GitMissing and GitTooOld.
    """
    try:
        done = process.start(["git", "--version"], env=process.clean_environment()).finish(20)
    except FileNotFoundError:
        raise GitMissing(minimum=MINIMUM_TEXT) from None
    found = re.search(rb"(\d+)\.(\d+)(?:\.(\d+))?", done.out)
    if found is None:
        raise GitFailed(command="--version", code=done.code, stderr=done.err.decode("utf-8", "replace").strip())
    numbers = tuple(int(part) for part in found.groups() if part is not None)
    if numbers[:2] < MINIMUM:
        raise GitTooOld(found=".".join(map(str, numbers)), minimum=MINIMUM_TEXT)
    return numbers


def require(noted: Path) -> None:
    """Check that git is there and new enough, asking it only when it is not the one noted in this file.

    Raises GitMissing, GitTooOld, GitFailed.
    """
    place = shutil.which("git", path=process.clean_environment().get("PATH", os.defpath))
    if place is None:
        raise GitMissing(minimum=MINIMUM_TEXT)
    found = os.stat(place)
    this = f"{place} {found.st_size} {found.st_mtime_ns} {MINIMUM_TEXT}".encode("utf-8", "surrogateescape")
    try:
        if noted.read_bytes() == this:
            return
    except OSError:
        pass
    version()
    try:
        # In place: a part of it is not taken for the whole, and a temporary file could be left by a kill.
        with open(os.open(noted, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(this)
    except OSError:
        pass  # asked again next time


def _environment(settings: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    env = process.clean_environment(extra)
    env.update(
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_ATTR_NOSYSTEM="1",
        GIT_OPTIONAL_LOCKS="0",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_NO_REPLACE_OBJECTS="1",
        GIT_LITERAL_PATHSPECS="1",
        GIT_AUTHOR_NAME="takeback",
        GIT_AUTHOR_EMAIL="takeback@localhost",
        GIT_COMMITTER_NAME="takeback",
        GIT_COMMITTER_EMAIL="takeback@localhost",
        GIT_CONFIG_COUNT=str(len(settings)),
    )
    for number, (name, value) in enumerate(settings.items()):
        env[f"GIT_CONFIG_KEY_{number}"] = name
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env


class Git:
    """One repository as seen through one index, object folder and work tree.

    `store=True` for takeback's private store; otherwise a user's repository, of which no hook, alias, monitor, filter
    or server is ever run. `index` defaults to the repository's own.
    """

    def __init__(
        self,
        git_dir: bytes,
        *,
        store: bool = False,
        work_tree: bytes | None = None,
        index: bytes | None = None,
        objects: bytes | None = None,
        alternates: bytes | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree
        self.index = index
        self._options = (store, work_tree, index, objects, alternates, dict(settings or {}))
        extra = {"GIT_DIR": os.fsdecode(git_dir)}
        if work_tree is not None:
            extra["GIT_WORK_TREE"] = os.fsdecode(work_tree)
        if index is not None:
            extra["GIT_INDEX_FILE"] = os.fsdecode(index)
        if objects is not None:
            extra["GIT_OBJECT_DIRECTORY"] = os.fsdecode(objects)
        if alternates is not None:
            # Quoted, because `:` separates and `"` begins a quoted path (git(1)).
            quoted = os.fsdecode(alternates).replace("\\", "\\\\").replace('"', '\\"')
            extra["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        chosen = {**_ALWAYS, **(_STORE if store else {}), **(settings or {})}
        self._env = _environment(chosen, extra)

    def view(
        self,
        *,
        work_tree: bytes | None = None,
        index: bytes | None = None,
        objects: bytes | None = None,
        alternates: bytes | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Git:
        """Return the same repository seen through other parts."""
        store, old_tree, old_index, old_objects, old_alternates, old_settings = self._options
        return Git(
            self.git_dir,
            store=store,
            work_tree=work_tree or old_tree,
            index=index or old_index,
            objects=objects or old_objects,
            alternates=alternates or old_alternates,
            settings={**old_settings, **(settings or {})},
        )

    def start(
        self,
        *args: str | bytes,
        feed: bytes | None = None,
        stdin: int | IO[bytes] | None = None,
        stdout: int | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a git command; `feed` becomes its stdin."""
        try:
            return process.start(
                ["git", *args],
                env={**self._env, **(env or {})},
                cwd=self.work_tree if self.work_tree is not None and os.path.isdir(self.work_tree) else "/",
                feed=feed,
                stdin=stdin,
                stdout=stdout,
            )
        except FileNotFoundError:
            raise GitMissing(minimum=MINIMUM_TEXT) from None

    def run(
        self,
        *args: str | bytes,
        feed: bytes | None = None,
        stdin: int | IO[bytes] | None = None,
        stdout: int | IO[bytes] | None = None,
        ok: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a git command and return its stdout.

        Raises GitFailed when the exit code is not in `ok`.
        """
        return checked(args, self.start(*args, feed=feed, stdin=stdin, stdout=stdout, env=env).finish(), ok).out

    def code(self, *args: str | bytes, feed: bytes | None = None) -> int:
        """Run a git command for its exit code alone."""
        return self.start(*args, feed=feed).finish().code

    def pipe(self, *args: str | bytes) -> process.Pipe:
        """Start a long-lived git command that is talked to over pipes."""
        return process.pipe(["git", *args], env=self._env, cwd="/")

    def missing(self, oids: Iterable[str]) -> set[str]:
        """Return those of `oids` that this repository does not have."""
        names = list(dict.fromkeys(oids))
        if not names:
            return set()
        out = self.run("cat-file", "--batch-check=%(objectname)", feed="\n".join(names).encode() + b"\n")
        return {line.split(b" ")[0].decode() for line in out.splitlines() if line.endswith(b" missing")}


def checked(args: Sequence[str | bytes], done: Finished, ok: Sequence[int] = (0,)) -> Finished:
    """Return `done` if its exit code is in `ok`; raises GitFailed, or DiskFull when git said so, otherwise."""
    if done.code in ok:
        return done
    said = done.err.decode("utf-8", "replace").strip()
    words = [os.fsdecode(word) for word in args if not os.fsdecode(word).startswith("-")]
    raise GitFailed(command=words[0] if words else "?", code=done.code, stderr=said[-600:] or "no message")


def split(out: bytes) -> list[bytes]:
    """Split a `-z` list."""
    return out.split(b"\0")[:-1] if out else []


def of_user(cwd: bytes, *args: str) -> Finished:
    """Run a read-only git command in `cwd` with the user's own configuration, for discovery and settings."""
    env = process.clean_environment(
        {
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
    )
    try:
        return process.start(["git", *args], env=env, cwd=cwd if os.path.isdir(cwd) else "/").finish(30)
    except FileNotFoundError:
        raise GitMissing(minimum=MINIMUM_TEXT) from None


def init_store(path: bytes, object_format: str) -> str:
    """Make a bare repository whose attributes keep every byte as it is on disk, and return its object format.

    One that is there is only completed, and keeps its format. Raises GitFailed, OSError, GitMissing.
    """
    store = Git(path, store=True)
    if os.path.exists(os.path.join(path, b"HEAD")):
        there = store.start("rev-parse", "--show-object-format").finish()
        object_format = there.out.decode().strip() if there.code == 0 else object_format
    env = _environment(_ALWAYS, {})
    args = ["git", "init", "-q", "--bare", "--template=", f"--object-format={object_format}", os.fsdecode(path)]
    checked(["init"], process.start(args, env=env).finish())
    info = os.path.join(path, b"info")
    os.makedirs(info, exist_ok=True)
    # gitattributes(5): info/attributes beats every .gitattributes in the tree.
    attributes = b"* -text -filter -ident -working-tree-encoding -eol -diff -merge\n"
    atomic.write_bytes(Path(os.fsdecode(info)) / "attributes", attributes)
    return object_format
