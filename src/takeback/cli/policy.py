"""`takeback policy`: what is done about each class of step here, and where that is from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.trust import lines

if TYPE_CHECKING:
    from takeback.guard.policy import Level


@click.command(
    "policy",
    cls=options.Command,
    short_help="What is done about each class of step here, and why.",
    examples=[
        ("takeback policy", "the policy in force, each line with where it is from"),
        ("takeback policy --json", "the same for programs"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """Show the policy in force: the defaults, your config.toml, and this project's .takeback.toml.

    What does not count is marked, with the reason. The exit code is 1 when a file has a mistake in it.
    """
    from takeback.app import trusting
    from takeback.guard.policy import DEFAULTS, of_class

    review = trusting.review(face.project)
    found, policy = review.policies, review.policies.policy
    problems = [*found.user.problems, *found.project.problems]
    acts = [dict(zip(("name", "act", "from"), (name, *of_class(policy, name)), strict=True)) for name in DEFAULTS]
    said = [row for level in policy.levels for row in _rows(level)]
    document = documents.document(
        root=found.root,
        trusted=found.trusted and not problems,
        acts=acts,
        rules=said,
        rollback_failed=policy.rollback_failed,
        on_error=policy.on_error.value,
        notify=policy.notify,
        loosened=[dataclasses.asdict(one) for one in review.loosened],
        notes=list(policy.notes),
        problems=[{"message": str(problem), "hint": problem.hint_text} for problem in problems],
    )
    face.answer(document)
    for row in acts:
        face.data(printable(f"{row['name']:<18}{row['act']:<12}{row['from']}"))
    for row in said:
        mark = "" if row["counts"] == "always" else "  (only where it is stricter)"
        name = f"{row['kind']} {row['match']}" + (f" [{row['class']}]" if row["class"] else "")
        face.data(printable(f"{name}  {row['act']}  {row['from']}{mark}"))
    for name, value in (
        ("rollback_failed", str(policy.rollback_failed).lower()),
        ("on_error", policy.on_error.value),
        ("notify", policy.notify),
    ):
        if value:
            face.data(printable(f"{name:<18}{value}"))
    if review.needs_trust and not problems:
        face.say()
        face.say(f"{found.project.name} is not trusted; it would loosen:")
        for line in lines(review.loosened):
            face.say(f"  {line}")
    for problem in problems:
        face.note(printable(f"{problem}; {problem.hint_text}"))
    for note in policy.notes if not problems else ():
        face.note(printable(note))
    return 1 if problems else 0


def _rows(level: Level) -> list[dict[str, Any]]:
    """Return the rules, hosts and branches of one file, each as a row of one shape."""
    counts = "always" if level.trusted else "stricter"
    rows: list[tuple[str, str, str, str, str, str]] = []
    for rule in level.rules:
        rows.append(("command", rule.text, rule.cls, rule.act.value, rule.where, counts))
    hosts, branches = level.hosts, level.branches
    rows += [("host", one, "outside", hosts.act.value, hosts.where, counts) for one in hosts.allow]
    rows += [("host", one, "", "deny", hosts.where, "always") for one in hosts.deny]
    kind = "branch, also commits," if branches.commits else "branch"
    rows += [(kind, one, "", branches.act.value, branches.where, "always") for one in branches.protected]
    return [dict(zip(("kind", "match", "class", "act", "from", "counts"), row, strict=True)) for row in rows]
