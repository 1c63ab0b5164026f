"""Processes: their trees, their ends that nobody asked for, what they may do, timers, threads, shells.

Does not cover: a child that was stopped.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable

from tests.machines.states.kinds import (
    PATIENCE,
    Check,
    Helper,
    called,
    expect,
    forked,
    keep,
    kind,
    kind_in_memory,
    libc,
    path,
    soon,
    text_of,
)

PR_SET_NAME, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 15, 38, 39


@kind
def a_tree_twenty_processes_deep() -> Check:
    def grow() -> None:
        for _ in range(20):
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
                os._exit(0)

    leaf = Helper(lambda: b"deep", begin=grow)
    return lambda: expect(leaf.ask(), b"deep")


@kind
def ends_of_children_that_nobody_asked_for() -> Check:
    def end(number: int) -> Callable[[], None]:
        return lambda: os._exit(number) if number % 2 else os.kill(os.getpid(), signal.SIGKILL)

    children = [forked(end(number)) for number in range(10)]
    wanted = [(os.CLD_EXITED, number) if number % 2 else (os.CLD_KILLED, signal.SIGKILL) for number in range(10)]

    def ended() -> list[tuple[int, int]]:
        found = [os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) for pid in children]
        return [(one.si_code, one.si_status) for one in found if one is not None]

    def state(pid: int) -> str:
        return text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]

    def check() -> None:
        expect(ended(), wanted)
        expect({state(pid) for pid in children}, {"Z"})

    expect(ended(), wanted)
    return check


@kind
def what_a_process_is_and_may_do() -> Check:
    nice = os.getpriority(os.PRIO_PROCESS, 0)

    def begin() -> None:
        os.setsid()
        os.nice(3)
        os.umask(0o027)
        os.chdir("/usr/bin")
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, 99))
        os.setgroups([5, 6])
        os.setresgid(1001, 1002, 1003)
        os.setresuid(1000, 1000, 1000)
        called(libc.prctl(PR_SET_NAME, b"renamed", 0, 0, 0))
        called(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    def answer() -> bytes:
        umask = os.umask(0)
        os.umask(umask)
        status = dict(
            line.split(":\t", 1) for line in text_of("/proc/thread-self/status").splitlines() if ":\t" in line
        )
        seen = {
            "users": os.getresuid(),
            "groups": (*os.getresgid(), *os.getgroups()),
            "leads its session": os.getsid(0) == os.getpid(),
            "nice": os.getpriority(os.PRIO_PROCESS, 0) - nice,
            "umask": umask,
            "folder": os.getcwd(),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "name": status["Name"],
            "capabilities": int(status["CapEff"], 16),
            "no new privileges": int(libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)),
            "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "pending": sorted(signal.sigpending()),
            "interrupt": str(signal.getsignal(signal.SIGINT)),
        }
        return json.dumps(seen).encode()

    wanted = {
        "users": [1000, 1000, 1000],
        "groups": [1001, 1002, 1003, 5, 6],
        "leads its session": True,
        "nice": 3,
        "umask": 0o027,
        "folder": "/usr/bin",
        "files": [77, 99],
        "name": "renamed",
        "capabilities": 0,
        "no new privileges": 1,
        "blocked": [signal.SIGTERM],
        "pending": [signal.SIGTERM],
        "interrupt": str(signal.SIG_IGN),
    }
    process = Helper(answer, begin)
    return lambda: expect(json.loads(process.ask()), wanted)


@kind
def a_folder_to_work_in_that_was_deleted() -> Check:
    return deleted_folder("/tmp/work")


@kind_in_memory
def a_folder_of_the_disk_to_work_in_that_was_deleted() -> Check:
    return deleted_folder(path("work"))


def deleted_folder(folder: str) -> Check:
    def begin() -> None:
        os.mkdir(folder)
        os.chdir(folder)
        os.rmdir(folder)

    process = Helper(lambda: f"{os.listdir('.')} {os.readlink('/proc/self/cwd')}".encode(), begin)

    def check() -> None:
        expect(process.ask().decode().removesuffix(" (deleted)"), f"[] {folder}")
        expect(os.path.exists(folder), False)

    return check


@kind
def an_interval_timer_of_a_process() -> Check:
    shared = mmap.mmap(-1, 4096)

    def count(*_: object) -> None:
        shared[0] = (shared[0] + 1) % 256

    def tick() -> None:
        signal.signal(signal.SIGALRM, count)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        while True:
            signal.pause()

    forked(tick)

    def check() -> None:
        for _ in range(2):
            before = shared[0]
            expect(soon(lambda before=before: shared[0] != before), True)  # type: ignore[misc]

    return check


@kind
def thirty_threads_that_wait() -> Check:
    condition = threading.Condition()
    waiting = woken = 0

    def wait() -> None:
        nonlocal waiting, woken
        with condition:
            while True:
                waiting += 1
                condition.wait()
                waiting -= 1
                woken += 1

    for _ in range(30):
        threading.Thread(target=wait, daemon=True).start()
    expect(soon(lambda: waiting == 30), True)

    def check() -> None:
        before = woken
        with condition:
            condition.notify_all()
        expect(soon(lambda: (waiting, woken - before) == (30, 30)), True)

    return check


@kind
def a_shell_in_a_terminal_with_a_job() -> Check:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("bash", "bash --norc --noprofile --noediting -i".split())

    def type_and_see(text: str, word: str) -> str:
        """Return what is shown until a word comes."""
        os.write(terminal, text.encode())
        shown = ""
        until = time.monotonic() + PATIENCE
        while word not in shown and time.monotonic() < until:
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 4096).decode()
        expect(word in shown or shown, True)
        return shown

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    # Words that are waited for are typed in two parts: what is typed may be shown too.
    type_and_see('PS1=; stty -echo; kept=yes; sleep 10000 & echo o"k"\n', "ok")

    def check() -> None:
        seen = type_and_see('echo $kept $(jobs -r | wc -l) $(stty size) e"n"d\n', "end")
        expect("yes 1 33 111 end" in seen or seen, True)
        type_and_see("sh -c 'echo beg\"u\"n; exec sleep 10000'\n", "begun")
        # The engine interrupts, and leaves the character among what is typed: the line is ended after it.
        os.write(terminal, b"\x03\n")
        type_and_see('echo aft"e"r\n', "after")

    return check


@kind
def a_loop_of_a_shell_between_two_pipes() -> Check:
    loop = 'while read line; do echo "<$line>"; done'
    shell = keep(subprocess.Popen(loop, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert shell.stdin is not None and shell.stdout is not None
    into, out = shell.stdin, shell.stdout

    def check() -> None:
        into.write(b"a\n")
        into.flush()
        expect(out.readline(), b"<a>\n")

    return check
