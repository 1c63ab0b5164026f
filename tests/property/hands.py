"""What hands do to a project between takeback's commands: each a tuple, so that a story can be read and replayed.

Does not cover: processes that write while takeback reads. A change that cannot be made (no such file, git refuses) is
no change.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Change = tuple[Any, ...]

TEXT = "".join(f"line {number}\n" for number in range(12)).encode()
CONTENTS = (
    b"", b"AAAA\n", b"BBBB\n", TEXT, TEXT.replace(b"line 3", b"LINE 3"), b"\0binary\xff" * 3, b"\0BINARY\xff" * 3,
    b"one\r\ntwo\r\n", b"no newline at the end",
)  # fmt: skip
FILES = (
    b"a.txt", b"b.bin", b"run.sh", b"d/x", b"d/e/z", b"d/e", b"d", b"new/one/two", b"top",
    b"build/o", b".env", b"t.log", b"d/t.log", b"build",
    b"\xff\xfe", b"new\nline", b"-dash", b"q\"'\\uote", b"%meta", b"d/%meta", b"%.git", b".GIT", b"*.txt", b":(top)x",
    b"d/.gitmodules2", b"nested/file", b"nested/sub/file", b"\xfed/\xffx",
)  # fmt: skip
FOLDERS = (b"d", b"d/e", b"build", b"build/sub", b"empty", b"new/one", b"new", b"\xfed", b"d/.GIT", b"a.txt", b"nested")
MODES = (0o600, 0o644, 0o755, 0o400, 0o444, 0o711)
TARGETS = (b"nowhere", b"d", b"a.txt", b"../outside", b"d/x")
RULES = (
    b"*.log\nbuild/\n.env\n", b"*.log\nbuild/\n.env\na.txt\n", b"", b"d/\n*.log\nbuild/\n.env\n", b"*\n",
    b"*.log\nbuild/\n", b"*.log\nbuild/*\n!build/o\n.env\nnew/\n", b".env\ntop\nnested/\n*.bin\n",
)  # fmt: skip
BRANCHES = ("main", "topic", "other", "deep/er")
TIMES = (1_000_000_000_000_000_000, 1_500_000_000_123_456_789)

# Mostly a few, so that changes meet.
files = st.one_of(st.sampled_from((b"a.txt", b"d/x", b"top", b"build/o", b".env")), st.sampled_from(FILES))
folders = st.one_of(st.just(b"d"), st.sampled_from(FOLDERS))
branches = st.sampled_from(BRANCHES)

plain_changes = st.one_of(
    st.tuples(st.just("write"), files, st.sampled_from(range(len(CONTENTS)))),
    st.tuples(st.just("edit"), files, st.sampled_from((0, 5, 11))),
    st.tuples(st.just("sneak"), files),
    st.tuples(st.just("append"), files),
    st.tuples(st.just("delete"), st.one_of(files, folders)),
    st.tuples(st.just("mkdir"), folders),
    st.tuples(st.just("chmod"), st.one_of(files, folders, st.just(b"")), st.sampled_from(MODES)),
    st.tuples(st.just("link"), files, st.sampled_from(TARGETS)),
    st.tuples(st.just("rename"), st.one_of(files, folders), st.one_of(files, folders)),
    st.tuples(st.just("touch"), files, st.sampled_from(TIMES)),
    st.tuples(st.just("rules"), st.sampled_from((b".gitignore", b"d/.gitignore")), st.sampled_from(RULES)),
    st.tuples(st.just("nested"), st.sampled_from(("init", "commit", "dirty"))),
)
git_changes = st.one_of(
    st.tuples(st.just("add"), files),
    st.tuples(st.just("add -A")),
    st.tuples(st.just("stage"), files, st.sampled_from(range(len(CONTENTS)))),
    st.tuples(st.just("add -N"), files),
    st.tuples(st.just("add -f"), files),
    st.tuples(st.just("rm --cached"), files),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit -a")),
    st.tuples(st.just("branch"), branches),
    st.tuples(st.just("branch -D"), branches),
    st.tuples(st.just("switch"), branches),
    st.tuples(st.just("switch -c"), branches),
    st.tuples(st.just("detach")),
    st.tuples(st.just("stash"), st.sampled_from(("push", "push -u", "push -a", "pop", "drop", "apply"))),
    st.tuples(st.just("reset"), st.sampled_from(("--hard", "--mixed", "--soft")), st.sampled_from(("HEAD", "HEAD~1"))),
    st.tuples(st.just("merge"), branches),
    st.tuples(st.just("merge --abort")),
    st.tuples(st.just("cherry-pick"), branches),
    st.tuples(st.just("flag"), files, st.sampled_from(("assume-unchanged", "skip-worktree", "no-assume-unchanged"))),
    st.tuples(st.just("tag"), st.sampled_from(("v1", "v2")), st.booleans()),
    st.tuples(st.just("tag -d"), st.sampled_from(("v1", "v2"))),
    st.tuples(st.just("clean"), st.sampled_from(("-fd", "-fdx"))),
    st.tuples(st.just("checkout"), files),
    st.tuples(st.just("config"), st.sampled_from(("one", "two"))),
    st.tuples(st.just("hook"), st.sampled_from((b"#!/bin/sh\nexit 1\n", b"other\n"))),
    st.tuples(st.just("exclude"), st.sampled_from((b"", b"top\n", b"*.txt\n"))),
    st.tuples(st.just("tidy"), st.sampled_from(("gc -q", "pack-refs --all", "update-index -q --refresh"))),
)


@dataclass(frozen=True)
class Hands:
    """Changes one project; `env` is the whole environment of git."""

    root: bytes
    env: Mapping[str, str]

    def make(self, change: Change) -> None:
        """Make one change, or none where it cannot be made."""
        name, *rest = change
        try:
            getattr(self, "_" + name.replace(" --", "_").replace(" -", "_").replace("-", "_"))(*rest)
        except OSError:
            pass

    def git(self, *args: str | bytes, cwd: bytes | None = None) -> None:
        subprocess.run(["git", *args], cwd=cwd or self.root, env=self.env, capture_output=True)

    def _full(self, path: bytes) -> bytes:
        return os.path.join(self.root, path) if path else self.root

    def _real_parents(self, path: bytes) -> bool:
        """Whether no link is on the way: writing through one could leave the project."""
        parts = path.split(b"/")[:-1]
        return not any(os.path.islink(self._full(b"/".join(parts[: n + 1]))) for n in range(len(parts)))

    def _room(self, path: bytes) -> None:
        """Clear what stands in the way of a file, and make its folders."""
        if not self._real_parents(path):
            raise FileExistsError
        full = self._full(path)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        elif os.path.lexists(full):
            os.unlink(full)
        above = os.path.dirname(full)
        if os.path.lexists(above) and not os.path.isdir(above):
            os.unlink(above)
        os.makedirs(above, exist_ok=True)

    def _is_file(self, path: bytes) -> bool:
        return self._real_parents(path) and stat.S_ISREG(os.lstat(self._full(path)).st_mode)

    # -- files -----------------------------------------------------------------------------------------------------

    def _write(self, path: bytes, number: int) -> None:
        full = self._full(path)
        if not (self._real_parents(path) and os.path.isfile(full) and not os.path.islink(full)):
            self._room(path)
        with open(full, "wb") as file:
            file.write(CONTENTS[number])

    def _edit(self, path: bytes, line: int) -> None:
        if self._is_file(path):
            with open(self._full(path), "rb+") as file:
                lines = file.read().splitlines(keepends=True)
                if line < len(lines):
                    lines[line] = b"edited " + lines[line]
                file.seek(0)
                file.write(b"".join(lines))

    def _sneak(self, path: bytes) -> None:
        """Change a byte, keep size and mtime."""
        if self._is_file(path):
            found = os.lstat(self._full(path))
            with open(self._full(path), "rb+") as file:
                data = file.read(1)
                file.seek(0)
                file.write(bytes(byte ^ 1 for byte in data))
            os.utime(self._full(path), ns=(found.st_atime_ns, found.st_mtime_ns))

    def _append(self, path: bytes) -> None:
        if self._is_file(path):
            with open(self._full(path), "ab") as file:
                file.write(b"appended\n")

    def _delete(self, path: bytes) -> None:
        if self._real_parents(path):
            full = self._full(path)
            shutil.rmtree(full) if os.path.isdir(full) and not os.path.islink(full) else os.unlink(full)

    def _mkdir(self, path: bytes) -> None:
        if self._real_parents(path):
            if os.path.lexists(self._full(path)) and not os.path.isdir(self._full(path)):
                os.unlink(self._full(path))
            os.makedirs(self._full(path))

    def _chmod(self, path: bytes, mode: int) -> None:
        full = self._full(path)
        if self._real_parents(path) and not os.path.islink(full):
            if os.path.isdir(full):
                mode |= 0o500 if os.geteuid() == 0 else 0o700
            elif os.geteuid() != 0:
                mode |= 0o600
            os.chmod(full, mode)

    def _link(self, path: bytes, target: bytes) -> None:
        self._room(path)
        os.symlink(target, self._full(path))

    def _rename(self, one: bytes, two: bytes) -> None:
        if self._real_parents(one) and self._real_parents(two) and one.split(b"/")[0] != two.split(b"/")[0]:
            os.lstat(self._full(one))
            self._room(two)
            os.rename(self._full(one), self._full(two))

    def _touch(self, path: bytes, time: int) -> None:
        if self._real_parents(path):
            os.utime(self._full(path), ns=(time, time), follow_symlinks=False)

    def _rules(self, path: bytes, text: bytes) -> None:
        if self._real_parents(path):
            with open(self._full(path), "wb") as file:
                file.write(text)

    def _nested(self, how: str) -> None:
        inner = self._full(b"nested")
        if not self._real_parents(b"nested/x"):
            return
        if how == "init":
            os.makedirs(inner, exist_ok=True)
            self.git("init", "-q", "--template=", "-b", "inside", cwd=inner)
        elif os.path.isdir(inner + b"/.git"):
            with open(inner + b"/file", "ab") as file:
                file.write(how.encode())
            if how == "commit":
                self.git("add", "-A", cwd=inner)
                self.git("commit", "-q", "-m", "inside", cwd=inner)

    # -- git -------------------------------------------------------------------------------------------------------

    def _add(self, path: bytes) -> None:
        self.git("--literal-pathspecs", "add", "--", path)

    def _add_A(self) -> None:
        self.git("add", "-A")

    def _add_N(self, path: bytes) -> None:
        self.git("--literal-pathspecs", "add", "-N", "--", path)

    def _add_f(self, path: bytes) -> None:
        self.git("--literal-pathspecs", "add", "-f", "--", path)

    def _stage(self, path: bytes, number: int) -> None:
        """Stage other content than the file's, as `git add -p` would."""
        put = ["git", "hash-object", "-w", "--stdin"]
        done = subprocess.run(put, cwd=self.root, env=self.env, input=CONTENTS[number], capture_output=True)
        line = b"100644 " + done.stdout.strip() + b"\t" + path + b"\0"
        if b"/" not in path or b"nested" not in path:
            put = ["git", "update-index", "-z", "--add", "--index-info"]
            subprocess.run(put, cwd=self.root, env=self.env, input=line, capture_output=True)

    def _rm_cached(self, path: bytes) -> None:
        self.git("--literal-pathspecs", "rm", "-rfq", "--cached", "--", path)

    def _commit(self) -> None:
        self.git("commit", "-q", "--no-verify", "-m", "some work")

    def _commit_a(self) -> None:
        self.git("commit", "-q", "--no-verify", "-a", "-m", "all work")

    def _branch(self, name: str) -> None:
        self.git("branch", name)

    def _branch_D(self, name: str) -> None:
        self.git("branch", "-q", "-D", name)

    def _switch(self, name: str) -> None:
        self.git("switch", "-q", name)

    def _switch_c(self, name: str) -> None:
        self.git("switch", "-q", "-c", name)

    def _detach(self) -> None:
        self.git("switch", "-q", "--detach")

    def _stash(self, how: str) -> None:
        self.git("stash", *how.split())

    def _reset(self, how: str, to: str) -> None:
        self.git("reset", "-q", how, to)

    def _merge(self, name: str) -> None:
        self.git("merge", "-q", "--no-verify", "-m", "merged", name)

    def _merge_abort(self) -> None:
        self.git("merge", "--abort")

    def _cherry_pick(self, name: str) -> None:
        self.git("cherry-pick", name)

    def _flag(self, path: bytes, flag: str) -> None:
        self.git("update-index", "--" + flag, "--", path)

    def _tag(self, name: str, annotated: bool) -> None:
        self.git("tag", *(["-a", "-m", "words"] if annotated else []), name)

    def _tag_d(self, name: str) -> None:
        self.git("tag", "-d", name)

    def _clean(self, how: str) -> None:
        self.git("clean", "-q", how)

    def _checkout(self, path: bytes) -> None:
        self.git("--literal-pathspecs", "checkout", "-q", "--", path)

    def _config(self, value: str) -> None:
        self.git("config", "some.key", value)

    def _hook(self, text: bytes) -> None:
        os.makedirs(self._full(b".git/hooks"), exist_ok=True)
        with open(self._full(b".git/hooks/post-commit"), "wb") as file:
            file.write(text)

    def _exclude(self, text: bytes) -> None:
        os.makedirs(self._full(b".git/info"), exist_ok=True)
        with open(self._full(b".git/info/exclude"), "wb") as file:
            file.write(text)

    def _tidy(self, command: str) -> None:
        self.git(*command.split())
