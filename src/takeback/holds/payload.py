"""The fingerprint of what an action would send or use: a hash for each thing, by name.

    git push        the commit ids it would push, where to, the settings and the hook that shape it
    publish, deploy every file git sees below the folder, and those of the usual build folders: what could be packed
    all commands    the files and folders named in it, the files that say what `npm run x` or `make x` does

Nothing is asked over the network. Two fingerprints differ when something was changed, added or taken away; `changes`
says what. Does not cover: bytes that only the running command makes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence

from takeback.errors import GitMissing
from takeback.host import git

_LONGEST = 20_000
_MOST_FILES = 20_000
_MOST_BYTES = 1 << 30
_NAMED_ALONE = 300  # files of one folder that are told apart
_TOO_BIG = "too big to be compared"
_BUILT = ("dist", "build", "lib", "out", "pkg", "public", "_site", ".output", ".next", "target/package")
_TARGETS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "npx"), ("package.json", ".npmrc")),
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    "just": ("justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "composer": ("composer.json",),
    "mvn": ("pom.xml",),
    "invoke": ("tasks.py",),
    "fab": ("fabfile.py",),
}
_WITH_VALUE = ("-o", "--push-option", "--repo", "--receive-pack", "--exec")
_SHAPES_PUSH = (
    r"^(core\.(sshcommand|hookspath|gitproxy)|remote\.|url\.|push\.|credential\.|http\.|branch\..*\.pushremote)"
)


def fingerprint(cwd: str, commands: Sequence[str], effects: Sequence[str]) -> dict[str, str]:
    """Return the fingerprint of the single `commands` of an action in the folder `cwd`, with its effects by name."""
    found: dict[str, str] = {}
    budget = _Budget()
    for command in commands:
        words = _words(command)
        while words and (re.fullmatch(r"\w+=.*", words[0]) or words[0] in ("sudo", "env", "command", "exec", "time")):
            words.pop(0)
        if not words:
            continue
        program = os.path.basename(words[0])
        if program == "git":
            found |= _push(cwd, words)
        for name in _TARGETS.get(program, ()):
            _file(found, os.path.join(cwd, name), name, budget)
        for name in _named(words):
            path = os.path.join(cwd, os.path.expanduser(name))
            _file(found, path, name, budget)
    if {"publish", "deploy"} & set(effects):
        _packed(found, cwd, budget)
    return found


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the names of what is not the same in two fingerprints, with how; empty when they agree."""
    said = []
    for name in sorted({*old, *new}):
        if name not in new:
            said.append(f"{name} is gone")
        elif name not in old:
            said.append(f"{name} is new")
        elif old[name] != new[name]:
            short = f" ({old[name][:10]} -> {new[name][:10]})" if name.startswith("commit ") else ""
            said.append(f"{name} changed{short}")
    return said


class _Budget:
    """How much may still be read."""

    def __init__(self) -> None:
        self.files, self.bytes = _MOST_FILES, _MOST_BYTES

    def take(self, size: int) -> bool:
        self.files -= 1
        self.bytes -= size
        return self.files >= 0 and self.bytes >= 0


def _words(command: str) -> list[str]:
    try:
        if len(command) <= _LONGEST:  # it takes the square of a word's length
            return shlex.split(command)
    except ValueError:
        pass
    return re.sub(r"[\"']", " ", command).split()


def _named(words: Sequence[str]) -> Iterator[str]:
    """Yield what may be a path in words: themselves, behind `=`, behind `@`, behind a short option's letter."""
    for word in words:
        if "\0" in word or len(word) > 4000 or not word.strip("./"):
            if word in (".", "./"):
                yield "."
            continue
        for one in (word, word.partition("=")[2], *word.split("@")[1:], word[2:] if word[:1] == "-" else ""):
            one = one.lstrip("@").strip("<>\"'")
            if one and not one.startswith("-"):
                yield one
                if "*" in one or "?" in one:
                    yield from _globbed(one)


def _globbed(word: str) -> Iterator[str]:
    # Below the folder only; what a shell would make of it is what is there when it runs.
    folder = re.split(r"[*?\[{]", word, maxsplit=1)[0].rpartition("/")[0]
    yield folder or "."


def _file(found: dict[str, str], path: str, name: str, budget: _Budget) -> None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if stat.S_ISREG(status.st_mode):
        found[f"file {name}"] = _hash(path, status.st_size, budget)
    elif stat.S_ISDIR(status.st_mode) and f"folder {name}" not in found:
        found[f"folder {name}"] = _folder(path, budget)


