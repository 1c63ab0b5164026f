"""Chains of remembered steps of real machines: back, forward, branches, and other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from takeback.errors import NothingToDo, StepNotFound, UsageError
from takeback.machines.client.chain import Chain
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from takeback.machines.client.trial import try_in_copy
from tests.machines.client.conftest import World


@pytest.fixture
def box(world: World) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, name="chained", disk="layers") as made:
        yield made
    for one in Snapshots(world.client).list():
        Snapshots(world.client).delete(one["id"])


def steps(box: Sandbox) -> str:
    return box.exec("cat steps; kill -0 $(cat pid) && echo alive").stdout


def grown(box: Sandbox, count: int) -> Chain:
    chain = Chain(box)
    box.files.write("/workspace/pid", str(box.spawn("exec sleep 100000").info["pid"]))
    for number in range(1, count + 1):
        box.exec(f"echo {number} >> steps")
        assert chain.remember(f"step {number}").number == number
    return chain


def test_five_steps_back_to_the_third_a_branch_and_forward_again(world: World, box: Sandbox) -> None:
    chain = grown(box, 5)
    id = box.id
    assert chain.at is not None and chain.at.number == 5
    chain.go_back_to(3)
    assert box.id == id and steps(box) == "1\n2\n3\nalive\n" and chain.at.number == 3
    box.exec("echo other >> steps")
    branch = chain.remember("other way")
    assert (branch.number, branch.parent) == (6, chain.steps[2].id)
    assert chain.show() == ("1 step 1\n2 step 2\n3 step 3\n├─ 4 step 4\n│  5 step 5\n└─ 6 other way  <- here")
    chain.go_back_to("step 5")
    assert steps(box) == "1\n2\n3\n4\n5\nalive\n" and "5 step 5  <- here" in chain.show()
    chain.go_back_to(branch)
    assert steps(box) == "1\n2\n3\nother\nalive\n"

    # Another process goes on with it.
    source = (
        "import sys; from pathlib import Path; from takeback.machines.client.connect import Client\n"
        "from takeback.machines.client.chain import Chain; from takeback.machines.client.sandbox import Sandbox\n"
        "box = Sandbox.connect(sys.argv[2], client=Client(Path(sys.argv[1])))\n"
        "chain = Chain(box); print(chain.at.number); chain.go_back_to(2); chain.remember('theirs')\n"
    )
    done = subprocess.run([sys.executable, "-c", source, str(world.data), box.id], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("6\n", "")
    assert [link.step for link in chain.steps][-1] == "theirs" and steps(box) == "1\n2\nalive\n"
    assert chain.at is not None and chain.at.parent == chain.steps[1].id

    chain.drop("step 4")
    assert [link.number for link in chain.steps] == [1, 2, 3, 5, 6, 7]
    with pytest.raises(StepNotFound):
        chain.go_back_to("step 4")
    chain.drop()
    assert chain.steps == [] and chain.show() == "" and steps(box) == "1\n2\nalive\n"
    with pytest.raises(NothingToDo):
        chain.drop()


def test_a_chain_goes_on_with_the_copy_that_was_kept(world: World, box: Sandbox) -> None:
    chain = grown(box, 2)
    trial = try_in_copy(box, "echo tried >> steps")
    assert trial.passed and chain.sandbox is trial.kept
    link = chain.remember("tried")
    assert link.parent == chain.steps[1].id
    chain.go_back_to(1)
    assert steps(trial.kept) == "1\nalive\n"
    assert Chain(trial.kept).show() == chain.show()
    assert [one["id"] for one in trial.kept.snapshots() if "takeback.step" in one["labels"]] == [
        one.id for one in reversed(chain.steps)
    ]
    text = str(Snapshots(world.client).tree())
    assert text.startswith("chained ") and "└─ " in text and "step 2" in text and "tried" in text


def test_a_copy_has_no_part_in_the_chain_of_its_source(world: World, box: Sandbox) -> None:
    box.update(labels={"team": "x"})
    chain = grown(box, 3)
    drawn = chain.show()
    plain = box.snapshot()
    assert plain["labels"] == {"team": "x"} and chain.show() == drawn
    copies = [box.fork(), Sandbox.create(client=world.client, snapshot=chain.steps[1].id)]
    copies.append(Sandbox.create(client=world.client, snapshot=plain["id"]))
    assert [one.info["labels"] for one in copies] == [{"team": "x"}, {}, {"team": "x"}]  # type: ignore[union-attr]
    for copy in copies:
        assert isinstance(copy, Sandbox)
        theirs = Chain(copy, keep=1)
        assert theirs.steps == [] and theirs.at is None
        for number in (1, 2):
            theirs.remember(f"theirs {number}")
        theirs.drop()
        copy.delete()
    assert chain.show() == drawn
    assert steps(chain.go_back_to(1)) == "1\nalive\n"
    # Whoever takes the sandbox's place has its chain.
    heir = box.fork()
    assert isinstance(heir, Sandbox) and Chain(heir).steps == []
    box.replace_with(heir)
    assert Chain(heir).show() == chain.show() == drawn.replace("  <- here", "").replace("step 1", "step 1  <- here")


def test_only_so_many_steps_are_kept_and_odd_ones_are_refused(box: Sandbox) -> None:
    chain = Chain(box, keep=2, retention_days=3)
    for number in range(3):
        link = chain.remember(f"{number} " + "x" * 300)
    assert [one.number for one in chain.steps] == [2, 3]
    assert link.snapshot["retentionDays"] == 3 and link.step.endswith("...")
    chain.go_back_to(2)
    with pytest.raises(UsageError):
        Chain(box, keep=0)
    with pytest.raises(StepNotFound):
        chain.drop(1)
    chain.drop(2)
    assert chain.at is None
