"""`bench/files` and `bench/machines` run to their end and print every row; `bench/generate.py` always makes one tree.

Does not cover: any figure. `bench/peers` needs a package index and is not run by tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import machines

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run(*argv: str, tmp_path: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_file_benchmarks_print_a_row_for_each_target(tmp_path: Path) -> None:
    said = run(str(BENCH / "files"), "--quick", "--files", "300", "--ignored", "200", "--runs", "1", tmp_path=tmp_path)
    rows = [line for line in said.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 11
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 7 and all(cells[:6]), row
        assert cells[6] in ("ok", "OVER")
    assert "300 files" in said.splitlines()[0]
    assert list(tmp_path.glob("takeback-bench-*")) == []


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="bare runsc needs root")
def test_the_machine_benchmarks_print_the_rows_asked_for_and_leave_nothing(tmp_path: Path) -> None:
    if machines.why_not():
        pytest.skip(machines.why_not())
    place = machines.setup().machines.root
    machines.ready()
    before = set(os.listdir("/dev/shm"))
    asked = ("--quick", "--machines", str(place), "--only", "fork")
    said = run(str(BENCH / "machines"), *asked, tmp_path=tmp_path)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line[:1] == "|"][2:]
    assert [row[0] for row in rows] == ["fork, small", "the same, back to back"]
    for row in rows:
        assert len(row) == 7 and all(row[:6]) and (row[6] in ("ok", "OVER")) == (row[5] != "-"), row
    assert list(tmp_path.glob("takeback-bench-*")) == []
    assert {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("bench-machines-")} == set()


def test_the_generated_repository_is_the_same_every_time(tmp_path: Path) -> None:
    heads = set()
    for name in ("one", "two"):
        assert run(str(BENCH / "generate.py"), str(tmp_path / name), "120", tmp_path=tmp_path) == "120 files\n"
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path / name, capture_output=True, check=True)
        heads.add(head.stdout)
    assert len(heads) == 1


def test_a_working_day_is_hardly_interrupted_and_never_refused(tmp_path: Path) -> None:
    said = run(str(BENCH / "guard"), "--day", tmp_path=tmp_path)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line[:1] == "|"][2:]
    assert [row[0] for row in rows] == ["there", "away"]
    for _, commands, runs, asked, held, _, refused in rows:
        assert int(commands) >= 300
        assert 0 < int(asked) + int(held) <= int(commands) * 0.02
        assert int(runs) + int(asked) + int(held) == int(commands) and refused == "0"
    assert "hold: git push   (git push leaves this machine)" in said.splitlines()


def test_a_day_that_is_interrupted_too_often_fails(tmp_path: Path) -> None:
    (tmp_path / "day.txt").write_text("# one\nls\n\ngit push\ncat <<E⏎x⏎E\n")
    with pytest.raises(AssertionError):
        run(str(BENCH / "guard"), "--day", "--commands", str(tmp_path / "day.txt"), tmp_path=tmp_path)


def test_the_guard_benchmark_prints_a_row_for_all_and_for_each_family(tmp_path: Path) -> None:
    case = {"id": "x-1", "command": "git push", "expected": "outside"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(case) + "\n" + json.dumps({**case, "id": "x-2"}) + "\n")
    said = run(str(BENCH / "guard"), "--own", "--cases", str(tmp_path), tmp_path=tmp_path)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line[:1] == "|"][2:]
    assert [row[:4] for row in rows if row[1] == "2"] == [
        [name, "2", "100.0%", "0.0%"] for name in ("takeback", "takeback, mine")
    ]
    assert list(tmp_path.glob("takeback-bench-*")) == []


@pytest.mark.long
def test_the_task_benchmark_prints_its_row(tmp_path: Path) -> None:
    said = run(str(BENCH / "tasks"), "--files", "200", "--runs", "1", tmp_path=tmp_path)
    (row,) = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line[:1] == "|"][
        2:
    ]
    assert len(row) == 7 and all(row[:6]) and row[6] in ("ok", "OVER")
    assert list(tmp_path.glob("takeback-bench-*")) == []
