"""`bench/files` runs to its end and prints every row; `bench/generate.py` makes the same tree each time.

Does not cover: any figure. `bench/peers` needs a package index and is not run by tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run(*argv: str, tmp_path: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_the_generated_repository_is_the_same_every_time(tmp_path: Path) -> None:
    heads = set()
    for name in ("one", "two"):
        assert run(str(BENCH / "generate.py"), str(tmp_path / name), "120", tmp_path=tmp_path) == "120 files\n"
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path / name, capture_output=True, check=True)
        heads.add(head.stdout)
    assert len(heads) == 1
