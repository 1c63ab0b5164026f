"""The log of decisions stays small and readable."""

from __future__ import annotations

from pathlib import Path

from takeback.machines.network.log import DecisionLog, Entry


def entry(id: int, **more: object) -> Entry:
    return Entry(**{"id": id, "time": 1.5, "method": "CONNECT", "host": "a.test", "port": 443, "allowed": True,
                    "code": "allowed", "why": "the internet is on", **more})  # type: ignore[arg-type]  # fmt: skip


def test_an_end_is_put_to_its_decision(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log")
    log.add(entry(log.next_id(), step="make"))
    log.add(entry(log.next_id(), allowed=False))
    log.end(1, up=10, down=20, seconds=0.5, ended="closed")
    first, second = log.entries()
    assert (first.up, first.down, first.seconds, first.ended, first.step) == (10, 20, 0.5, "closed", "make")
    assert second.up is None and log.entries(1) == [second]


def test_the_file_is_bounded_and_numbers_go_on(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log", max_bytes=20_000)
    for _ in range(2000):
        log.add(entry(log.next_id(), host="x" * 200))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 21_000
    assert log.entries()[-1].id == 2000
    assert DecisionLog(tmp_path / "log").next_id() == 2001


def test_half_a_line_and_lines_of_another_version_are_skipped(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log")
    log.add(entry(1))
    with open(tmp_path / "log", "a") as file:
        file.write('{"id":2,"unknown":1}\n[]\n{"end":7}\n{"id":3,"ti')
    assert [one.id for one in log.entries()] == [1]


def test_a_folder_that_is_gone_loses_the_log_and_nothing_else(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "gone" / "log")
    log.add(entry(1))
    assert log.entries() == []
