from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from takeback.errors import UsageError
from takeback.store.base import TimelineStore, split_id
from takeback.store.sqlite import SqliteStore
from tests.store.conformance import PLANS, Conformance, agrees_with_a_list_and_a_set
from tests.store.plain import PlainStore


class TestPlainLists(Conformance):
    @pytest.fixture
    def store(self) -> TimelineStore:
        return PlainStore()


class TestSqlite(Conformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[TimelineStore]:
        path = tmp_path / "timeline.sqlite"
        store = SqliteStore(path)
        yield store
        store.close()
        with SqliteStore(path, create=False) as again:
            assert again.verify() == ()


@given(plan=PLANS)
@settings(deadline=None)
def test_any_sequence_on_plain_lists_agrees_with_a_list_and_a_set(plan: list[tuple[str, int]]) -> None:
    agrees_with_a_list_and_a_set(PlainStore(), plan)


@given(plan=PLANS)
@settings(max_examples=50, deadline=None)
def test_any_sequence_on_sqlite_agrees_with_a_list_and_a_set(plan: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as place, SqliteStore(Path(place) / "timeline.sqlite") as store:
        agrees_with_a_list_and_a_set(store, plan)


def test_an_id_is_a_letter_and_a_number() -> None:
    assert split_id("c12") == ("c", 12)
    for wrong in ("", "c", "12", "c 1", "ç1", "c1c", "²2"):
        with pytest.raises(UsageError):
            split_id(wrong)
