"""Starting processes: who they are, what they have, and what is said when they cannot be started."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from pathlib import Path

import pytest

from takeback.errors import MachineRefused, NotStarted
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command
from tests.support.guest import ENV, Guest, collect, run, shell

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")


def test_both_streams_and_the_exit_code_arrive(guest: Guest) -> None:
    done = guest.run(lambda link: shell(link, "echo out; echo err >&2; exit 7"))
    assert (done.out, done.err) == (b"out\n", b"err\n")
    assert done.ended is not None
    assert (done.ended.status, done.ended.signo, done.ended.timed_out, done.ended.total) == (7, None, False, 8)


def test_a_signal_is_told_as_one(guest: Guest) -> None:
    done = guest.run(lambda link: shell(link, "kill -SEGV $$"))
    assert done.ended is not None
    assert (done.ended.status, done.ended.signo) == (None, signal.SIGSEGV)


def test_a_process_has_three_files_its_own_session_and_nothing_of_ours(guest: Guest) -> None:
    text = "readlink /proc/self/fd/0; ls /proc/$$/fd; umask; pwd; env; exec grep -E 'SigBlk|SigIgn' /proc/self/status"
    done = guest.run(lambda link: shell(link, text, cwd="/usr", env={"A": "b c", **ENV}))
    lines = done.out.decode().splitlines()
    assert lines[0] == "/dev/null"
    assert {line for line in lines[1:] if line.isdigit() and len(line) < 4} == {"0", "1", "2"}
    assert "0022" in lines and "/usr" in lines and "A=b c" in lines
    signals = {line.split()[0]: int(line.split()[1], 16) for line in lines if line.startswith("Sig")}
    assert signals["SigBlk:"] == 0 and signals["SigIgn:"] == 0
    assert not any(line.startswith(("TAKEBACK_ROOT", "ASAN")) for line in lines)


def test_file_limits_are_those_the_supervisor_was_started_with(guest: Guest) -> None:
    import resource

    done = guest.run(lambda link: shell(link, "ulimit -n"))
    assert int(done.out) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@root_only
def test_user_group_and_further_groups_are_taken_on(guest: Guest) -> None:
    done = guest.run(lambda link: run(link, ["id"], uid=1234, gid=2345, groups=(3456, 27)))
    text = done.out.decode()
    assert "uid=1234" in text and "gid=2345" in text and "3456" in text and "27" in text
    assert "0(root)" not in text
    status = guest.run(lambda link: run(link, ["cat", "/proc/self/status"], uid=1234, gid=2345))
    assert b"Uid:\t1234\t1234\t1234\t1234" in status.out and b"Groups:\t \n" in status.out


@root_only
def test_a_folder_the_user_may_not_enter_is_refused_as_that_user(guest: Guest, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(NotStarted) as caught:
        guest.run(lambda link: run(link, ["true"], uid=1234, gid=1234, cwd=str(closed)))
    assert (caught.value.fields["stage"], caught.value.fields["errno"]) == ("cwd", errno.EACCES)
    assert caught.value.fields["path"] == str(closed)


@pytest.mark.parametrize(
    ("options", "stage", "number"),
    [
        ({"argv": ["no-such-program"]}, "exec", errno.ENOENT),
        ({"argv": ["/no/such/program"]}, "exec", errno.ENOENT),
        ({"argv": ["/etc/passwd"]}, "exec", errno.EACCES),
        ({"argv": ["/etc"]}, "exec", errno.EACCES),
        ({"argv": ["true"], "cwd": "/no/such/folder"}, "cwd", errno.ENOENT),
        ({"argv": ["true"], "cwd": "/etc/passwd"}, "cwd", errno.ENOTDIR),
        ({"argv": ["sh", "-c", ":", "x" * (256 * 1024)]}, "exec", errno.E2BIG),
    ],
)
def test_what_cannot_be_started_says_why(guest: Guest, options: dict[str, object], stage: str, number: int) -> None:
    async def body(link: Link) -> None:
        with pytest.raises(NotStarted) as caught:
            await link.spawn(Command(env=ENV, **options))  # type: ignore[arg-type]
        assert (caught.value.fields["stage"], caught.value.fields["errno"]) == (stage, number)
        assert (await shell(link, "echo fine")).out == b"fine\n"
        assert len(await link.list()) == 1

    guest.run(body)


def test_a_program_is_looked_for_in_the_path_of_its_own_environment(guest: Guest, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "tool").write_text("not executable")
    (tmp_path / "two" / "tool").write_text("#!/bin/sh\necho two\n")
    (tmp_path / "two" / "tool").chmod(0o755)
    (tmp_path / "two" / "plain").write_text("echo $0 $1\n")  # no #!: a shell's script
    (tmp_path / "two" / "plain").chmod(0o755)
    env = {"PATH": f"{tmp_path}/none:{tmp_path}/one:{tmp_path}/two"}
    assert guest.run(lambda link: run(link, ["tool"], env=env)).out == b"two\n"
    assert guest.run(lambda link: run(link, ["plain", "x"], env=env)).out == f"{tmp_path}/two/plain x\n".encode()
    assert guest.run(lambda link: run(link, ["./plain", "y"], env={}, cwd=str(tmp_path / "two"))).out == b"./plain y\n"


def test_arguments_and_environment_of_nearly_a_mebibyte_arrive(guest: Guest) -> None:
    argv = ["sh", "-c", 'echo $# "$BIG" | wc -c', "sh", *("a" * 1000 for _ in range(700))]
    env = {**ENV, "BIG": "b" * 100_000}
    assert guest.run(lambda link: run(link, argv, env=env)).out.strip() == b"100005"


def test_bytes_that_are_no_text_arrive_as_they_are(guest: Guest) -> None:
    assert guest.run(lambda link: run(link, ["printf", "%s", b"\xff\xfe\n\x80"])).out == b"\xff\xfe\n\x80"


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
def test_a_request_that_makes_no_sense_is_refused(guest: Guest, argv: list[str]) -> None:
    with pytest.raises(MachineRefused):
        guest.run(lambda link: run(link, argv))


def test_a_hundred_processes_run_at_once(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = "for i in 1 2 3 4 5 6 7 8; do echo line $i; echo error $i >&2; done; exit 3"
        started = [await link.spawn(Command(["sh", "-c", f"read go; {text}"], env=ENV, stdin=True)) for _ in range(100)]
        assert sum(one.ended is None for one in await link.list()) == 100
        for one in started:
            await link.write_stdin(one.id, b"go\n")
        for done in await asyncio.gather(*(collect(one.output) for one in started)):
            assert len(done.out) == 8 * 7 and len(done.err) == 8 * 8
            assert done.ended is not None and done.ended.status == 3

    guest.run(body)


def test_the_last_sixty_four_ended_are_kept(guest: Guest) -> None:
    async def body(link: Link) -> None:
        for number in range(70):
            await shell(link, f"echo {number}")
        kept = await link.list()
        assert len(kept) == 64
        assert (await collect(link.follow(kept[0].id))).out == b"6\n"
        assert (await collect(link.follow(kept[-1].id))).out == b"69\n"
        await link.forget(kept[-1].id)
        assert len(await link.list()) == 63
        with pytest.raises(MachineRefused):
            await collect(link.follow(kept[-1].id))

    guest.run(body)


def test_an_ended_process_is_kept_until_its_followers_were_told(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = "head -c 20000 /dev/zero"
        started = [await link.spawn(Command(["sh", "-c", text], env=ENV), window=10) for _ in range(70)]
        for one in started:
            await link.wait(one.id)
        assert len(await link.list()) == 70
        for done in await asyncio.gather(*(collect(one.output) for one in started)):
            assert done.size == 20_000 and done.ended is not None
        await link.ping()
        assert len(await link.list()) == 64

    guest.run(body)


def test_no_zombie_and_no_descriptor_is_left_behind(guest: Guest) -> None:
    async def body(link: Link) -> None:
        for _ in range(20):
            await shell(link, "(sleep 0 &) ; true | true")
        await asyncio.sleep(0.2)
        children = Path(f"/proc/{guest.process.pid}/task/{guest.process.pid}/children").read_text()
        assert children == ""
        assert len(os.listdir(f"/proc/{guest.process.pid}/fd")) <= 4

    guest.run(body)


def test_the_list_tells_of_running_and_ended_processes(guest: Guest) -> None:
    async def body(link: Link) -> None:
        await shell(link, "printf 12345; exit 4", cwd="/usr")
        running = await link.spawn(Command(["sleep", "100"], env=ENV, stdin=True, timeout_ms=99_000, session=False))
        ended, alive = await link.list()
        assert ended.ended is not None and (ended.ended.status, ended.total, ended.cwd) == (4, 5, b"/usr")
        assert ended.started_ms > 1_600_000_000_000 and ended.ended_ms >= ended.started_ms
        assert (alive.id, alive.pid, alive.argv) == (running.id, running.pid, (b"sleep", b"100"))
        assert alive.ended is None and alive.stdin_open and not alive.pty and alive.timeout_ms == 99_000
        with pytest.raises(MachineRefused):
            await link.forget(running.id)
        await link.signal(running.id, signal.SIGKILL)
        assert (await link.wait(running.id)).signo == signal.SIGKILL

    guest.run(body)
