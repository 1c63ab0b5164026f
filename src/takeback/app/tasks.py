"""Tasks as users see them: wires settings, project, git, agents and clock, and opens the trees that tasks work in.

Does not cover: doing a task (`takeback.tasks`), or drawing anything (cli).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from takeback.app.finding import below
from takeback.app.project import Project
from takeback.errors import NoCommits
from takeback.files.layout import DataDir
from takeback.host import usergit
from takeback.host.headless import Runner
from takeback.host.usergit import UserGit
from takeback.tasks import agents, blame, revert, run, start, views
from takeback.tasks.blame import Blamed
from takeback.tasks.job import Job, Saver, Tools
from takeback.tasks.model import Task, Wish
from takeback.tasks.record import Tasks
from takeback.tasks.revert import Reverted

Say = Callable[[str], None]


def _silent(_: str) -> None:
    pass


def tools(project: Project, say: Say = _silent) -> Tools:
    """Return what work on a project's tasks needs. Raises NoCommits for a folder that is no repository."""
    place = project._w.place
    if place.common_dir is None:
        raise NoCommits(root=os.fsdecode(place.root))
    env = usergit.environment(os.environ)

    @contextmanager
    def opened(root: bytes) -> Iterator[Saver]:
        if root == place.root:
            yield project
            return
        with Project.open(root) as other:
            yield other

    def forget(root: bytes) -> None:
        DataDir(project._config.data).forget(project._w.project, root)

    def waiting(task: Task) -> list[str]:
        from takeback.app import holding  # takes long to import, and most tasks never ask

        if not (project._w.project.path / "holds").exists():
            return []
        # A step in the task's tree is the task's, whether or not the agent's hook knew its name.
        tree = task.worktree
        return [
            one.id
            for one in holding.list(project)
            if one.state is holding.State.WAITING
            and (one.request.task == task.id or (tree and below(os.fsencode(one.request.cwd), tree)))
        ]

    return Tools(
        git=UserGit(place.root, os.environ), common=place.common_dir, key=project._w.project.key,
        settings=project._config.task, env=env, tasks=Tasks(project._w.project.tasks),
        trash=project._w.project.trash, runner=Runner(), opened=opened, forget=forget, waiting=waiting,
        now_ns=time.time_ns, sleep=time.sleep, say=say,
    )  # fmt: skip


def run_task(project: Project, wish: Wish, say: Say = _silent) -> Task:
    """Do a task to its end and return it.

    Raises UnknownAgent, AgentMissing, NoCheck, RedCheck, SetupFailed and the other refusals before there is a task;
    what a checkpoint, git or a restore raises later leaves a task that can be resumed.
    """
    start.meant(wish)
    agent = agents.named(wish.agent)
    found = tools(project, say)
    agent.program(wish.argv, found.env, os.fsdecode(found.git.cwd), found.runner)
    folder, task = start.begin(found, wish)
    with folder.working("task"):
        say(f"task {task.id}, to land on {task.branch}")
        with closing(Job(found, folder, task)) as job:
            return run.carry_out(job, agent)


def resume_task(project: Project, id: str, say: Say = _silent) -> Task:
    """Go on with a task whose run was ended. Raises UnknownId, Busy, NothingToDo, and what `run_task` raises."""
    found = tools(project, say)
    folder = found.tasks.folder(id)
    with folder.working("task"):
        task = found.tasks.get(id)
        with closing(Job(found, folder, task)) as job:
            return run.resume(job, agents.named(task.wish.agent))


def list_tasks(project: Project) -> list[Task]:
    """Return all tasks of a project, oldest first."""
    return views.listed(tools(project))


def show_task(project: Project, id: str) -> tuple[Task, views.Now]:
    """Return a task and what git says about it now. Raises UnknownId, Damaged."""
    found = tools(project)
    task = views.as_it_stands(found, found.tasks.get(id))
    return task, views.now(found, task)


def revert_task(
    project: Project, id: str, *, dependants: bool, verify: Sequence[str], dry_run: bool, say: Say = _silent
) -> Reverted:
    """Take a landed task back. Raises UnknownId, and what `tasks.revert` raises."""
    found = tools(project, say)
    task = found.tasks.get(id)
    return revert.revert(found, task, dependants=dependants, verify=verify, dry_run=dry_run)


def blame_task(project: Project, cmd: str, timeout: float | None, say: Say = _silent) -> Blamed:
    """Find the task that broke a check. Raises NothingToDo, and what a worktree needs."""
    found = tools(project, say)
    return blame.blame(found, cmd, timeout or found.settings.check_timeout)
