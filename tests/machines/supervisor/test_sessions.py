"""What ends with a process, what lives on, time limits and signals."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from takeback.errors import MachineRefused
from takeback.host import proc
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Output
from tests.support.guest import ENV, Guest, collect, shell, until


def alive(pid: int) -> bool:
    return proc.start_time(pid) != ""


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_what_a_command_leaves_in_its_session_ends_with_it(guest: Guest) -> None:
    # One in the same group that holds the output open, one that does not, one in a group of its own (job control).
    text = "sleep 999 & echo $!; sleep 999 >/dev/null 2>&1 & echo $!; set -m; sleep 999 & echo $!"
    done = guest.run(lambda link: shell(link, text))
    pids = [int(pid) for pid in done.out.split()]
    assert len(pids) == 3 and not any(alive(pid) for pid in pids)


def test_what_made_a_session_of_its_own_lives_on_and_holds_nothing_up(guest: Guest, tmp_path: Path) -> None:
    text = f"setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 999' & while [ ! -s {tmp_path}/pid ]; do :; done; echo done"

    async def body(link: Link) -> None:
        done = await shell(link, text)
        assert done.out == b"done\n" and done.ended is not None
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
        kill(pid)

    guest.run(body, 20)


def test_all_output_comes_before_the_end_also_of_what_was_killed(guest: Guest) -> None:
    # The background writer has filled the pipe before the shell ends.
    done = guest.run(lambda link: shell(link, "(echo late; sleep 99) & sleep 0.2; echo last"))
    assert sorted(done.out.split()) == [b"last", b"late"]


def test_a_spawned_process_ends_nothing_and_is_not_held_up_by_what_it_left(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = "(sleep 0.5; echo afterwards; sleep 999) & echo $!"
        started = await link.spawn(Command(["sh", "-c", text], env=ENV, session=False))
        done = await collect(started.output)
        pid = int(done.out)
        assert alive(pid)
        await asyncio.sleep(0.8)
        later = await collect(link.follow(started.id, done.size), done.size)
        assert later.out == b"afterwards\n" and later.ended is not None
        kill(pid)

    guest.run(body)


def test_forgetting_a_process_does_not_kill_the_daemon_it_started(guest: Guest, tmp_path: Path) -> None:
    async def body(link: Link) -> None:
        text = f"(while :; do echo noise || exit; echo x >> {tmp_path}/alive; sleep 0.05; done) & echo $!"
        started = await link.spawn(Command(["sh", "-c", text], env=ENV, session=False))
        pid = int((await collect(started.output)).out.split()[0])
        await link.forget(started.id)
        assert await link.list() == []
        size = (tmp_path / "alive").stat().st_size if (tmp_path / "alive").exists() else 0
        await until(lambda: (tmp_path / "alive").exists() and (tmp_path / "alive").stat().st_size > size + 10)
        kill(pid)

    guest.run(body)


def test_a_time_limit_ends_the_whole_session(guest: Guest) -> None:
    text = "trap '' TERM INT HUP; echo $$; set -m; sleep 999 & echo $!; sleep 999"
    done = guest.run(lambda link: shell(link, text, timeout_ms=400, session=False))
    pids = [int(pid) for pid in done.out.split()]
    assert done.ended is not None
    assert done.ended.timed_out and done.ended.signo == signal.SIGKILL and done.ended.status is None
    assert done.ended.duration_ms >= 350
    assert len(pids) == 2 and not any(alive(pid) for pid in pids)


def test_a_process_that_ends_in_time_has_not_timed_out(guest: Guest) -> None:
    done = guest.run(lambda link: shell(link, "exit 0", timeout_ms=60_000))
    assert done.ended is not None and not done.ended.timed_out


def test_a_signal_reaches_the_group_or_the_whole_session(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = "set -m; sleep 999 & echo $!; set +m; sleep 999 & echo $!; wait"
        started = await link.spawn(Command(["bash", "-c", f"trap 'wait' TERM; {text}"], env=ENV, session=False))
        assert started.output is not None
        said = b""
        while said.count(b"\n") < 2:
            told = await anext(started.output)
            assert isinstance(told, Output)
            said += told.data
        own_group, same_group = (int(pid) for pid in said.split())
        await link.signal(started.id, signal.SIGTERM)
        await until(lambda: not alive(same_group))
        assert alive(own_group)
        await link.signal(started.id, signal.SIGKILL, everything=True)
        await until(lambda: not alive(own_group))
        assert (await link.wait(started.id)).signo == signal.SIGKILL
        with pytest.raises(MachineRefused):
            await link.signal(started.id, signal.SIGTERM)
        with pytest.raises(MachineRefused):
            await link.signal(4711, signal.SIGTERM)

    guest.run(body)


def test_no_such_signal_is_refused(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sleep", "99"], env=ENV))
        with pytest.raises(MachineRefused):
            await link.signal(started.id, 99)
        await link.signal(started.id, 0)
        await link.signal(started.id, signal.SIGKILL)

    guest.run(body)


def test_shutdown_asks_first_and_kills_after_the_grace(guest: Guest, tmp_path: Path) -> None:
    async def body(link: Link) -> list[int]:
        polite = f"trap 'echo bye > {tmp_path}/bye; exit' TERM; echo $$; while :; do sleep 0.05; done"
        stubborn = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 999' & sleep 999"
        pids = []
        for text in (polite, stubborn):
            started = await link.spawn(Command(["sh", "-c", text], env=ENV, session=False))
            assert started.output is not None
            told = await anext(started.output)
            assert isinstance(told, Output)
            pids.append(int(told.data))
        link.shutdown(300)
        await until(lambda: guest.process.poll() is not None)
        return pids

    pids = guest.run(body)
    assert guest.process.returncode == 0
    assert (tmp_path / "bye").read_text() == "bye\n"
    assert not any(alive(pid) for pid in pids)
