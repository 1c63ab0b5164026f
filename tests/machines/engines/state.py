"""Runs inside a sandbox: holds every kind of state a program can have, and checks all of it on SIGUSR1.

Prints `ready`, then for each check `ok N` or `bad N: what`. With `memory` also what only survives when the disk is in
memory: a deleted file of the root filesystem that is still open.
"""

import ctypes
import fcntl
import mmap
import os
import pty
import select
import signal
import socket
import sqlite3
import sys
import threading
import time
import tty

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
HOME = "/var/lib/state"
os.makedirs(HOME, exist_ok=True)


def echo_server(listener: socket.socket) -> None:
    """Answer every connection with what it sends, woken by epoll."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    connections = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                connection, _ = listener.accept()
                connections[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
            else:
                data = connections[fd].recv(100)
                if data:
                    connections[fd].sendall(data)
                else:
                    poll.unregister(fd)
                    connections.pop(fd).close()


def echoes(connection: socket.socket, text: bytes) -> bool:
    connection.settimeout(5)
    connection.sendall(text)
    return connection.recv(100) == text


tcp = socket.create_server(("127.0.0.1", 4001))
unix = socket.socket(socket.AF_UNIX)
unix.bind(HOME + "/sock")
unix.listen()
for server in (tcp, unix):
    threading.Thread(target=echo_server, args=(server,), daemon=True).start()
tcp_client = socket.create_connection(("127.0.0.1", 4001))
unix_client = socket.socket(socket.AF_UNIX)
unix_client.connect(HOME + "/sock")
udp_one, udp_two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
udp_one.bind(("127.0.0.1", 4002))
udp_one.settimeout(5)
left, right = socket.socketpair()
left.send(b"waiting")

gone_tmpfs = open("/tmp/gone", "w+b")
gone_tmpfs.write(b"deleted but open")
gone_tmpfs.flush()
os.unlink("/tmp/gone")
gone_root = None
if "memory" in sys.argv:
    gone_root = open(HOME + "/gone", "w+b")
    gone_root.write(b"deleted but open")
    gone_root.flush()
    os.unlink(HOME + "/gone")

mapped_file = open(HOME + "/mapped", "w+b")
mapped_file.truncate(8192)
mapped = mmap.mmap(mapped_file.fileno(), 8192)
mapped[:6] = b"mapped"
locked = open(HOME + "/locked", "w")
fcntl.flock(locked, fcntl.LOCK_EX)
libc = ctypes.CDLL(None)
watch = libc.inotify_init()
libc.inotify_add_watch(watch, HOME.encode(), 0x100)  # IN_CREATE
pipe_out, pipe_in = os.pipe()
os.write(pipe_in, b"in the pipe")
memory_fd = os.memfd_create("kept")
os.write(memory_fd, b"in a memfd")
master, slave = pty.openpty()
tty.setraw(slave)
children = []
for _ in range(50):
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(1000)
    children.append(pid)
zombie = os.fork()
if zombie == 0:
    os._exit(7)
database = sqlite3.connect(HOME + "/wal.db", isolation_level=None)
database.execute("pragma journal_mode=wal")
database.execute("create table if not exists t (x)")
database.execute("delete from t")
database.execute("insert into t values (1)")
database.execute("begin")
database.execute("insert into t values (2)")
ticks = 0


def tick() -> None:
    global ticks
    ticks += 1
    timer = threading.Timer(0.05, tick)
    timer.daemon = True
    timer.start()


tick()


def lock_is_held() -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            with open(HOME + "/locked", "w") as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os._exit(0)
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def new_connection() -> bool:
    with socket.create_connection(("127.0.0.1", 4001), 5) as connection:
        return echoes(connection, b"new")


def new_unix_connection() -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(HOME + "/sock")
        return echoes(connection, b"new")


def udp_arrives() -> bool:
    udp_two.sendto(b"datagram", ("127.0.0.1", 4002))
    return udp_one.recv(100) == b"datagram"


def socketpair_holds() -> bool:
    kept = right.recv(100) == b"waiting"
    left.send(b"waiting")
    return kept


def inotify_tells() -> bool:
    name = f"made-{time.time_ns()}"
    open(f"{HOME}/{name}", "w").close()
    ready, _, _ = select.select([watch], [], [], 5)
    told = bool(ready) and name.encode() in os.read(watch, 65536)
    os.unlink(f"{HOME}/{name}")
    return told


def pipe_holds() -> bool:
    kept = os.read(pipe_out, 100) == b"in the pipe"
    os.write(pipe_in, b"in the pipe")
    return kept


def pty_works() -> bool:
    os.write(master, b"typed")
    return os.read(slave, 100) == b"typed"


def map_works() -> bool:
    kept = mapped[:6] == b"mapped"
    mapped[100:103] = b"new"
    mapped.flush()
    with open(HOME + "/mapped", "rb") as other:
        other.seek(100)
        return kept and other.read(3) == b"new"


def transaction_is_open() -> bool:
    inside = database.execute("select count(*) from t").fetchone()[0]
    pid = os.fork()
    if pid == 0:
        other = sqlite3.connect(HOME + "/wal.db")
        os._exit(other.execute("select count(*) from t").fetchone()[0])
    outside = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return database.in_transaction and (inside, outside) == (2, 1)


def timers_run() -> bool:
    before = ticks
    time.sleep(0.4)
    return ticks > before


def zombie_is_one() -> bool:
    with open(f"/proc/{zombie}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


CHECKS = {
    "tcp connection": lambda: echoes(tcp_client, b"old"),
    "new tcp connection": new_connection,
    "unix connection": lambda: echoes(unix_client, b"old"),
    "new unix connection": new_unix_connection,
    "udp": udp_arrives,
    "socketpair": socketpair_holds,
    "deleted file on tmpfs": lambda: os.pread(gone_tmpfs.fileno(), 100, 0) == b"deleted but open",
    "deleted file on root": lambda: gone_root is None or os.pread(gone_root.fileno(), 100, 0) == b"deleted but open",
    "mmap": map_works,
    "flock": lock_is_held,
    "inotify": inotify_tells,
    "pipe": pipe_holds,
    "memfd": lambda: os.pread(memory_fd, 100, 0) == b"in a memfd",
    "pty": pty_works,
    "children": lambda: all(alive(pid) for pid in children),
    "zombie": zombie_is_one,
    "sqlite": transaction_is_open,
    "timers": timers_run,
}
print("ready", flush=True)
number = 0
while True:
    signal.sigwait({signal.SIGUSR1})
    number += 1
    bad = []
    for what, check in CHECKS.items():
        try:
            if not check():
                bad.append(what)
        except Exception as error:
            bad.append(f"{what}: {error!r}")
    print(f"bad {number}: {bad}" if bad else f"ok {number}", flush=True)
