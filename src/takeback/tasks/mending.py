"""A task's worktree made one of git's again when its own parts of git are gone, broken or another's; its files stay.

    WORKTREE/.git  ──>  REPOSITORY/worktrees/NAME/{HEAD,index,commondir,gitdir,...}

An agent may remove or replace each of these; without them no attempt could be saved or judged.
Does not cover: a worktree whose files are gone (`Job.remake`).
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from takeback.host.usergit import UserGit
from takeback.tasks import ground

_MARK = b"gitdir: "


def mend(git: UserGit, users: UserGit, common: bytes, base: str, trash: bytes, aside: Path) -> str:
    """See that git works in a worktree as it did when the worktree was made; return what was wrong, "" for nothing.

    `git` works in the worktree, `users` in the user's tree. HEAD stays where it is if it can be read, else it is put to
    `base`; a `.git` of the agent's own goes to `aside`. Raises GitFailed.
    """
    wrong = _wrong(git, common)
    if wrong:
        _make_anew(git, users, common, base, trash, aside)
    index = git.path("index")
    if not os.path.isfile(index) or git.finish("ls-files", "--", ":(top,literal).git").code != 0:
        wrong = wrong or "its index could not be read"
        for path in (index, index + b".lock"):
            with suppress(FileNotFoundError):
                os.unlink(path)
        git.run("read-tree", "HEAD")
    return wrong


def _wrong(git: UserGit, common: bytes) -> str:
    asked = git.finish(
        "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir", "HEAD^{commit}"
    )
    lines = asked.out.split(b"\n")
    places = [os.path.realpath(line) for line in lines[:3]]
    if asked.code != 0:
        return "git found no commit there"
    if b"\n" in git.cwd or b"\n" in common:
        return ""
    mine = [os.path.realpath(git.cwd), os.path.realpath(common)]
    if places[:2] != mine or os.path.dirname(places[2]) != os.path.join(mine[1], b"worktrees"):
        return "git took it for another repository's"
    return ""


def _make_anew(git: UserGit, users: UserGit, common: bytes, base: str, trash: bytes, aside: Path) -> None:
    link = os.path.join(git.cwd, b".git")
    folder = _folder(common, link)
    head, was = "", os.fsencode(aside.with_suffix(".was"))
    if folder is not None:
        asked = users.finish("--git-dir", folder, "rev-parse", "-q", "--verify", "HEAD^{commit}")
        head = asked.out.decode().strip() if asked.code == 0 else ""
        shutil.rmtree(was, ignore_errors=True)
        shutil.move(os.fsdecode(folder), os.fsdecode(was))
    if os.path.isdir(link) and not os.path.islink(link):
        shutil.rmtree(aside, ignore_errors=True)
        shutil.move(os.fsdecode(link), aside)
    elif os.path.lexists(link):
        os.unlink(link)
    # Git makes a worktree in an empty folder only: what it makes beside is then of this one.
    above, name = os.path.split(git.cwd)
    beside = os.path.join(above, b".new", name)
    ground.add(users, beside, head or base, trash, checkout=False)
    with open(os.path.join(beside, b".git"), "rb") as file:
        made = os.path.normpath(os.path.join(beside, file.read().removeprefix(_MARK).strip()))
    _write(made + b"/gitdir", link + b"\n")
    _write(link, _MARK + made + b"\n")
    shutil.rmtree(os.path.dirname(beside), ignore_errors=True)
    git.forget_paths()
    _take_over(was, made)
    shutil.rmtree(was, ignore_errors=True)


def _take_over(was: bytes, made: bytes) -> None:
    """Give a worktree's new folder the index and the refs of its own that it had in the one before."""
    if os.path.isfile(was + b"/index"):
        os.replace(was + b"/index", made + b"/index")
    for part in (b"refs/worktree", b"logs/refs/worktree"):
        if os.path.isdir(os.path.join(was, part)):
            shutil.copytree(os.fsdecode(was + b"/" + part), os.fsdecode(made + b"/" + part), dirs_exist_ok=True)


def _folder(common: bytes, link: bytes) -> bytes | None:
    """Return the folder in the repository that belongs to a worktree, by what it says itself."""
    above = os.path.join(common, b"worktrees")
    for name in os.listdir(above) if os.path.isdir(above) else []:
        with suppress(OSError), open(os.path.join(above, name, b"gitdir"), "rb") as file:
            if os.path.normpath(os.path.join(above, name, file.read().strip())) == link:
                return os.path.join(above, name)
    return None


def _write(path: bytes, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
