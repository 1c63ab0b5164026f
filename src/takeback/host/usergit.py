"""Git in a worktree as its user would run it: their settings, filters, identity, and on request their hooks.

Does not cover: the private store, and looking at a repository without running anything of the user's (`git`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from takeback.errors import GitFailed, GitMissing
from takeback.host import process
from takeback.host.git import MINIMUM_TEXT, checked
from takeback.host.headless import MARKER

_SECONDS = 300.0
_HOOKS_SECONDS = 1800.0
_MOST_SAID = 4 << 20
# What would turn git to another repository, or to another part of this one.
_PLACES = frozenset(
    """GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR
    GIT_NAMESPACE GIT_PREFIX GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS
    GIT_ICASE_PATHSPECS GIT_QUARANTINE_PATH GIT_REFLOG_ACTION GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_INTERNAL_SUPER_PREFIX
    GIT_SHALLOW_FILE GIT_GRAFT_FILE GIT_REPLACE_REF_BASE GIT_EXTERNAL_DIFF GIT_DIFF_OPTS""".split()
)
_QUIET = {
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.directory": "*",
    "advice.detachedHead": "false",
    "core.quotePath": "false",
}


def environment(environ: Mapping[str, str], *, top: bytes | None = None) -> dict[str, str]:
    """Return an environment for programs at work in a worktree: the user's, without what points git elsewhere.

    `top`: the worktree; when it is no repository's any more, git takes none that the folders above it belong to.
    """
    env = {name: value for name, value in environ.items() if name not in _PLACES}
    if top is not None:
        ceilings = (env.get("GIT_CEILING_DIRECTORIES", ""), os.fsdecode(os.path.dirname(top)))
        env["GIT_CEILING_DIRECTORIES"] = os.pathsep.join(one for one in ceilings if one)
    return env


class UserGit:
    """Git in one worktree; `index` and `objects` replace the worktree's own, to look without leaving a trace.

    `hooks`: run those of the user's settings, or those in a directory.
    """

    def __init__(
        self,
        cwd: bytes,
        environ: Mapping[str, str],
        *,
        hooks: bool | bytes = False,
        index: bytes | None = None,
        objects: bytes | None = None,
        alternates: bytes | None = None,
    ) -> None:
        self.cwd = cwd
        self._paths: dict[str, bytes] = {}
        self._environ = environ
        self._env = environment(environ)
        settings = dict(_QUIET)
        if not isinstance(hooks, bool):
            settings["core.hooksPath"] = os.fsdecode(hooks)
        elif not hooks:
            settings["core.hooksPath"] = os.devnull
        have = int(self._env.get("GIT_CONFIG_COUNT", "0") or "0")
        for number, (name, value) in enumerate(settings.items(), have):
            self._env[f"GIT_CONFIG_KEY_{number}"] = name
            self._env[f"GIT_CONFIG_VALUE_{number}"] = value
        self._env["GIT_CONFIG_COUNT"] = str(have + len(settings))
        self._env["GIT_TERMINAL_PROMPT"] = "0"
        self._env["GIT_EDITOR"] = "true"
        self._env["LC_ALL"] = self._env.get("LC_ALL", "") if hooks else "C"
        if not self._env["LC_ALL"]:
            del self._env["LC_ALL"]
        if index is not None:
            self._env["GIT_INDEX_FILE"] = os.fsdecode(index)
        if objects is not None:
            self._env["GIT_OBJECT_DIRECTORY"] = os.fsdecode(objects)
        if alternates is not None:
            quoted = os.fsdecode(alternates).replace("\\", "\\\\").replace('"', '\\"')
            self._env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'

    def view(
        self, *, hooks: bool | bytes = False, index: bytes | None = None, objects: bytes | None = None,
        alternates: bytes | None = None,
    ) -> UserGit:  # fmt: skip
        """Return the same worktree seen through other parts, or with its hooks."""
        return UserGit(self.cwd, self._environ, hooks=hooks, index=index, objects=objects, alternates=alternates)

    def with_hooks(self, home: bytes) -> UserGit:
        """Return the same with the user's hooks; a relative core.hooksPath that is not here is taken from `home`.

        Tools that manage hooks write them into an ignored directory, which a new worktree does not have.
        """
        asked = UserGit(self.cwd, self._environ, hooks=True)
        path = os.fsencode(asked.line("config", "--type=path", "--get", "core.hooksPath", ok=(0, 1)))
        there = os.path.join(home, path)
        if (
            path
            and not os.path.isabs(path)
            and not os.path.isdir(os.path.join(self.cwd, path))
            and os.path.isdir(there)
        ):
            return self.view(hooks=there)
        return self.view(hooks=True)

    def at(self, cwd: bytes, *, marker: str = "", top: bool = False) -> UserGit:
        """Return the same for another worktree; `marker` names what it starts, for `headless.Runner.end_left`.

        `top`: the worktree begins there, so that no repository around it is meant.
        """
        marked = {MARKER: f"{self._environ.get(MARKER, '')} {marker}".strip()} if marker else {}
        return UserGit(cwd, environment({**self._environ, **marked}, top=cwd if top else None))

    def finish(
        self, *args: str | bytes, feed: bytes | None = None, env: Mapping[str, str] | None = None,
        timeout: float = _SECONDS, output: IO[bytes] | None = None,
    ) -> process.Finished:  # fmt: skip
        """Run a git command to its end, whatever that is; one past its time is ended with SIGTERM.

        With `output` what it says goes into that file, and is not in the result.
        Raises GitMissing, GitFailed for one that took too long.
        """
        into = {} if output is None else {"stdout": output, "stderr": output}
        try:
            child = process.start(["git", *args], env={**self._env, **(env or {})}, cwd=self.cwd, feed=feed, **into)
            return child.finish(timeout)
        except FileNotFoundError:
            raise GitMissing(minimum=MINIMUM_TEXT) from None
        except process.TimeoutExpired:
            raise GitFailed(
                command=os.fsdecode(args[0]), code=124, stderr=f"still at work after {timeout:.0f} s, so it was ended"
            ) from None

    def commit_with_hooks(
        self, home: bytes, *args: str, feed: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> process.Finished:
        """Run `git commit` with the user's hooks (see `with_hooks`); all that was said is in `err`.

        Only git's own end is waited for: a program that a hook left running holds its output open for as long as it
        likes. Raises what `finish` raises.
        """
        with tempfile.TemporaryFile() as said:
            hooked = self.with_hooks(home)
            done = hooked.finish("commit", *args, feed=feed, env=env, timeout=_HOOKS_SECONDS, output=said)
            said.seek(0)
            return process.Finished(done.code, b"", said.read(_MOST_SAID))

    def run(
        self, *args: str | bytes, feed: bytes | None = None, ok: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None, timeout: float = _SECONDS,
    ) -> bytes:  # fmt: skip
        """Run a git command and return its stdout.

        Raises GitFailed when the exit code is not in `ok`, GitMissing.
        """
        return checked(args, self.finish(*args, feed=feed, env=env, timeout=timeout), ok).out

    def line(self, *args: str | bytes, ok: Sequence[int] = (0,)) -> str:
        """Return the one line a git command prints, empty when it prints none."""
        return self.run(*args, ok=ok).decode("utf-8", "surrogateescape").strip("\n")

    def path(self, name: str) -> bytes:
        """Return where a part of the repository is, such as this worktree's `index`; asked of git once."""
        if name not in self._paths:
            self._paths[name] = os.fsencode(self.line("rev-parse", "--path-format=absolute", "--git-path", name))
        return self._paths[name]

    def forget_paths(self) -> None:
        """Ask git anew where parts of the repository are: the worktree has others now."""
        self._paths.clear()

    def commit(self, rev: str) -> str:
        """Return the commit a name stands for, or an empty string."""
        return self.line("rev-parse", "-q", "--verify", "--end-of-options", f"{rev}^{{commit}}", ok=(0, 1, 128))

    def has_tree(self, oid: str) -> bool:
        """Whether the repository has this tree."""
        return self.finish("cat-file", "-e", f"{oid}^{{tree}}").code == 0

    def tree(self, rev: str) -> str:
        """Return the tree of a commit or tree. Raises GitFailed."""
        return self.line("rev-parse", "--verify", "--end-of-options", f"{rev}^{{tree}}")
