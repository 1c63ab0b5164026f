"""What follows from two files: no project loosens anything without trust, and a mistake loosens nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.config.levels import combine, loosened
from takeback.config.policy import Said
from takeback.errors import BadSetting
from takeback.guard import Context, Verdict, classify
from takeback.guard.policy import DEFAULTS, Act, Branches, Hosts, Level, Policy, Rule, decide

SOURCES = (
    "ls",
    "touch a",
    "rm .env && ls",
    "make test",
    "sudo apt-get install jq",
    "rm -rf ~/Documents",
    "git push origin feature/x",
    "git push --force origin main",
    "git reset --hard HEAD~1",
    "git commit -m x && git push",
    "curl -d x https://a.example.com",
    "curl https://$X.example.com",
    "psql -h b.example.com -c 'drop table x'",
    "git $X",
    "takeback trust",
)
VERDICTS = [classify(source, Context()) for source in SOURCES]
FORMS = (
    "ls",
    "git",
    "git push",
    "git push **",
    "git push origin feature/*",
    "touch a",
    "rm **",
    "curl **",
    "make *",
    "takeback **",
    "git commit -m x",
)

acts = st.sampled_from(list(Act))
hosts = st.lists(st.sampled_from(["*", "a.example.com", "*.example.com"]), max_size=2).map(tuple)
names = st.lists(st.sampled_from(["main", "*", "x"]), max_size=2).map(tuple)
rules = st.builds(
    lambda form, act, cls: Rule(tuple(form.split()), act, cls),
    st.sampled_from(FORMS),
    acts,
    st.sampled_from(["", "outside", "machine", "none"]),
)
levels = st.builds(
    lambda given, listed, allow, deny, act, protected, commits: Level(
        "file", given, tuple(listed), Hosts(allow, deny, act), Branches(protected, commits)
    ),
    st.dictionaries(st.sampled_from(list(DEFAULTS)), acts, max_size=4),
    st.lists(rules, max_size=4),
    hosts,
    hosts,
    acts,
    names,
    st.booleans(),
)
said = st.builds(
    lambda level, rollback, on_error, notify: Said(Path("x.toml"), level, rollback, on_error, notify, places=PLACES),
    levels,
    st.sampled_from([None, True, False]),
    st.sampled_from([None, Act.ALLOW, Act.DENY]),
    st.sampled_from([None, "", "a", "b"]),
)
PLACES = dict.fromkeys(("rollback_failed", "on_error", "notify"), "x.toml, line 1")
NOTHING = Said(Path("y.toml"), Level("y.toml"))
MISTAKE = BadSetting(file="x.toml", line=1, problem="unknown key `x`", nearest="")


def strictness(verdict: Verdict, policy: Policy) -> int:
    return decide(verdict, policy, attended=True, copies=True).act.strictness


def check(looser: Policy, stricter: Policy) -> None:
    for source, verdict in zip(SOURCES, VERDICTS, strict=True):
        assert strictness(verdict, stricter) >= strictness(verdict, looser), source


@given(said, said)
@settings(max_examples=60, deadline=None)
def test_no_project_loosens_anything_without_trust(user: Said, project: Said) -> None:
    without = combine(user, NOTHING, trusted=False, branch="main")
    policy = combine(user, project, trusted=False, branch="main")
    check(without, policy)
    assert policy.on_error is Act.DENY or without.on_error is Act.ALLOW
    assert policy.notify == without.notify
    assert policy.rollback_failed or not without.rollback_failed


@given(said, said, rules)
@settings(max_examples=60, deadline=None)
def test_a_rule_more_in_a_file_that_is_not_trusted_never_loosens(user: Said, project: Said, rule: Rule) -> None:
    more = replace(project, level=replace(project.level, rules=(rule, *project.level.rules)))
    check(combine(user, project, trusted=False, branch="x"), combine(user, more, trusted=False, branch="x"))


@given(said, said, rules, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_rule_more_in_the_users_file_loosens_no_further_than_it_says(
    user: Said, project: Said, rule: Rule, trusted: bool
) -> None:
    more = replace(user, level=replace(user.level, rules=(*user.level.rules, rule)))
    before = combine(user, project, trusted=trusted, branch="x")
    after = combine(more, project, trusted=trusted, branch="x")
    for source, verdict in zip(SOURCES, VERDICTS, strict=True):
        assert strictness(verdict, after) >= min(strictness(verdict, before), rule.act.strictness), source


@given(said, said)
@settings(max_examples=60, deadline=None)
def test_what_is_said_to_loosen_nothing_is_the_same_with_trust(user: Said, project: Said) -> None:
    if not loosened(user, project):
        check(combine(user, NOTHING, trusted=False, branch="x"), combine(user, project, trusted=True, branch="x"))
    else:
        assert any("takeback trust" in note for note in combine(user, project, trusted=False).notes)
        assert not combine(user, project, trusted=True).notes


@given(said, said, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_file_with_a_mistake_loosens_nothing_not_even_when_it_is_the_users_or_was_trusted(
    user: Said, project: Said, users: bool
) -> None:
    broken = replace(user if users else project, problems=(MISTAKE,))
    if users:
        check(Policy(), combine(broken, NOTHING, trusted=False, branch="x"))
        assert combine(broken, NOTHING, trusted=False).on_error is Act.DENY
    else:
        policy = combine(user, broken, trusted=True, branch="x")
        check(combine(user, NOTHING, trusted=False, branch="x"), policy)
        assert any("unknown key `x`" in note for note in policy.notes)


@given(said, said)
@settings(max_examples=60, deadline=None)
def test_nothing_loosens_the_brake(user: Said, project: Said) -> None:
    assert strictness(VERDICTS[-1], combine(user, project, trusted=True)) >= Act.HOLD.strictness


def test_trust_lets_a_project_say_what_is_run_on_a_hold_and_on_an_error() -> None:
    project = Said(Path("x.toml"), Level("x"), False, Act.ALLOW, "beep", places=PLACES)
    user = replace(NOTHING, rollback_failed=True)
    for trusted, expected in ((False, (True, Act.DENY, "")), (True, (False, Act.ALLOW, "beep"))):
        policy = combine(user, project, trusted=trusted)
        assert (policy.rollback_failed, policy.on_error, policy.notify) == expected
    assert [one.becomes for one in loosened(user, project)] == ["allow", "stays", "beep"]


def test_what_a_project_loosens_is_told_with_its_place() -> None:
    level = Level(
        ".takeback.toml",
        {"outside": Act.ASK, "files": Act.ASK},
        (Rule(("npm", "publish"), Act.CHECKPOINT, "outside", "line 7"), Rule(("rm",), Act.DENY, "", "line 9")),
        Hosts(("a.example",), (), Act.ALLOW, "line 3"),
    )
    found = loosened(NOTHING, Said(Path(".takeback.toml"), level))
    assert [(one.what, one.was, one.becomes, one.where) for one in found] == [
        ("outside", "hold", "ask", ".takeback.toml"),
        ("commands `npm publish` (of class outside)", "up to hold", "checkpoint", "line 7"),
        ("what writes to a.example", "hold", "allow", "line 3"),
    ]
