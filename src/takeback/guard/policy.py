"""What is done about a step of a class: from a verdict and a policy to one act, the checkpoint, and the reason.

    the class of each effect   the user's word, else the default
    rules, hosts               a form of command or a host that the user names, instead of that
    the project                stricter always; looser only where a person trusted it
    protected branches         at least `ask`
    the brake                  at least `hold`, whatever a policy says

The strictest over all effects counts. Pure: the policy is data (`config` reads it), whether a person is there is told.
Does not cover: doing it (`app.guarding`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from takeback.guard.model import Class, Effect, Part, Reason, Verdict, What
from takeback.guard.policy_branches import protected
from takeback.guard.policy_match import fits, is_host, may_be, may_fit
from takeback.guard.policy_model import DEFAULTS, Act, Branches, Decision, Hosts, Level, Policy, Rule, key

__all__ = ["DEFAULTS", "Act", "Branches", "Decision", "Hosts", "Level", "Policy", "Rule", "decide", "key", "of_class"]


@dataclass(frozen=True)
class _Ruling:
    """An act, where it comes from, and what of the step it is for."""

    act: Act
    rule: str
    why: str = ""


def decide(
    verdict: Verdict, policy: Policy, *, attended: bool, raised: Class | None = None, copies: bool = False
) -> Decision:
    """Return what is done with a step.

    `attended`: a person can answer now. `raised`: the class an earlier such step turned out to have. `copies`: whether
    there are copies of this machine to run in; without, what is to run in one waits for a person.
    """
    from takeback.model import Kind

    cls, why = verdict.cls, verdict.why
    ruling = _of_effects(verdict, policy)
    if raised is not None and raised > cls:
        cls, why = raised, f"{why}, but such a step changed more before"
        heavier = _of_one(policy, Effect(raised, What.CODE, why), [])
        ruling = _stricter(ruling, heavier) if ruling.act is not heavier.act else heavier
    for level in policy.levels:
        reached = protected(verdict.part, policy.branch, level.branches)
        if reached:
            ruling = _stricter(ruling, _Ruling(level.branches.act, level.branches.where or level.name, reached))
    if verdict.brake:
        ruling = _stricter(_Ruling(Act.HOLD, "brake", "it reaches for what holds agents back"), ruling)
    act, why = ruling.act, ruling.why or why
    if act is Act.COPY and not copies:
        act, why = Act.HOLD, f"{why}; it is to run in a copy of the machine, and there is no engine for that here"
    if act is Act.ASK and not attended:
        act = Act.HOLD
    kind = {Class.NONE: None, Class.FILES: Kind.FILES}.get(cls, Kind.STATE)
    if cls is Class.FILES and verdict.checkpoint is Kind.STATE:
        kind = Kind.STATE
    return Decision(act, None if act is Act.ALLOW else kind or Kind.FILES, why, ruling.rule)


def of_class(policy: Policy, name: str) -> tuple[Act, str]:
    """Return what is done about a class, and where that is from, when no rule, host or branch is concerned."""
    cls, _, reason = name.partition(".")
    effect = Effect(Class[cls.upper()], What.CODE, "", reason=Reason(reason) if reason else None)
    ruling = _of_one(replace(policy, levels=tuple(replace(one, rules=()) for one in policy.levels)), effect, [])
    return ruling.act, ruling.rule


def _stricter(a: _Ruling, b: _Ruling) -> _Ruling:
    """Return the stricter of two; of equals the first."""
    return b if b.act.strictness > a.act.strictness else a


def _of_effects(verdict: Verdict, policy: Policy) -> _Ruling:
    found = [(effect, _of_one(policy, effect, chain)) for effect, chain in _effects(verdict)]
    # Of equally strict ones the heaviest effect tells why.
    return max(found, key=lambda one: (one[1].act.strictness, one[0].weight))[1]


def _effects(verdict: Verdict) -> Iterator[tuple[Effect, list[tuple[str, ...]]]]:
    """Yield each effect with the commands it is part of, the outermost first; to do nothing is one too."""
    stack: list[tuple[Part, list[tuple[str, ...]]]] = [(verdict.part, [])]
    heaviest = Class.NONE
    while stack:
        part, above = stack.pop()
        chain = [*above, part.words] if part.words else above
        alone = [] if part.parts else [Effect(Class.NONE, What.READ, "reads only")]
        for effect in part.effects or alone:
            heaviest = max(heaviest, effect.cls)
            yield effect, chain
        stack.extend((inner, chain) for inner in reversed(part.parts))
    if heaviest < verdict.cls:
        yield Effect(verdict.cls, What.CODE, verdict.why, reason=verdict.reason), []


def _of_one(policy: Policy, effect: Effect, chain: list[tuple[str, ...]]) -> _Ruling:
    """Return what the policy says of one effect of commands."""
    name = key(effect.cls, effect.reason)
    general = _Ruling(DEFAULTS.get(name, Act.HOLD), "default", effect.why)
    if name in policy.acts:
        general = _Ruling(policy.acts[name], name, effect.why)
    special: _Ruling | None = None
    floor = _Ruling(Act.ALLOW, "default", effect.why)
    for level in policy.levels:
        own = _Ruling(level.acts[name], level.where(name), effect.why) if name in level.acts else None
        if level.trusted:
            now = own or general if special is None else _stricter(special, own or special)
            said, least = _special(level, effect, name, chain, now.act)
            if said is not None:
                # A `deny` that the user spelled out stays, whatever a project is trusted with.
                special = special if special is not None and special.act is Act.DENY else said
            elif special is not None:
                special = now
            general = own or general
        else:
            # All that applies counts, so that nothing in such a file makes anything looser.
            said, least = _special(level, effect, name, chain, Act.ALLOW)
            for one in (own, said):
                floor = _stricter(floor, one) if one is not None else floor
        floor = _stricter(floor, least) if least is not None else floor
    return _stricter(special or general, floor)


def _special(
    level: Level, effect: Effect, name: str, chain: list[tuple[str, ...]], now: Act
) -> tuple[_Ruling | None, _Ruling | None]:
    """Return what rules and hosts of a level say instead of `now`, and what it is at least."""
    said: _Ruling | None = None
    for rule in level.rules:
        if rule.covers(name) and _applies(rule, chain, now):
            one = _Ruling(rule.act, f"{rule.where or level.name}: {rule.text}", effect.why)
            said = one if said is None else _stricter(said, one)
    hosts = level.hosts
    if effect.what not in (What.NETWORK, What.DATABASE) or not effect.target or not (hosts.allow or hosts.deny):
        return said, None
    where = hosts.where or level.name
    if any(is_host(pattern, effect.target) for pattern in hosts.deny):
        return _Ruling(Act.DENY, where, f"{effect.why}; {effect.target} is denied"), None
    if any(may_be(pattern.lower(), effect.target.lower()) for pattern in hosts.deny):
        return said, _Ruling(Act.ASK, where, f"{effect.why}; which host that is cannot be seen, and some are denied")
    if effect.cls is Class.OUTSIDE and any(is_host(pattern, effect.target) for pattern in hosts.allow):
        one = _Ruling(hosts.act, where, effect.why)
        said = one if said is None else _stricter(said, one)
    return said, None


def _applies(rule: Rule, chain: list[tuple[str, ...]], act: Act) -> bool:
    test = may_fit if rule.act.strictness >= act.strictness else fits
    return any(test(rule.match, words) for words in chain)
