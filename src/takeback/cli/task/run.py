"""`takeback task run`: one task from prompt to commit."""

from __future__ import annotations

import sys

import click

from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.task import common
from takeback.cli.values import timeout as as_timeout
from takeback.errors import CannotRead

_DEFAULT = "claude"


@click.command(
    "run",
    cls=options.Command,
    short_help="Do one task: attempts, checks, one commit or none.",
    context_settings={"allow_interspersed_args": True},
    examples=[
        (
            "takeback task run --prompt 'Fix the parser' --verify 'make test' -- my-agent --quiet",
            "any program as agent",
        ),
        ("takeback task run --prompt-file task.md --verify 'npm test' --agent claude --onto night", "lands on `night`"),
        (
            "takeback task run --here --prompt 'Sort imports' --verify true -- isort .",
            "in this very tree, if it is clean",
        ),
    ],
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM ARGS...]")
@click.option("--id", default="", metavar="ID", help="The task's name; else the prompt's first words.")
@click.option("--prompt", metavar="TEXT", help="What is to be done.")
@click.option("--prompt-file", metavar="FILE", help="A file that says what is to be done; `-` is stdin.")
@click.option("--verify", multiple=True, metavar="CMD", help="Shell source that must end with 0; may be given again.")
@click.option("--agent", metavar="NAME", help="Who does it: claude, codex, ..., or `command`, what stands after `--`.")
@click.option("--attempts", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="At most N.")
@click.option(
    "--fresh", is_flag=True, help="Begin each attempt from the tree before the task, not from the last one's."
)
@click.option("--timeout", callback=as_timeout, metavar="T", help="Time of the agent in one attempt: 30m, 2h.")
@click.option(
    "--verify-timeout", callback=as_timeout, metavar="T", help="Time of each check; else as the settings say."
)
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), metavar="X", help="What it may cost in all.")
@click.option("--here", is_flag=True, help="Work in this tree and land on its branch; it must be clean.")
@click.option("--onto", metavar="BRANCH", help="Begin from BRANCH and land on it; else on takeback/ID.")
@click.option("--allow-red", is_flag=True, help="Begin also when a check fails before.")
@click.option("--allow", multiple=True, metavar="FLAG", help="A flag that fails no attempt; may be given again.")
@click.option("-m", "--message", default="", metavar="TEXT", help="The commit's message; else the prompt.")
@options.speaking
def command(
    face: Face,
    argv: tuple[str, ...],
    id: str,
    prompt: str | None,
    prompt_file: str | None,
    verify: tuple[str, ...],
    agent: str | None,
    attempts: int,
    fresh: bool,
    timeout: float | None,
    verify_timeout: float | None,
    budget_usd: float | None,
    here: bool,
    onto: str | None,
    allow_red: bool,
    allow: tuple[str, ...],
    message: str,
) -> int:
    """Let an agent do one task in a worktree of its own, with every check after each attempt.

    A task that passes lands as one commit with its `Task-Id`; one that does not leaves nothing behind but its record,
    in which every attempt is a checkpoint. The exit code is 0 only when it landed.
    """
    from takeback.app.tasks import run_task
    from takeback.tasks.model import Wish

    if (prompt is None) == (prompt_file is None):
        raise click.UsageError("say what is to be done with --prompt or with --prompt-file")
    with options.opened(face) as project:
        wish = Wish(
            id=id, prompt=prompt if prompt is not None else _read(prompt_file or ""), verify=verify,
            agent=agent or ("command" if argv else _DEFAULT), argv=argv, attempts=attempts, fresh=fresh,
            timeout=timeout, check_timeout=verify_timeout or project._config.task.check_timeout, budget_usd=budget_usd,
            here=here, onto=onto, allow_red=allow_red, allow=allow, message=message,
        )  # fmt: skip
        task = common.interruptible(lambda: run_task(project, wish, common.saying(face)), face)
    return common.ended(face, task)


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CannotRead(path=name, why=why) from error
