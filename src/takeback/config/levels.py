"""From the user's file and the project's to one policy: what counts of each, and what a project would loosen.

    user's file                    counts before the defaults
    project's, not trusted         counts where it makes stricter
    project's, trusted             counts before the user's
    either, with a mistake in it   counts where it makes stricter

Does not cover: what is trusted (`config.trust`), or what a policy does (`guard.policy`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from takeback.config.policy import Said
from takeback.guard.policy_model import DEFAULTS, Act, Policy


@dataclass(frozen=True)
class Loosened:
    """One thing a project's policy makes looser than the user has it."""

    what: str
    was: str
    becomes: str
    where: str


def combine(user: Said, project: Said, *, trusted: bool, branch: str | None = None) -> Policy:
    """Return the policy in force; what does not count, and why, is in its notes."""
    trusted = trusted and not project.problems
    notes = [_problem(said, problem) for said in (user, project) for problem in said.problems]
    if not trusted and not project.problems:
        count = len(loosened(user, project))
        if count:
            what = "one thing" if count == 1 else f"{count} things"
            notes.append(
                f"{project.name} would loosen {what} and is not trusted, so only what it makes stricter counts: "
                "look with `takeback policy`, accept with `takeback trust`"
            )
    levels = (
        replace(user.level, trusted=not user.problems),
        replace(project.level, trusted=trusted),
    )
    rollback, on_error, notify = bool(user.rollback_failed), user.on_error or Act.DENY, user.notify or ""
    if user.problems:
        on_error = Act.DENY
    if project.rollback_failed or (trusted and project.rollback_failed is not None):
        rollback = bool(project.rollback_failed)
    if project.on_error is Act.DENY or (trusted and project.on_error is not None):
        on_error = project.on_error or on_error
    if trusted and project.notify is not None:
        notify = project.notify
    return Policy(
        levels=levels,
        branch=branch,
        rollback_failed=rollback,
        on_error=on_error,
        notify=notify,
        notes=tuple(notes),
    )


def loosened(user: Said, project: Said) -> list[Loosened]:
    """Return all that a project's policy makes looser than the user's and the defaults, and so needs trust for."""
    found: list[Loosened] = []
    level = project.level
    # A file with a mistake counts no further than it makes stricter, so the defaults hold below it.
    own = {} if user.problems else user.level.acts
    base = {name: own.get(name, default) for name, default in DEFAULTS.items()}
    for name, act in level.acts.items():
        if act.strictness < base[name].strictness:
            found.append(Loosened(name, base[name].value, act.value, level.where(name)))
    for rule in level.rules:
        reach = [max(act, level.acts.get(name, act), key=lambda one: one.strictness)
                 for name, act in base.items() if rule.covers(name)]  # fmt: skip
        reach += [one.act for one in user.level.rules]
        strictest = max(reach, key=lambda one: one.strictness, default=rule.act)
        if rule.act.strictness < strictest.strictness:
            of = f" (of class {rule.cls})" if rule.cls else ""
            found.append(
                Loosened(f"commands `{rule.text}`{of}", f"up to {strictest.value}", rule.act.value, rule.where)
            )
    hosts = level.hosts
    if hosts.allow and hosts.act.strictness < base["outside"].strictness:
        what = f"what writes to {', '.join(hosts.allow)}"
        found.append(Loosened(what, base["outside"].value, hosts.act.value, hosts.where))
    places = project.places
    if project.on_error is Act.ALLOW and user.on_error is not Act.ALLOW:
        found.append(Loosened("a step when takeback itself fails", "deny", "allow", places["on_error"]))
    if project.rollback_failed is False and user.rollback_failed:
        found.append(Loosened("a failed step under a hook", "goes back", "stays", places["rollback_failed"]))
    if project.notify is not None and project.notify != (user.notify or ""):
        what = "what is run when something is held"
        found.append(Loosened(what, user.notify or "nothing", project.notify or "nothing", places["notify"]))
    return found


def _problem(said: Said, problem: Exception) -> str:
    return f"{problem}; until that is mended, {said.name} can only make stricter"
