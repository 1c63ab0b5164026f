"""Which platform programs run on, with engines that fail or hang on some."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.errors import EngineFailed
from takeback.machines.engines.gvisor import checks, platforms
from tests.machines.engines.conftest import runsc

Make = Callable[..., Path]


@pytest.fixture
def engine(tmp_path: Path) -> Make:
    """Makes a runsc that does something else on some platforms, and writes down which it is asked for."""

    def make(**instead: str) -> Path:
        cases = "".join(f"--platform={name}) {what};;\n" for name, what in instead.items())
        path = tmp_path / "runsc"
        path.write_text(
            f'#!/bin/sh\nfor one in "$@"; do\ncase $one in --platform=*) echo "${{one#*=}}" >>{tmp_path}/asked;; esac\n'
            f'case $one in none) ;;\n{cases}esac\ndone\nexec {runsc()} "$@"\n'
        )
        path.chmod(0o755)
        return path

    return make


def asked(folder: Path) -> list[str]:
    found = (folder / "asked").read_text().split() if (folder / "asked").exists() else []
    (folder / "asked").unlink(missing_ok=True)
    return found


def left(path: Path) -> list[str]:
    """Return the processes that name a path."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if str(path).encode() in words:
            found.append(words.decode(errors="replace"))
    return found


def test_systrap_is_taken_and_kvm_not_even_tried(tmp_path: Path, engine: Make) -> None:
    assert platforms.choose(engine(kvm="exit 9"), tmp_path) == platforms.Choice("systrap")
    assert asked(tmp_path) == ["systrap"]


def test_where_systrap_fails_ptrace_is_taken_and_the_reason_is_told(tmp_path: Path, engine: Make) -> None:
    choice = platforms.choose(engine(systrap="echo no such syscall >&2; exit 5"), tmp_path)
    assert choice == platforms.Choice("ptrace", "systrap does not work here: no such syscall")
    assert str(choice) == "ptrace (systrap does not work here: no such syscall)"


def test_what_hangs_is_ended_with_all_that_it_started(tmp_path: Path, engine: Make) -> None:
    binary = engine(systrap=f"setsid sh -c 'sleep 1000; : {tmp_path}' & sh -c 'sleep 1001; : {tmp_path}'")
    choice = platforms.choose(binary, tmp_path, seconds=2)
    assert choice == platforms.Choice("ptrace", "systrap does not work here: no answer within 2 s")
    assert left(tmp_path) == []


def test_kvm_is_taken_only_if_it_works(tmp_path: Path, engine: Make) -> None:
    # A stand-in that works, since few machines have one.
    good = engine(kvm=f"exec {runsc()} $(echo $* | sed s/=kvm/=ptrace/)")
    assert platforms.choose(good, tmp_path, "kvm") == platforms.Choice("kvm")
    choice = platforms.choose(engine(kvm="sleep 1000"), tmp_path, "kvm", seconds=2)
    assert choice == platforms.Choice("systrap", "kvm does not work here: no answer within 2 s")


def test_what_was_found_holds_until_the_next_boot_or_another_runsc(
    tmp_path: Path, engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = engine(systrap="exit 5")
    platforms.choose(binary, tmp_path)
    assert asked(tmp_path) == ["systrap", "ptrace"]
    platforms.choose(binary, tmp_path)
    assert asked(tmp_path) == ["systrap"]  # a failure is not kept, success is
    monkeypatch.setattr(checks, "boot_id", lambda: "another")
    platforms.choose(binary, tmp_path)
    assert asked(tmp_path) == ["systrap", "ptrace"]
    assert platforms.choose(engine(), tmp_path).name == "systrap"
    assert asked(tmp_path) == ["systrap"]
    platforms.choose(tmp_path / "runsc", tmp_path)
    assert asked(tmp_path) == []


def test_without_any_the_reasons_are_told(tmp_path: Path, engine: Make) -> None:
    binary = engine(systrap="exit 5", ptrace="echo not permitted >&2; exit 6")
    with pytest.raises(EngineFailed, match=r"systrap does not work here: exit code 5; ptrace .* not permitted"):
        platforms.choose(binary, tmp_path)
