"""A cost is what the published figures of the hosted service say."""

from __future__ import annotations

import pytest

from takeback.errors import UsageError
from takeback.machines.cost import Cost, Prices, Used, cost, dollars


def test_180_cpu_seconds_cost_an_eighth_of_a_cent() -> None:
    assert cost(Used(cpu_s=180)) == Cost(cpu=1250)
    assert dollars(1250) == "$0.0013" or dollars(1250) == "$0.0012"


def test_4_gib_for_3_minutes() -> None:
    assert cost(Used(memory_byte_s=4 * 2**30 * 180)).total == 1500


def test_ten_2_gb_snapshots_for_a_day() -> None:
    day = [Used(stored_byte_s=2 * 10**9 * 86_400)] * 10
    assert cost(day).total == 53_333
    assert dollars(53_333) == "$0.0533"


def test_parts_add_up_and_are_whole_numbers() -> None:
    both = Used(cpu_s=0.1) + Used(memory_byte_s=2**30, sent=5 * 10**9)
    assert cost(both, Prices(sent_gb=20_000)) == Cost(cpu=1, memory=2, sent=100_000)
    assert cost(both, Prices(sent_gb=20_000)).to_dict() == {
        "cpuMicros": 1, "memoryMicros": 2, "storedMicros": 0, "sentMicros": 100_000, "totalMicros": 100_003,
    }  # fmt: skip


def test_small_sums_are_not_called_nothing() -> None:
    assert (dollars(0), dollars(3), dollars(1_500_000)) == ("$0.0000", "$0.000003", "$1.5000")


@pytest.mark.parametrize("table", [{"cpu": 1}, {"cpu_hour": -1}, {"cpu_hour": 1.5}, {"cpu_hour": True}])
def test_a_price_that_is_none_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Prices.of(table)


def test_a_table_changes_only_what_it_names() -> None:
    assert Prices.of({"cpu_hour": 1}) == Prices(cpu_hour=1)
