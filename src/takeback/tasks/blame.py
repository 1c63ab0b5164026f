"""Which task broke a check: bisection over a branch's commits in a scratch worktree, by exit codes alone.

Does not cover: taking it back (`revert`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from takeback.errors import NothingToDo
from takeback.host.usergit import UserGit
from takeback.tasks import branches, scratch
from takeback.tasks.checks import Checker
from takeback.tasks.job import Tools


@dataclass
class Blamed:
    """The first commit with which a check fails, and the task it belongs to (empty: none, a person's commit)."""

    commit: str
    subject: str
    task: str = ""
    revert: str = ""
    branch: str = ""
    tests: list[tuple[str, int]] = field(default_factory=list)  # commit, exit code


def blame(tools: Tools, cmd: str, timeout: float) -> Blamed:
    """Find the first commit after which `cmd` fails, on the branch that is out, back to before its first task.

    Raises NothingToDo when it passes now, when it failed before the first task, or when there is no task.
    """
    git = tools.git
    tip = git.commit("HEAD")
    known = {one.commit: one for one in branches.landed(git, tip)} if tip else {}
    if not known:
        where = branches.current(git) or "HEAD"
        raise NothingToDo(sentence=f"no task has landed on {where}", next="switch to the branch that tasks landed on")
    first = list(known)[-1]
    points = _points(git, f"{first}^", tip)
    checker = tools.checker("blame", timeout)
    # Commits that follow one another within a second would be tried with the bytecode of the one before: Python goes by
    # time in seconds and size, and what git ignores stays in the tree, for the set-up's sake.
    checker = replace(checker, env={**checker.env, "PYTHONDONTWRITEBYTECODE": "1"})
    tests: list[tuple[str, int]] = []
    with scratch.at(tools, tip, id="blame") as tree:
        test = _Test(tree, checker, cmd, tools, tests)
        if test.passes(tip):
            raise NothingToDo(sentence=f"`{cmd}` passes at {tip[:12]}, so nothing broke it", next="takeback tasks")
        if not points or not test.passes(f"{first}^"):
            raise NothingToDo(
                sentence=f"`{cmd}` failed before the first task already, at the commit before {first[:12]}",
                next="git bisect goes further back",
            )
        bad = test.first_bad(points)
        # The tasks of a merged branch are behind the merge.
        while bad not in known and (inside := _inside(git, bad)):
            found = test.first_bad([*inside, bad])
            if found == bad:
                break
            bad = found
    subject = git.line("log", "-1", "--format=%s", bad)
    result = Blamed(bad, subject, branch=branches.current(git), tests=tests)
    if bad in known:
        result.task = known[bad].task
        whole = f"git revert {bad[:12]}" if known[bad].squashed else ""
        result.revert = whole or f"takeback revert {result.task}"
    return result


def _points(git: UserGit, good: str, bad: str) -> list[str]:
    return git.run("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").decode().split()


def _inside(git: UserGit, merge: str) -> list[str]:
    """Return the commits a merge brought, oldest first; none for what is no merge."""
    if not git.commit(f"{merge}^2"):
        return []
    return git.run("rev-list", "--topo-order", "--reverse", f"{merge}^1..{merge}^2").decode().split()


@dataclass
class _Test:
    git: UserGit
    checker: Checker
    cmd: str
    tools: Tools
    tests: list[tuple[str, int]]

    def passes(self, rev: str) -> bool:
        """Whether the check passes at a commit; each commit is tried once."""
        commit = self.git.commit(rev)
        for done, code in self.tests:
            if done == commit:
                return code == 0
        self.git.run("checkout", "-q", "--force", "--detach", commit)
        self.git.run("clean", "-q", "-fd")
        output = self.tools.tasks.path.parent / "scratch" / "blame.out"
        check = self.checker.one(self.cmd, self.git.cwd, output, task="blame")
        self.tests.append((commit, check.exit))
        self.tools.say(f"{commit[:12]}: {'passes' if check.exit == 0 else 'fails'}")
        return check.exit == 0

    def first_bad(self, points: list[str]) -> str:
        """Return the first of `points` (the last is known to be bad) with which the check fails."""
        low, high = 0, len(points) - 1
        while low < high:
            middle = (low + high) // 2
            if self.passes(points[middle]):
                low = middle + 1
            else:
                high = middle
        return points[high]
