"""What every timeline store promises; subclass and give `store`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st

from takeback.errors import UsageError
from takeback.model import Event, EventKind
from takeback.store.base import TimelineStore
from tests.store.samples import CHECKPOINTS, EVENTS, checkpoint, event


def texts(store: TimelineStore) -> list[str]:
    return [one.text for one in store.events()]


class Conformance:
    @pytest.fixture
    def store(self) -> TimelineStore:
        raise NotImplementedError

    def test_a_new_store_is_empty_and_well(self, store: TimelineStore) -> None:
        assert list(store.events()) == [] and store.last_seq == 0
        assert list(store.checkpoints()) == [] and store.checkpoint("c1") is None
        assert store.get_meta("x") is None
        assert store.verify() == ()
        assert not store.read_only

    def test_events_come_back_as_they_were_in_order(self, store: TimelineStore) -> None:
        for one in EVENTS:
            assert store.append(one) == one
        assert list(store.events()) == list(EVENTS)
        assert list(store.events(after_seq=6)) == list(EVENTS[6:])
        assert store.last_seq == EVENTS[-1].seq

    def test_an_event_without_a_seq_is_given_the_next(self, store: TimelineStore) -> None:
        assert [store.append(event()).seq for _ in range(3)] == [1, 2, 3]
        assert store.append(replace(event(), seq=10)).seq == 10
        assert store.append(event()).seq == 11
        assert [one.seq for one in store.events(after_seq=2)] == [3, 10, 11]

    @pytest.mark.parametrize("seq", [5, 4, 1])
    def test_an_event_never_comes_before_another(self, store: TimelineStore, seq: int) -> None:
        store.append(replace(event(), seq=5))
        with pytest.raises(UsageError, match=f"event {seq} cannot come after event 5"):
            store.append(replace(event(), seq=seq))
        assert store.last_seq == 5

    def test_the_same_event_is_not_added_twice(self, store: TimelineStore) -> None:
        store.append(event(kind=EventKind.STEP, id="s1"))
        with pytest.raises(UsageError, match="the step s1 is in the timeline already"):
            store.append(event(kind=EventKind.STEP, id="s1"))
        store.append(event(kind=EventKind.STEP_END, id="s1"))
        store.append(event(kind=EventKind.PROMPT))
        store.append(event(kind=EventKind.PROMPT))
        assert store.last_seq == 4

    def test_more_events_than_one_page_are_walked_while_others_are_added(self, store: TimelineStore) -> None:
        with store.transaction():
            for number in range(2500):
                store.append(event(str(number)))
        seen = []
        for one in store.events():
            if one.seq == 1:
                store.append(event("2500"))
            seen.append(one.text)
        assert seen == [str(number) for number in range(2501)]

    def test_checkpoints_come_back_as_they_were_by_number(self, store: TimelineStore) -> None:
        for one in (CHECKPOINTS[1], CHECKPOINTS[2], CHECKPOINTS[0]):
            store.put_checkpoint(one)
        assert list(store.checkpoints()) == list(CHECKPOINTS[::-1])
        assert list(store.checkpoints(newest_first=False)) == list(CHECKPOINTS)
        assert list(store.checkpoints("wt-1")) == [CHECKPOINTS[1], CHECKPOINTS[0]]
        assert list(store.checkpoints("wt\udce9", newest_first=False)) == [CHECKPOINTS[2]]
        assert store.checkpoint("c2") == CHECKPOINTS[1]
        assert store.checkpoint("c3") is None

    def test_a_checkpoint_put_twice_is_the_later_one(self, store: TimelineStore) -> None:
        store.put_checkpoint(CHECKPOINTS[0])
        later = replace(CHECKPOINTS[0], worktree="there", files=8)
        store.put_checkpoint(later)
        assert list(store.checkpoints()) == [later]
        assert list(store.checkpoints("wt-1")) == []

    def test_a_checkpoint_without_a_number_is_refused(self, store: TimelineStore) -> None:
        for id in ("c", "12", "", "cé", "c1x", "c" + "9" * 16):
            with pytest.raises(UsageError, match="is not an id"):
                store.put_checkpoint(replace(CHECKPOINTS[0], id=id))
        assert list(store.checkpoints()) == []

    def test_forgotten_checkpoints_are_gone_and_their_ids_are_not_used_again(self, store: TimelineStore) -> None:
        for number in (1, 2, 3):
            store.put_checkpoint(checkpoint(number))
        assert store.forget_checkpoints(["c3", "c1", "c99"]) == 2
        assert [one.id for one in store.checkpoints()] == ["c2"]
        assert store.next_number("c") == 4

    def test_checkpoints_may_be_forgotten_while_they_are_walked(self, store: TimelineStore) -> None:
        for number in range(1, 6):
            store.put_checkpoint(checkpoint(number))
        seen = []
        for one in store.checkpoints():
            store.forget_checkpoints([one.id])
            seen.append(one.id)
        assert seen == ["c5", "c4", "c3", "c2", "c1"]

    def test_numbers_count_up_apart_for_each_prefix(self, store: TimelineStore) -> None:
        assert [store.next_number("c"), store.next_number("c"), store.next_number("s")] == [1, 2, 1]
        for prefix in ("", "1", "c1", "é"):
            with pytest.raises(UsageError):
                store.next_number(prefix)

    def test_numbers_seen_in_ids_are_not_given_again(self, store: TimelineStore) -> None:
        store.append(event(kind=EventKind.STEP, id="s41"))
        store.append(event(kind=EventKind.STEP, id="s7"))
        store.append(event(id="not an id"))
        assert store.next_number("s") == 42

    def test_settings_of_the_store_keep_any_text(self, store: TimelineStore) -> None:
        store.set_meta("roöt\udcff", "one")
        store.set_meta("roöt\udcff", "\ud800")
        store.set_meta("other", "")
        assert store.get_meta("roöt\udcff") == "\ud800"
        assert store.get_meta("other") == ""

    def test_a_transaction_that_raises_leaves_nothing(self, store: TimelineStore) -> None:
        store.append(event("kept"))
        with pytest.raises(KeyError), store.transaction():
            store.append(event("lost"))
            store.put_checkpoint(checkpoint(1))
            store.set_meta("x", "y")
            store.next_number("c")
            assert store.last_seq == 2 and store.get_meta("x") == "y"
            raise KeyError
        assert texts(store) == ["kept"]
        assert store.checkpoint("c1") is None and store.get_meta("x") is None and store.next_number("c") == 1

    def test_an_inner_transaction_that_raises_leaves_the_outer_one(self, store: TimelineStore) -> None:
        with store.transaction():
            store.append(event("one"))
            with pytest.raises(KeyError), store.transaction():
                store.append(event("lost"))
                raise KeyError
            with store.transaction():
                store.append(event("two"))
            with pytest.raises(UsageError):
                store.append(replace(event(), seq=1))
            store.append(event("three"))
        assert texts(store) == ["one", "two", "three"]
        assert [one.seq for one in store.events()] == [1, 2, 3]

    def test_an_outer_transaction_that_raises_takes_the_inner_one_with_it(self, store: TimelineStore) -> None:
        with pytest.raises(KeyError), store.transaction():
            with store.transaction():
                store.append(event("lost"))
            raise KeyError
        assert texts(store) == []

    def test_closing_twice_is_allowed(self, store: TimelineStore) -> None:
        store.close()
        store.close()


PLANS = st.lists(st.tuples(st.sampled_from(["append", "put", "forget", "number", "fail"]), st.integers(1, 9)))


def agrees_with_a_list_and_a_set(store: TimelineStore, plan: list[tuple[str, int]]) -> None:
    """Carry out a plan; the store may hold something already."""
    log: list[Event] = list(store.events())
    known = {one.id for one in store.checkpoints()}
    given_out: set[int] = set()
    for what, number in plan:
        if what == "append":
            log.append(store.append(event(str(number))))
        elif what == "put":
            store.put_checkpoint(checkpoint(number))
            known.add(f"c{number}")
        elif what == "forget":
            assert store.forget_checkpoints([f"c{number}"]) == (f"c{number}" in known)
            known.discard(f"c{number}")
        elif what == "number":
            fresh = store.next_number("c")
            assert fresh not in given_out and f"c{fresh}" not in known
            given_out.add(fresh)
        else:
            with pytest.raises(KeyError), store.transaction():
                store.append(event("lost"))
                store.forget_checkpoints(list(known))
                raise KeyError
    assert list(store.events()) == log
    assert {one.id for one in store.checkpoints()} == known
