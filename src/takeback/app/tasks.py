"""Tasks as users see them: wires settings, project, git, agents and clock, and opens the trees that tasks work in.

Does not cover: doing a task (`takeback.tasks`), or drawing anything (cli).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from takeback.app.project import Project
from takeback.errors import NoCommits
from takeback.files.layout import DataDir
from takeback.host import usergit
from takeback.host.headless import Runner
from takeback.host.usergit import UserGit
from takeback.tasks import agents, run, start
from takeback.tasks.job import Job, Saver, Tools
from takeback.tasks.model import Task, Wish
from takeback.tasks.record import Tasks

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

    return Tools(
        git=UserGit(place.root, os.environ), common=place.common_dir, key=project._w.project.key,
        settings=project._config.task, env=env, tasks=Tasks(project._w.project.tasks), runner=Runner(), opened=opened,
        forget=forget, now_ns=time.time_ns, sleep=time.sleep, say=say,
    )  # fmt: skip


def run_task(project: Project, wish: Wish, say: Say = _silent) -> Task:
    """Do a task to its end and return it.

    Raises UnknownAgent, AgentMissing, NoCheck, RedCheck, SetupFailed and the other refusals before there is a task;
    what a checkpoint, git or a restore raises later leaves a task that can be resumed.
    """
    agent = agents.named(wish.agent)
    found = tools(project, say)
    agent.program(wish.argv, found.env, os.fsdecode(found.git.cwd), found.runner)
    folder, task = start.begin(found, wish)
    with folder.working("task"):
        say(f"task {task.id}, to land on {task.branch}")
        return run.carry_out(Job(found, folder, task), agent)


def resume_task(project: Project, id: str, say: Say = _silent) -> Task:
    """Go on with a task whose run was ended. Raises UnknownId, Busy, NothingToDo, and what `run_task` raises."""
    found = tools(project, say)
    folder = found.tasks.folder(id)
    with folder.working("task"):
        task = found.tasks.get(id)
        return run.resume(Job(found, folder, task), agents.named(task.wish.agent))
