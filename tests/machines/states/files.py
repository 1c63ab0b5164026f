"""Files of the root filesystem, and what a program has open of them.

Does not cover: what is refused by name where the disk is in layers, and parted links there; those are `IN_MEMORY`.
"""

from __future__ import annotations

import os
import stat
import tempfile

from tests.machines.states.kinds import (
    Check,
    Helper,
    expect,
    in_child,
    kind,
    kind_in_memory,
    path,
    read,
    text_of,
    token,
    write,
)


@kind
def a_file_with_a_hole() -> Check:
    with open(path("hole"), "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")

    def check() -> None:
        with open(path("hole"), "rb") as file:
            expect(file.read() == bytes(1 << 20) + b"end", True)

    return check


@kind
def owners_and_bits_also_of_a_link() -> Check:
    write(path("set-id"), "x")
    os.chown(path("set-id"), 1234, 4321)
    os.chmod(path("set-id"), 0o6755)
    os.mkdir(path("sticky"))
    os.chmod(path("sticky"), 0o3777)
    os.symlink("/nowhere", path("dangling"))
    os.lchown(path("dangling"), 7, 8)

    def check() -> None:
        file, folder, link = (os.lstat(path(name)) for name in ("set-id", "sticky", "dangling"))
        expect((file.st_uid, file.st_gid, oct(stat.S_IMODE(file.st_mode))), (1234, 4321, "0o6755"))
        expect(oct(stat.S_IMODE(folder.st_mode)), "0o3777")
        expect((link.st_uid, link.st_gid, os.readlink(path("dangling"))), (7, 8, "/nowhere"))

    return check


@kind
def times_in_nanoseconds() -> Check:
    write(path("dated"), "x")
    os.mkdir(path("dated-folder"))
    wanted = {"dated": 1_000_000_000_123_456_789, "dated-folder": 2_000_000_000_000_000_001}
    for name, time in wanted.items():
        os.utime(path(name), ns=(time, time))
    return lambda: expect({name: os.stat(path(name)).st_mtime_ns for name in wanted}, wanted)


@kind
def what_is_in_a_fifo_and_a_new_writer() -> Check:
    os.mkfifo(path("fifo"))
    fd = os.open(path("fifo"), os.O_RDWR)
    os.write(fd, b"kept")

    def add() -> None:
        os.write(os.open(path("fifo"), os.O_WRONLY | os.O_NONBLOCK), b" and new")

    def check() -> None:
        in_child(add)
        expect(read(fd), b"kept and new")
        os.write(fd, b"kept")

    return check


@kind
def a_file_open_for_appending() -> Check:
    write(path("appended"), "first ")
    fd = os.open(path("appended"), os.O_WRONLY | os.O_APPEND)

    def check() -> None:
        before = text_of(path("appended"))
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, b"more ")
        expect(text_of(path("appended")), before + "more ")

    return check


@kind
def an_open_file_that_was_renamed() -> Check:
    write(path("before"), "renamed")
    fd = os.open(path("before"), os.O_RDWR)
    os.rename(path("before"), path("after"))

    def check() -> None:
        expect(os.pread(fd, 100, 0), b"renamed")
        new = token()
        os.pwrite(fd, new.encode(), 0)
        expect(text_of(path("after")), new)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"renamed", 0)

    return check


@kind
def an_open_file_in_a_folder_that_was_renamed() -> Check:
    os.mkdir(path("old-folder"))
    write(path("old-folder/in"), "x")
    fd = os.open(path("old-folder/in"), os.O_RDWR)
    os.rename(path("old-folder"), path("new-folder"))

    def check() -> None:
        new = token()
        os.pwrite(fd, new.encode(), 0)
        expect(text_of(path("new-folder/in")), new)

    return check


@kind
def a_position_shared_with_a_child() -> Check:
    write(path("position"), "0123456789")
    fd = os.open(path("position"), os.O_RDONLY)
    os.lseek(fd, 3, os.SEEK_SET)
    child = Helper(lambda: os.read(fd, 2))

    def check() -> None:
        expect(child.ask(), b"34")
        expect(os.lseek(fd, 0, os.SEEK_CUR), 5)
        os.lseek(fd, 3, os.SEEK_SET)

    return check


@kind
def an_open_folder() -> Check:
    os.mkdir(path("folder"))
    for number in range(30):
        write(path(f"folder/{number}"), str(number))
    folder = os.open(path("folder"), os.O_RDONLY | os.O_DIRECTORY)

    def check() -> None:
        expect(len(os.listdir(folder)), 30)
        fd = os.open("3", os.O_RDONLY, dir_fd=folder)
        expect(os.read(fd, 10), b"3")
        os.close(fd)

    return check


@kind
def what_another_appends_to_a_file_open_for_reading() -> Check:
    write(path("followed"), "first")
    fd = os.open(path("followed"), os.O_RDONLY)

    def check() -> None:
        new = token()

        def append() -> None:
            with open(path("followed"), "a") as file:
                file.write(new)

        os.lseek(fd, 0, os.SEEK_END)
        in_child(append)
        expect(os.read(fd, 100), new.encode())

    return check


@kind
def a_file_open_for_reading_that_another_cuts() -> Check:
    write(path("cut"), "." * 5000)
    fd = os.open(path("cut"), os.O_RDONLY)

    def check() -> None:
        expect(os.fstat(fd).st_size, 5000)
        in_child(lambda: os.truncate(path("cut"), 7))
        expect(os.fstat(fd).st_size, 7)
        in_child(lambda: os.truncate(path("cut"), 5000))

    return check


@kind
def files_of_the_temporary_folders_without_a_name() -> Check:
    unnamed = tempfile.TemporaryFile(dir="/tmp")
    deleted = open("/var/tmp/deleted", "w+b")
    for file in (unnamed, deleted):
        file.write(b"nameless")
        file.flush()
    os.unlink("/var/tmp/deleted")
    return lambda: expect([os.pread(file.fileno(), 100, 0) for file in (unnamed, deleted)], [b"nameless"] * 2)


@kind_in_memory
def a_file_with_two_names() -> Check:
    write(path("one-name"), "x")
    os.link(path("one-name"), path("other-name"))

    def check() -> None:
        new = token()
        write(path("other-name"), new)
        expect(text_of(path("one-name")), new)
        one, other = os.stat(path("one-name")), os.stat(path("other-name"))
        expect((one.st_ino == other.st_ino, one.st_nlink), (True, 2))

    return check


@kind_in_memory
def an_open_file_whose_first_name_is_gone() -> Check:
    write(path("first-name"), "linked")
    fd = os.open(path("first-name"), os.O_RDONLY)
    os.link(path("first-name"), path("second-name"))
    os.unlink(path("first-name"))
    return lambda: expect((os.pread(fd, 100, 0), text_of(path("second-name"))), (b"linked", "linked"))


@kind_in_memory
def an_open_file_that_another_took_the_name_of() -> Check:
    write(path("log"), "old")
    fd = os.open(path("log"), os.O_RDONLY)
    write(path("log.new"), "new")
    os.rename(path("log.new"), path("log"))
    return lambda: expect((os.pread(fd, 100, 0), text_of(path("log"))), (b"old", "new"))


@kind_in_memory
def an_attribute_of_a_file() -> Check:
    write(path("attributed"), "x")
    os.setxattr(path("attributed"), "user.kind", b"value")
    return lambda: expect(os.getxattr(path("attributed"), "user.kind"), b"value")