def _hash(path: str, size: int, budget: _Budget) -> str:
    if not budget.take(size):
        return _TOO_BIG
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _folder(path: str, budget: _Budget) -> str:
    whole = hashlib.sha256()
    for above, folders, names in os.walk(path):
        folders[:] = sorted(one for one in folders if one not in (".git", "node_modules"))
        for name in sorted(names):
            full = os.path.join(above, name)
            try:
                status = os.lstat(full)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                said = _hash(full, status.st_size, budget)
                if said == _TOO_BIG:
                    return _TOO_BIG
            else:
                said = os.readlink(full) if stat.S_ISLNK(status.st_mode) else "special"
            whole.update(f"{os.path.relpath(full, path)}\0{said}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _packed(found: dict[str, str], cwd: str, budget: _Budget) -> None:
    """What a publish or deploy in this folder could pack."""
    try:
        done = git.of_user(os.fsencode(cwd), "-c", "core.fsmonitor=false", "ls-files", "-zco", "--exclude-standard")
        listed = [os.fsdecode(name) for name in done.out.split(b"\0") if name] if done.code == 0 else None
    except GitMissing:
        listed = None
    if listed is None:
        found["folder ."] = _folder(cwd, budget)
        return
    whole = hashlib.sha256()
    for name in sorted(set(listed)):
        path = os.path.join(cwd, name)
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        said = _hash(path, status.st_size, budget)
        if len(listed) <= _NAMED_ALONE:
            found[f"file {name}"] = said
        whole.update(f"{name}\0{said}\n".encode("utf-8", "surrogateescape"))
    if len(listed) > _NAMED_ALONE:
        found["the project's files"] = whole.hexdigest()
    for name in _BUILT:
        _file(found, os.path.join(cwd, name), name, budget)


def _push(cwd: str, words: Sequence[str]) -> dict[str, str]:
    """What a `git push` would push, and where to; empty for another command of git."""
    rest, folder = list(words[1:]), cwd
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") and rest:
            value = rest.pop(0)
            folder = os.path.join(folder, value) if option == "-C" else folder
    if rest[:1] != ["push"]:
        return {}
    options, operands = [], []
    skip = False
    for word in rest[1:]:
        if skip:
            skip = False
        elif word.startswith("-"):
            options.append(word)
            skip = word in _WITH_VALUE
        else:
            operands.append(word)
    try:
        return _refs(os.fsencode(folder), options, operands)
    except GitMissing:
        return {}


def _refs(folder: bytes, options: Sequence[str], operands: Sequence[str]) -> dict[str, str]:
    def ask(*args: str) -> str:
        done = git.of_user(folder, *args)
        return done.out.decode("utf-8", "surrogateescape").strip() if done.code == 0 else ""

    found: dict[str, str] = {}
    branch = ask("symbolic-ref", "-q", "--short", "HEAD")
    settings = [f"branch.{branch}.pushRemote", "remote.pushDefault", f"branch.{branch}.remote"]
    remote = operands[0] if operands else next(filter(None, (ask("config", name) for name in settings)), "origin")
    found["where it is pushed to"] = _of_text(ask("remote", "get-url", "--push", "--all", remote) or remote)
    found["git's settings for pushing"] = _of_text(ask("config", "--get-regexp", _SHAPES_PUSH))
    hook = os.path.join(os.fsdecode(folder), ask("rev-parse", "--git-path", "hooks/pre-push"))
    _file(found, hook, "hooks/pre-push", _Budget())
    patterns: list[str] = []
    sources: list[str] = []
    for refspec in operands[1:]:
        source = refspec.lstrip("+").partition(":")[0]
        if refspec.lstrip("+") == ":":
            patterns.append("refs/heads")
        elif "*" in source:
            patterns.append(source.partition("*")[0].rstrip("/"))
        elif source and source != "tag":
            sources.append(source)
    given = {option.partition("=")[0] for option in options}
    if given & {"--all", "--branches"} or (not operands[1:] and ask("config", "push.default") == "matching"):
        patterns.append("refs/heads")
    if given & {"--tags", "--follow-tags"} or ask("config", "push.followTags") == "true":
        patterns.append("refs/tags")
    if "--mirror" in given or (not operands[1:] and ask("config", "--get-all", f"remote.{remote}.push")):
        patterns.append("refs")
    if not sources and not patterns and not given & {"-d", "--delete"}:
        sources.append("HEAD")
    for source in sources:
        found[f"commit {source}"] = ask("rev-parse", "--verify", "-q", f"{source}") or "none"
    for line in ask("for-each-ref", "--format=%(refname) %(objectname)", *patterns).splitlines() if patterns else ():
        name, _, id = line.rpartition(" ")
        # What the remote was last seen to have is not pushed, and a push changes it.
        if not name.startswith("refs/remotes/"):
            found[f"commit {name}"] = id
    return found


def _of_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
