"""What is done for each class when nothing is set."""

from __future__ import annotations

import pytest

from takeback.guard import Context, classify
from takeback.guard.policy import Act, Policy, decide
from takeback.model import Kind

HERE = Context()


@pytest.mark.parametrize(
    ("source", "act", "kind"),
    [
        ("ls -la", Act.ALLOW, None),
        ("echo x > README.md", Act.CHECKPOINT, Kind.FILES),
        ("rm .env", Act.CHECKPOINT, Kind.STATE),
        ("make test", Act.CHECKPOINT, Kind.STATE),
        ("sudo apt-get install -y jq", Act.CHECKPOINT, Kind.STATE),
        ("rm -rf ~/Documents", Act.ASK, Kind.STATE),
        ("git push origin main", Act.HOLD, Kind.STATE),
    ],
)
def test_the_default_act_and_its_checkpoint(source: str, act: Act, kind: Kind | None) -> None:
    decision = decide(classify(source, HERE), Policy(), attended=True)
    assert (decision.act, decision.kind) == (act, kind)


def test_asking_nobody_is_holding() -> None:
    assert decide(classify("rm -rf ~/Documents", HERE), Policy(), attended=False).act is Act.HOLD


def test_reaching_for_the_brake_is_held_whatever_its_class() -> None:
    verdict = classify("takeback pause", HERE)
    assert verdict.brake
    assert decide(verdict, Policy(), attended=True).act is Act.HOLD


def test_a_command_that_did_more_before_gets_the_heavier_checkpoint() -> None:
    verdict = classify("ls", HERE)
    raised = decide(verdict, Policy(), attended=True, raised=verdict.cls.STATE)
    assert (raised.act, raised.kind) == (Act.CHECKPOINT, Kind.STATE)
